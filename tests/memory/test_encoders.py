"""What the towers of Qwen-VL add to the profile run: against what engines logged, and by hand."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.architecture.encoders.media import PatchedMedia
from service.architecture.model import ModelArchitecture
from service.memory.budget_estimator import estimate_budget
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, Estimate
from service.memory.constants import constants_at
from service.memory.encoders import EncodedItems, encoded_items, encoders
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from service.units import GIB
from tests.memory.recorded import altered, bundled

QWEN3_VL = "Qwen/Qwen3-VL-30B-A3B-Instruct"
QWEN36 = "Qwen/Qwen3.6-35B-A3B"
QWEN25_VL: dict[str, Any] = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "torch_dtype": "bfloat16",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 128000,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
"""The config of Qwen/Qwen2.5-VL-7B-Instruct, as far as it counts here."""


def _media(architecture: ModelArchitecture) -> PatchedMedia:
    (tower,) = architecture.media.towers
    assert tower.media is not None
    return tower.media


def _run(tokens: int, max_model_len: int, ranks: int = 1) -> ProfileRun:
    return ProfileRun(
        shards=Shards(ranks),
        element_bytes=2,
        tokens=tokens,
        sequences=256,
        samples=True,
        encodes=True,
        v2_model_runner=False,
        compiles_embedding=False,
        draft_tokens=False,
        max_model_len=max_model_len,
    )


@pytest.mark.parametrize(
    ("release", "model", "tokens", "max_model_len", "logged"),
    [
        ("0.11.0", QWEN3_VL, 2048, 65536, (153_600, 1)),
        ("0.11.0", QWEN3_VL, 8192, 32768, (153_600, 1)),
        ("0.23.0", None, 2048, 128_000, (114_688, 1)),
        ("0.22.0", QWEN36, 2048, 1024, (16_384, 1)),
        ("0.20.2", QWEN36, 32_768, 65_536, (32_768, 2)),
    ],
)
def test_the_encoder_cache_has_the_places_that_engines_log(
    release: str, model: str | None, tokens: int, max_model_len: int, logged: tuple[int, int]
) -> None:
    """``Encoder cache will be initialized with a budget of ... tokens, and profiled with ... items``."""
    architecture = altered(model, None if model else QWEN25_VL)
    encoded = encoded_items(
        _media(architecture), constants_at(Version(release)).encoders, _run(tokens, max_model_len)
    )

    assert (encoded.budget, encoded.items) == logged


@pytest.mark.parametrize(
    ("release", "encoded"),
    [("0.12.0", EncodedItems(1, 12_288, 153_600)), ("0.13.0", EncodedItems(1, 16_384, 16_384))],
)
def test_timestamps_count_no_longer_since_0_13(release: str, encoded: EncodedItems) -> None:
    """12,288 tokens of a video take 12.5 places each; without, an image of 16,384 is larger."""
    constants = constants_at(Version(release)).encoders

    assert encoded_items(_media(bundled(QWEN3_VL)), constants, _run(2048, 65536)) == encoded


@pytest.mark.parametrize(
    ("max_model_len", "tokens"),
    [(1024, 16_384), (32_767, 16_384), (32_768, 32_768), (100_000, 98_304), (1_000_000, 114_688)],
)
def test_a_video_of_qwen2_5_vl_has_as_many_frames_as_the_context_holds(
    max_model_len: int, tokens: int
) -> None:
    """Two frames take 16,384 tokens, and no video has more than 14 frames."""
    media = _media(altered(None, QWEN25_VL))
    encoded = encoded_items(media, constants_at(Version("0.23.0")).encoders, _run(2048, max_model_len))

    assert encoded.tokens == tokens


def test_outputs_spread_over_the_encoder_cache_stay() -> None:
    """0.11.0, by hand, where the decoder's own peak is far above the tower's.

    153,600 places and 12,288 tokens more, of 2048 x (1 + 3) elements of 2 bytes, and the pixels of
    49,152 patches of 3 x 2 x 16 x 16: 2,516,582,400 + 201,326,592 + 150,994,944.
    """
    (added,) = encoders(
        bundled(QWEN3_VL), constants_at(Version("0.11.0")).encoders, _run(2048, 65536), decoder_peak=100 * GIB
    )

    assert added.bytes == 2_868_903_936
    assert added.low < 0.7 * added.bytes
    assert added.high > 1.3 * added.bytes
    assert added.basis is Basis.ASSUMED


def test_only_what_the_tower_takes_beyond_the_decoder_counts() -> None:
    """0.13.0, by hand: 65,536 patches of 1536 pixel values and 13 x 1152 elements, of 2 bytes."""
    constants = constants_at(Version("0.13.0")).encoders
    run = _run(2048, 65536)
    (alone,) = encoders(bundled(QWEN3_VL), constants, run, decoder_peak=0)
    (beside,) = encoders(bundled(QWEN3_VL), constants, run, decoder_peak=GIB)

    assert alone.bytes == 65_536 * (1536 + 13 * 1152) * 2
    assert beside.bytes == alone.bytes - GIB


def test_ranks_share_a_block_but_not_its_input() -> None:
    """By hand, of the 13 x 1152 elements: 2 x 1152 in full, 11 x 1152 / 4 of each of four ranks."""
    (added,) = encoders(
        bundled(QWEN3_VL),
        constants_at(Version("0.13.0")).encoders,
        _run(2048, 65536, ranks=4),
        decoder_peak=0,
    )

    assert added.bytes == 65_536 * (1536 + 2 * 1152 + 11 * 288) * 2


def _inputs(release: str, total_gib: float, capability: tuple[int, int], share: float) -> BudgetInputs:
    total = round(total_gib * GIB)
    return BudgetInputs(
        release=Version(release),
        total=Estimate(total, total, total, Basis.GIVEN, "the card"),
        compute_capability=capability,
        gpu_memory_utilization=share,
        max_num_batched_tokens=2048,
        max_num_seqs=256,
        max_model_len=65_536,
    )


@pytest.mark.parametrize(
    ("architecture", "inputs", "weights_gib", "available_gib"),
    [
        (
            bundled(QWEN3_VL),
            replace(_inputs("0.11.0", 23.56, (8, 6), 0.9), tensor_parallel_size=4),
            14.77,
            2.31,
        ),
        (
            altered(None, QWEN25_VL),
            replace(_inputs("0.23.0", 79.25, (8, 0), 0.22), max_model_len=128_000),
            15.67,
            -14.28,
        ),
    ],
    ids=["Qwen3-VL-30B-A3B on four RTX 3090, 0.11.0", "Qwen2.5-VL-7B on an A100, 0.23.0"],
)
def test_logged_starts_lie_inside(
    architecture: ModelArchitecture, inputs: BudgetInputs, weights_gib: float, available_gib: float
) -> None:
    """Two public logs that the scoreboard does not have; the second could not start for its tower alone.

    The text model alone would leave more than 2 GiB too much.
    """
    budget = estimate_budget(architecture, inputs)
    taken = budget.available_kv.bytes + budget.weights.bytes
    blind = estimate_budget(architecture, replace(inputs, language_model_only=True))

    assert budget.available_kv.low <= available_gib * GIB <= budget.available_kv.high
    assert taken / GIB == pytest.approx(weights_gib + available_gib, abs=0.45)
    assert blind.available_kv.bytes / GIB > available_gib + 2


@pytest.mark.parametrize(("release", "encodes"), [("0.26.0", False), ("0.27.0", True)])
def test_the_v2_model_runner_encodes_since_0_27(release: str, encodes: bool) -> None:
    inputs = replace(_inputs(release, 79.25, (9, 0), 0.9), v2_model_runner=True)
    budget = estimate_budget(bundled(QWEN3_VL), inputs)
    blind = estimate_budget(bundled(QWEN3_VL), replace(inputs, language_model_only=True))

    assert (budget.activation.bytes > blind.activation.bytes) is encodes
