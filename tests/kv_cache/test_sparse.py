"""Sparse attention with caches of its own against what real releases answered."""

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers.attention import Attention
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.per_token import token_bytes
from tests.accuracy.recorded import SPARSE

M3 = "MiniMaxM3SparseForConditionalGeneration/defaults"
HY_V4 = "HYV4ForCausalLM/defaults"


def test_minimax_m3_picks_blocks_in_all_but_its_first_three_layers() -> None:
    mixers = [layer.mixer for layer in SPARSE.architecture(M3).layers]

    selects = [isinstance(mixer, Attention) and mixer.block_indexer is not None for mixer in mixers]

    assert selects == [False] * 3 + [True] * 57


def test_a_picking_layer_keeps_a_key_of_16_bits_beside_whatever_the_cache_is() -> None:
    """60 layers of 4 heads with 128 elements of keys and of values, 57 with 128 elements more."""
    kept = token_bytes(SPARSE.architecture(M3))

    assert kept["auto"].later == 60 * 4 * 256 * 2 + 57 * 128 * 2
    assert kept["fp8"].later == 60 * 4 * 256 + 57 * 128 * 2


@pytest.mark.parametrize(
    ("release", "block_size", "fails"),
    [("0.24.0", None, True), ("0.24.0", 128, False), ("0.30.0", None, True), ("0.31.0", None, False)],
)
def test_blocks_that_no_picking_layer_can_cut_fail_once_caches_are_set_up(
    release: str, block_size: int | None, fails: bool
) -> None:
    flags = ServeFlags(tensor_parallel_size=8, block_size=block_size)

    start = dry_start(SPARSE.architecture(M3), flags, rules_for(Version(release)), find_gpu("h200-sxm-141gb"))

    assert bool(start.fails_when_run) is fails
    assert all("No common block size for 16" in words for words in start.fails_when_run)


def test_an_indexer_must_have_as_many_heads_as_there_are_keys() -> None:
    document = {
        "architectures": ["MiniMaxM3SparseForCausalLM"],
        "model_type": "minimax_m3_vl",
        "text_config": {"model_type": "minimax_m3_text", "num_key_value_heads": 8},
    }

    with pytest.raises(InvalidConfig, match="must be num_key_value_heads, 8"):
        read_architecture(read_document(document))


def test_hy_v4_picks_anew_in_every_fourth_layer() -> None:
    mixers = [layer.mixer for layer in SPARSE.architecture(HY_V4).layers]

    anew = [
        index
        for index, mixer in enumerate(mixers)
        if isinstance(mixer, MultiHeadLatentAttention)
        and mixer.indexer
        and not mixer.indexer.reuses_selection
    ]

    assert anew == [0, *range(1, 34, 4)]
