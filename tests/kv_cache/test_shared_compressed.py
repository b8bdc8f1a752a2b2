"""DeepSeek V4.1: caches worked out by hand, and what the engine refuses of it."""

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers.compressed_attention import SharedCompressedAttention
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.catalog import find_gpu
from service.kv_cache.packing import bytes_per_block
from service.kv_cache.per_token import token_bytes
from service.kv_cache.specs import AttentionSpec, CacheKind
from tests.accuracy.recorded import SHARED

FLASH = "DeepseekV41ForCausalLM/Flash"
MODEL = SHARED.architecture(FLASH)


def start(flags: ServeFlags, release: str = "0.33.0", gpu: str = "h200-sxm-141gb") -> Start:
    return dry_start(MODEL, flags, rules_for(Version(release)), find_gpu(gpu))


def pages(found: Start) -> dict[tuple[CacheKind, int], tuple[int, int]]:
    """Return number and page of the caches by kind and tokens of an entry."""
    (stage,) = found.layout.layers
    return {
        (layers.spec.kind, layers.spec.page_size): (layers.count, layers.spec.block_size)
        for layers in stage
        if isinstance(layers.spec, AttentionSpec)
    }


def test_four_layers_compress_what_the_layers_after_them_read() -> None:
    mixers = [layer.mixer for layer in MODEL.layers]
    assert all(isinstance(mixer, SharedCompressedAttention) for mixer in mixers)
    shared = [mixer for mixer in mixers if isinstance(mixer, SharedCompressedAttention)]

    assert [index for index, mixer in enumerate(shared) if mixer.compresses] == [2, 8, 14, 20]
    assert [index for index, mixer in enumerate(shared) if mixer.indexer] == [2, 8, 14, 20, 24, 28, 32, 36]
    assert [index for index, mixer in enumerate(shared) if mixer.pools] == [2, 8, 14]
    assert [index for index, mixer in enumerate(shared) if not mixer.reads_compressed] == [0, 1]


def test_pages_on_hopper() -> None:
    """Rows of 584 bytes and keys of 132, in pages of whole 576 bytes; blocks of 64 tokens, windows of 32."""
    found = start(ServeFlags(tensor_parallel_size=8, max_model_len=32_768))

    window, half, whole = 33 * 576, 33 * 576, 65 * 576
    assert window >= 32 * 584 > window - 576
    assert whole >= 64 * 584 > whole - 576
    half_keys, keys = 8 * 576, 15 * 576
    assert half_keys >= 32 * 132
    assert keys >= 64 * 132
    assert pages(found) == {
        (CacheKind.SLIDING_WINDOW_MLA, window): (40, 32),
        (CacheKind.MLA_ATTENTION, half): (3, 64),
        (CacheKind.MLA_ATTENTION, half_keys): (3, 64),
        (CacheKind.MLA_ATTENTION, whole): (1, 64),
        (CacheKind.MLA_ATTENTION, keys): (1, 64),
        # Keys and scores of eight tokens, 512 elements each in 32 bits.
        (CacheKind.CIRCULAR_BUFFER, 8 * 2 * 512 * 4): (3, 8),
    }
    # The compressed tokens decide a block; six windows go into as many bytes, and so seven groups hold them.
    block = 3 * (half + half_keys) + whole + keys
    assert (
        bytes_per_block(found.layout.stages[0], found.engine_config.rules.pages.packed_block_bytes) == block
    )
    assert [group.num_layers for group in found.layout.groups] == [6, 6, 6, 6, 6, 5, 5, 8, 3]


@pytest.mark.parametrize(
    ("release", "rows"),
    [
        # FlashMLA alone: fp8 throughout.
        ("0.30.0", 528),
        # Its joined kernel reads compressed tokens in NVFP4.
        ("0.32.0", 288),
        ("0.33.0", 288),
    ],
)
def test_blocks_on_blackwell(release: str, rows: int) -> None:
    """Pages are multiples of 512 bytes; since 0.33.0 a block is one of the rows of windows and of tokens."""
    found = start(ServeFlags(tensor_parallel_size=8, max_model_len=32_768), release, "b200-180gb")

    assert 64 * 132 <= 17 * 512
    block = 3 * (64 * rows + 17 * 512) + 128 * rows + 128 * 132
    if release == "0.33.0":
        # 528 = 16 x 33 and 288 = 32 x 9 have 3,168 in common.
        block = -(-block // 3168) * 3168
    assert (
        bytes_per_block(found.layout.stages[0], found.engine_config.rules.pages.packed_block_bytes) == block
    )


def test_a_token_takes_rows_in_four_layers_once_windows_are_full() -> None:
    stored = token_bytes(MODEL)

    assert stored["auto"].later == 2 * 512 * (1 + 3 / 2) + 132 * (1 + 3 / 2)
    assert stored["auto"].first == stored["auto"].later + 40 * 2 * 512


@pytest.mark.parametrize(("drafted", "ring"), [(5, 8), (6, 8), (7, 16)])
def test_the_ring_holds_a_step_with_its_drafts_and_the_token_before(drafted: int, ring: int) -> None:
    flags = ServeFlags(
        tensor_parallel_size=8,
        max_model_len=32_768,
        speculative_config=SpeculativeConfig.parse({"method": "dspark", "num_speculative_tokens": drafted}),
    )

    rings = [
        size for (kind, _), (_, size) in pages(start(flags)).items() if kind is CacheKind.CIRCULAR_BUFFER
    ]

    assert rings == [ring]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ServeFlags(tensor_parallel_size=2, pipeline_parallel_size=4),
            "Compressed-KV source language_model.model.layers.8.attn not found on this rank",
        ),
        (
            ServeFlags(tensor_parallel_size=16),
            "Engram sharding leaves ranks without hash heads: 24 heads over 16 shards",
        ),
        (
            ServeFlags(
                tensor_parallel_size=8,
                speculative_config=SpeculativeConfig.parse({"method": "mtp", "num_speculative_tokens": 1}),
            ),
            "Use speculative method 'dspark' instead of 'mtp'",
        ),
        (
            ServeFlags(tensor_parallel_size=8, kv_cache_dtype="bfloat16"),
            "DeepseekV4 packed KV layouts only support fp8 kv-cache, got bfloat16",
        ),
    ],
)
def test_what_the_engine_refuses(flags: ServeFlags, words: str) -> None:
    with pytest.raises(EngineRefusal, match=words):
        start(flags)


def test_stages_may_part_where_a_layer_compresses_anew() -> None:
    """Twenty layers a stage: the second begins with layer 20, which compresses its own tokens."""
    found = start(ServeFlags(tensor_parallel_size=4, pipeline_parallel_size=2, max_model_len=32_768))

    assert [sum(group.num_layers for group in stage) for stage in found.layout.stages] == [20 + 9, 20 + 2]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kv_source_layer_ids": [3, 8, 14, 20]}, "must name a layer up to 2"),
        ({"index_source_layer_ids": []}, "must name a layer up to 2"),
        ({"kv_source_layer_ids": [0, 2]}, "names a layer that compresses nothing"),
        ({"compress_ratios": [0, 0] + [4] * 38}, r"must have a ratio of \[0, 1, 2\]"),
        ({"head_dim": 256}, "must be 512"),
        ({"engram_num_embeddings": [1]}, "must have an entry for each of 2 layers"),
    ],
)
def test_a_config_that_the_engine_cannot_build(changed: dict[str, object], words: str) -> None:
    config = SHARED.configs[FLASH]
    text = {**config["text_config"], **changed}

    with pytest.raises(InvalidConfig, match=words):
        read_architecture(read_document({**config, "text_config": text}))
