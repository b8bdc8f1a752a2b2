"""What DeepSeek V4.1 keeps on the GPU beside its matrices, worked out by hand."""

import pytest

from service.memory.weights.batch_buffers import ngram_bytes, selection_bytes
from service.memory.weights.modules import Shards
from service.memory.weights.weight_stage import WeightStage
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
