"""Laws that hold for every model and every way to spread it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from service.architecture.config import InvalidConfig, read_document
from service.architecture.pipeline import stage_layers
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.memory.budget_estimator import estimate_budget
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, Estimate
from service.memory.constants import constants_at
from service.memory.graphs import Capture, capture_sizes, cuda_graphs
from service.memory.interval import difference, total
from service.memory.parallelism import Parallelism
from service.memory.shards import Shards
from service.memory.weights.counts.parameters import parameter_bytes, parameter_bytes_per_stage
from tests.memory.recorded import SNAPSHOT, bundled

RELEASE = Version("0.24.0")
TOTAL = 85_029_158_912
INPUTS = BudgetInputs(
    release=RELEASE,
    total=Estimate(TOTAL, TOTAL, TOTAL, Basis.GIVEN, "an H100"),
    compute_capability=(9, 0),
    gpu_memory_utilization=0.9,
    max_num_batched_tokens=8192,
    max_num_seqs=1024,
    max_model_len=8192,
    tensor_parallel_size=2,
    pipeline_parallel_size=2,
)
DENSE = "meta-llama/Llama-3.1-8B"
MODELS = (DENSE, "Qwen/Qwen3-30B-A3B-Instruct-2507", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b")


@pytest.mark.parametrize("model", MODELS)
def test_more_ranks_never_hold_more_each_nor_less_together(model: str) -> None:
    sizes = [parameter_bytes(bundled(model), Parallelism(ranks), RELEASE) for ranks in (1, 2, 4, 8)]

    assert sizes == sorted(sizes, reverse=True)
    assert all(size * ranks >= sizes[0] for size, ranks in zip(sizes, (1, 2, 4, 8), strict=True))


def test_two_ranks_halve_all_but_what_every_rank_has_in_full() -> None:
    architecture = bundled(DENSE)
    norms = (2 * len(architecture.layers) + 1) * architecture.hidden_size * 2
    one, two = (parameter_bytes(architecture, Parallelism(ranks), RELEASE) for ranks in (1, 2))

    assert 2 * (two - norms) == one - norms


def test_a_tied_output_is_not_counted_again() -> None:
    architecture = bundled(DENSE)
    assert not architecture.tie_word_embeddings
    tied = replace(architecture, tie_word_embeddings=True)
    embedding = architecture.vocab_size * architecture.hidden_size * 2

    apart, together = (parameter_bytes(each, Parallelism(), RELEASE) for each in (architecture, tied))

    assert apart - together == embedding


def test_each_stage_of_a_tied_model_that_needs_the_embedding_has_it() -> None:
    tied = replace(bundled(DENSE), tie_word_embeddings=True)
    embedding = tied.vocab_size * tied.hidden_size * 2

    whole = parameter_bytes(tied, Parallelism(), RELEASE)
    stages = parameter_bytes_per_stage(tied, Parallelism(pipeline_parallel_size=2), RELEASE)

    assert sum(stages) == whole + embedding


@given(layers=st.integers(1, 200), stages=st.integers(1, 16))
def test_stages_take_every_layer_once_and_the_last_is_never_the_fullest(layers: int, stages: int) -> None:
    if stages > layers:
        return
    assigned = stage_layers(layers, stages)

    assert [index for stage in assigned for index in stage] == list(range(layers))
    assert max(map(len, assigned)) - min(map(len, assigned)) <= 1
    assert len(assigned[-1]) == min(map(len, assigned))


@pytest.mark.parametrize(
    ("layers", "stages", "counts"), [(61, 2, [31, 30]), (61, 4, [15, 15, 16, 15]), (7, 4, [2, 2, 2, 1])]
)
def test_what_does_not_divide_goes_before_the_last_stage(layers: int, stages: int, counts: list[int]) -> None:
    assert [len(stage) for stage in stage_layers(layers, stages)] == counts


@given(heads=st.sampled_from([1, 2, 4, 8, 16]), ranks=st.sampled_from([1, 2, 4, 8, 16]))
def test_key_heads_are_shared_out_or_replicated(heads: int, ranks: int) -> None:
    mine = Shards(ranks).kv_heads(heads)

    assert mine * ranks == max(heads, ranks)


@given(rows=st.integers(1, 300_000), ranks=st.sampled_from([1, 2, 4, 8]))
def test_a_vocabulary_is_padded_to_64_before_it_is_split(rows: int, ranks: int) -> None:
    mine = Shards(ranks).vocabulary(rows)

    assert mine * ranks % 64 == 0
    assert 0 <= mine * ranks - rows < 64


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    size = draw(st.integers(0, 1 << 40))
    below, above = draw(st.integers(0, 1 << 36)), draw(st.integers(0, 1 << 36))
    return Estimate(size, size - below, size + above, draw(st.sampled_from(Basis)), "drawn")


@given(whole=estimates(), parts=st.lists(estimates(), min_size=1, max_size=5))
def test_a_remainder_is_exact_in_the_middle_and_as_unsure_as_its_parts(
    whole: Estimate, parts: list[Estimate]
) -> None:
    left = difference(whole, parts, "left")
    taken = total(parts, "taken")

    assert left.bytes == whole.bytes - taken.bytes
    # More taken is less left: the intervals change sides.
    assert left.bytes - left.low >= max(part.high - part.bytes for part in parts) - 1
    assert left.high - left.bytes <= (whole.high - whole.bytes) + sum(p.bytes - p.low for p in parts) + 1


def fields(document: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every number, list and null of a config."""
    if not isinstance(document, dict):
        return [path]
    return [found for key, value in document.items() for found in fields(value, (*path, key))]


ODD_MODELS = ("google/gemma-4-E4B-it", "Qwen/Qwen3.5-27B", "moonshotai/Kimi-K2.5", "openai/gpt-oss-20b")
ODD_VALUES: tuple[object, ...] = (None, 0, -1, 1, 3, 7, 2.5, 1e9, 1 << 40, True, "x", [], [0, 0], {})


@given(data=st.data())
def test_an_odd_config_is_refused_or_has_a_budget(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(ODD_MODELS))
    fetched = SNAPSHOT.get(model)
    assert fetched is not None
    document: dict[str, Any] = json.loads(json.dumps(fetched.config))
    *parents, last = data.draw(st.sampled_from(fields(document)))
    place = document
    for key in parents:
        place = place[key]
    place[last] = data.draw(st.sampled_from(ODD_VALUES))
    try:
        architecture = read_architecture(read_document(document))
    except (InvalidConfig, UnknownArchitecture):
        return

    budget = estimate_budget(architecture, INPUTS)

    assert budget.weights.bytes > 0
    assert budget.available_kv.bytes < budget.requested.bytes


CAPTURE = Capture(
    layers=32,
    sequences=1024,
    batch_tokens=8192,
    step_tokens=1,
    blackwell=False,
    eager=False,
    v2_model_runner=False,
    largest=None,
)


@pytest.mark.parametrize(("sequences", "sizes"), [(1, 2), (4, 4), (256, 51), (1024, 51)])
def test_captured_sizes_follow_the_sequences(sequences: int, sizes: int) -> None:
    assert len(capture_sizes(replace(CAPTURE, sequences=sequences), 512, 16)) == sizes


def test_captured_sizes_are_bounded_by_the_batch_and_the_flag() -> None:
    """vLLM 0.19.0, VllmConfig._set_cudagraph_sizes."""
    few = (1, 2, 4, 8, 16, 24, 32)
    assert capture_sizes(replace(CAPTURE, largest=32), 512, 16) == few
    assert capture_sizes(replace(CAPTURE, batch_tokens=39), 512, 16) == few
    assert capture_sizes(replace(CAPTURE, sequences=4, step_tokens=4), 512, 16) == few
    assert capture_sizes(CAPTURE, 1024, 16)[-1] == 1024


@pytest.mark.parametrize(("release", "sizes"), [("0.11.0", 67), ("0.13.0", 51)])
def test_as_many_sizes_are_captured_as_a_log_counts(release: str, sizes: int) -> None:
    """Logs of Qwen3-VL-30B-A3B count up to 67 PIECEWISE graphs, later to 51."""
    constants = constants_at(Version(release)).graphs

    assert len(capture_sizes(CAPTURE, constants.largest.others, constants.step)) == sizes


@pytest.mark.parametrize(
    ("release", "v2", "reserves"),
    [("0.19.1", False, False), ("0.20.0", False, True), ("0.28.0", True, False), ("0.29.0", True, True)],
)
def test_graphs_are_reserved_as_the_release_and_runner_say(release: str, v2: bool, reserves: bool) -> None:
    capture = replace(CAPTURE, v2_model_runner=v2)

    constants, model = constants_at(Version(release)).graphs, bundled("Qwen/Qwen3-8B")
    size = cuda_graphs(model, constants, capture)

    assert (size.bytes > 0) is reserves
    assert cuda_graphs(model, constants, replace(capture, largest=0)).bytes == 0


@pytest.mark.parametrize(("low", "size", "high"), [(2, 1, 3), (1, 4, 3)])
def test_an_interval_holds_its_middle(low: int, size: int, high: int) -> None:
    with pytest.raises(ValueError, match=f"^{size} is not between {low} and {high}$"):
        Estimate(size, low, high, Basis.GIVEN, "")
