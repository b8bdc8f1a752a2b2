"""What DeepSeek V4.1 keeps on the GPU beside its matrices, worked out by hand."""

import pytest

from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from service.memory.host import PINNED, HostFlags, host_memory
from service.memory.shards import Shards
from service.memory.weights.resident.batch_buffers import ngram_bytes, selection_bytes
from service.memory.weights.weight_stage import WeightStage
from service.units import GIB
from tests.accuracy.recorded import SHARED

MODEL = SHARED.architecture("DeepseekV41ForCausalLM/Flash")
TOKENS = 8192


def stage(layers: range, ranks: int) -> WeightStage:
    return WeightStage(Shards(ranks), layers, sequences=256, batch_tokens=TOKENS)


@pytest.mark.parametrize(
    ("layers", "ranks", "rows"), [(range(40), 1, 2 * 24), (range(40), 8, 2 * 3), (range(20, 40), 8, 0)]
)
def test_rows_of_ngrams_come_into_a_buffer_for_each_layer(layers: range, ranks: int, rows: int) -> None:
    """Three lengths of n-grams in eight hashes, 256 elements of two bytes each; layers 1 and 14 read them."""
    assert ngram_bytes(MODEL, stage(layers, ranks)) == TOKENS * rows * 256 * 2


def test_the_buffers_of_what_is_selected_hold_tokens_and_candidates() -> None:
    """512 tokens, and 2,048 blocks of candidates, for each token of a step."""
    assert selection_bytes(MODEL, stage(range(40), 8)) == TOKENS * (512 + 2048) * 4


def test_the_tables_of_ngrams_are_in_the_hosts_memory() -> None:
    """Rows of 256 elements in 8 bits with 8 scales; each data parallel rank may have them alone."""
    lookups = [layer.ngrams for layer in MODEL.layers if layer.ngrams is not None]
    tables = sum(lookup.table_bytes for lookup in lookups)

    assert len(lookups) == 2
    assert tables == sum(lookup.rows for lookup in lookups) * (256 + 8)
    alone, shared = host_memory(HostFlags(), None, 0, None, tables), HostFlags(replicas=2)
    assert (alone.weights.low, alone.weights.high) == (tables, PINNED * tables)
    assert host_memory(shared, None, 0, None, tables).total.high == PINNED * tables * 2


def test_a_plan_says_how_much_of_the_hosts_memory_they_take() -> None:
    found = plan(
        PlanRequest(
            Model("DeepSeek V4.1 Flash", None, "given", MODEL),
            (find_gpu("h200-sxm-141gb"),),
            EngineChoice.of("0.33.0"),
            ServeFlags(tensor_parallel_size=8, max_model_len=32_768),
            search=False,
        )
    )
    (candidate,) = found.plans[0].candidates

    assert candidate.memory is not None
    weights = candidate.memory.host.weights
    assert weights.bytes == weights.low == pytest.approx(189 * GIB, rel=0.002)
