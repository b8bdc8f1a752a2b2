"""Keys of ``--attention-config`` and ``--kv-transfer-config``, against the releases' own source."""

from dataclasses import replace
from typing import Any

import pytest

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.formats import PlainFormat
from service.kv_cache.specs import AttentionSpec
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.recorded import SPARSE

V4, V3 = (bundled_architecture(f"deepseek-ai/DeepSeek-{name}") for name in ("V4-Flash", "V3.2"))
M3 = SPARSE.architecture("MiniMaxM3SparseForConditionalGeneration/defaults")
WINDOWED = bundled_architecture("google/gemma-3-27b-it")
B200, H100 = "b200-180gb", "h100-sxm-80gb"
NIXL, OTHER = "NixlConnector", "LMCacheConnectorV1"


def started(architecture: ModelArchitecture, release: str, gpu: str = B200, **flags: Any) -> Start:  # noqa: ANN401 - any flag's value
    rules = rules_for(find_release(release))
    return dry_start(architecture, replace(ServeFlags(), **flags), rules, find_gpu(gpu))


def refused(architecture: ModelArchitecture, release: str, gpu: str = B200, **flags: Any) -> str:  # noqa: ANN401 - any flag's value
    with pytest.raises(EngineRefusal) as refusal:
        started(architecture, release, gpu, **flags)
    return refusal.value.message


def keys(start: Start) -> dict[int, int]:
    """Return how many layers store keys of how many bytes, beside the attention's own."""
    found: dict[int, int] = {}
    for stage in start.layout.layers:
        for layers in stage:
            spec = layers.spec
            if (
                isinstance(spec, AttentionSpec)
                and isinstance(spec.format, PlainFormat)
                and not spec.head_size_v
            ):
                size = spec.head_size * spec.format.element_bytes
                found[size] = found.get(size, 0) + layers.count
    return found


@pytest.mark.parametrize(
    ("release", "flags", "size"),
    [
        ("0.26.0", {"use_fp4_indexer_cache": True}, 132),
        ("0.27.0", {}, 132),
        ("0.27.0", {"use_fp4_indexer_cache": True}, 68),
        ("0.27.1", {"indexer_kv_dtype": "mxfp4"}, 132),
        ("0.28.0", {}, 132),
        ("0.28.0", {"use_fp4_indexer_cache": True}, 68),
        ("0.28.0", {"indexer_kv_dtype": "mxfp4"}, 68),
        ("0.33.0", {"indexer_kv_dtype": "mxfp4"}, 68),
        ("0.33.0", {"indexer_kv_dtype": "fp8"}, 132),
    ],
)
def test_keys_in_4_bits_take_half_the_room_since_0_27(release: str, flags: dict[str, Any], size: int) -> None:
    """128 elements: 128 bytes and a scale of 4, or 64 and 4 scales (models/deepseek_v4/attention.py).

    To 0.27.1 only ``use_fp4_indexer_cache`` says so there.
    """
    assert {132, 68} & keys(started(V4, release, kv_cache_dtype="fp8", **flags)).keys() == {size}


def test_deepseek_v3_2_keeps_the_room_of_8_bits() -> None:
    """Its indexer has one layout in every release (model_executor/models/deepseek_v2.py Indexer)."""
    assert {132, 68} & keys(started(V3, "0.33.0", indexer_kv_dtype="mxfp4")).keys() == {132}


def test_minimax_m3_stores_keys_in_8_bits() -> None:
    """57 layers select, by keys of 128 elements of 2 bytes, or of 1 (MiniMaxM3IndexerCache)."""
    plain, fp8 = (
        keys(started(M3, "0.28.0", tensor_parallel_size=8, block_size=128, indexer_kv_dtype=dtype))
        for dtype in (None, "fp8")
    )
    assert (plain[256], plain.get(128, 0)) == (57, 0)
    assert (fp8.get(256, 0), fp8[128]) == (0, 57)


@pytest.mark.parametrize(
    ("release", "architecture", "flags", "words"),
    [
        ("0.24.0", V4, {"use_fp4_indexer_cache": True}, "use_fp4_indexer_cache requires Blackwell"),
        ("0.28.0", V4, {"indexer_kv_dtype": "mxfp4"}, "indexer_kv_dtype='mxfp4' requires Blackwell"),
        ("0.28.0", V4, {"indexer_kv_dtype": "nvfp4"}, "expected one of ('fp8', 'mxfp4')"),
        ("0.31.0", V4, {"use_fp4_indexer_cache": True}, "Unexpected keyword argument"),
        (
            "0.28.0",
            M3,
            {"indexer_kv_dtype": "fp8", "tensor_parallel_size": 8},
            "is not supported by the Triton indexer impl",
        ),
    ],
)
def test_what_a_card_or_a_release_cannot_do_is_refused(
    release: str, architecture: ModelArchitecture, flags: dict[str, Any], words: str
) -> None:
    assert words in refused(architecture, release, H100, **flags)


@pytest.mark.parametrize(
    ("release", "connector", "asked", "several"),
    [
        ("0.12.0", NIXL, None, False),
        ("0.12.0", NIXL, True, False),
        ("0.19.1", NIXL, None, False),
        ("0.19.1", NIXL, True, True),
        ("0.21.0", NIXL, None, False),
        ("0.22.0", NIXL, None, True),
        ("0.33.0", NIXL, None, True),
        ("0.33.0", OTHER, None, False),
        ("0.33.0", None, None, True),
    ],
)
def test_a_connector_decides_about_several_kinds_of_cache(
    release: str, connector: str | None, asked: bool | None, several: bool
) -> None:
    """Gemma 3 has windows beside full attention: two kinds of groups, or one without the manager."""
    disabled = None if asked is None else not asked
    start = started(WINDOWED, release, kv_connector=connector, disable_hybrid_kv_cache_manager=disabled)

    assert start.engine_config.hybrid_manager is several
    assert (len({group.spec.kind for group in start.layout.groups}) > 1) is several


@pytest.mark.parametrize("release", ["0.13.0", "0.33.0"])
def test_asking_for_several_kinds_beside_a_connector_without_them_is_refused(release: str) -> None:
    words = refused(WINDOWED, release, kv_connector=OTHER, disable_hybrid_kv_cache_manager=False)

    assert words.startswith("Connector LMCacheConnectorV1 does not support HMA but HMA is enabled.")


def test_throughput_doubles_the_defaults_alone() -> None:
    """vLLM 0.17.0, EngineArgs._set_default_max_num_seqs_and_batched_tokens_args."""
    plain, twice = (
        started(WINDOWED, "0.33.0", performance_mode=mode).engine_config for mode in (None, "throughput")
    )
    given = started(WINDOWED, "0.33.0", performance_mode="throughput", max_num_seqs=7).engine_config

    assert twice.max_num_seqs == 2 * plain.max_num_seqs
    assert twice.max_num_batched_tokens == 2 * plain.max_num_batched_tokens
    assert given.max_num_seqs == 7
