"""What flags of images and videos change in the memory of a rank."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.memory.constants import constants_at
from service.memory.encoders import encoded_items, encoders
from service.memory.media_choices import MediaChoices, squares
from service.memory.parallelism import Parallelism
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.weight_layout import weight_layout_at
from tests.memory.recorded import altered, bundled, records
from tests.memory.test_encoders import QWEN3_VL, QWEN25_VL

GEMMA = "google/gemma-3-27b-it"
VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
TEXT = "Qwen/Qwen2.5-7B-Instruct"
NEWEST = Version("0.32.0")
NOTHING: dict[str, Any] = {"image": 0, "video": 0}


def choices(**flags: Any) -> MediaChoices:  # noqa: ANN401 - values of flags
    objects = {name: JsonObject.of(value) for name, value in flags.items() if isinstance(value, dict)}
    return MediaChoices.of(ServeFlags(**{**flags, **objects}))


def allocated(model: str, ranks: int) -> int:
    """Return the bytes that vLLM 0.13.0 allocates, as it was asked itself."""
    (row,) = (
        row
        for row in records("parameters.json")
        if (row["model"], row["release"], row["tensor_parallel_size"], row["pipeline_parallel_size"])
        == (model, "0.13.0", ranks, 1)
    )
    found: int = row["bytes"][0]
    return found


def run(media: MediaChoices, tokens: int = 2048, length: int = 128_000, ranks: int = 1) -> ProfileRun:
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
        max_model_len=length,
        media=media,
    )


@pytest.mark.parametrize(
    ("ranks", "limits", "builds"),
    [
        (1, NOTHING, False),
        (2, NOTHING, False),
        (1, {"image": 0}, True),
        (1, {"video": 0}, True),
        (1, {"image": {"count": 0}, "video": 0}, False),
    ],
)
def test_a_model_without_images_and_videos_is_its_text_model(
    ranks: int, limits: dict[str, Any], *, builds: bool
) -> None:
    """The text models of both checkpoints are equal, so 0.13.0 allocates the same bytes for them."""
    deployment = Parallelism(tensor_parallel_size=ranks, media=choices(limit_mm_per_prompt=limits))

    size = parameter_bytes(bundled(VISION), deployment, Version("0.13.0"))

    assert size == pytest.approx(allocated(VISION if builds else TEXT, ranks), rel=1e-3)


def test_whole_encoders_are_the_same_bytes_on_any_number_of_ranks() -> None:
    """The tower is what the multimodal model takes beyond the text model on one rank, by 0.13.0 itself."""
    tower = allocated(VISION, 1) - allocated(TEXT, 1)

    size = parameter_bytes(
        bundled(VISION), Parallelism(tensor_parallel_size=2, whole_encoders=True), Version("0.13.0")
    )

    assert size == pytest.approx(allocated(TEXT, 2) + tower, rel=1e-4)


@pytest.mark.parametrize(("release", "builds"), [("0.14.1", True), ("0.15.0", False), ("0.32.0", False)])
def test_gemma_3_builds_its_encoder_for_no_images_until_0_15(release: str, *, builds: bool) -> None:
    """0.14.0, gemma3_mm.py: no get_limit_per_prompt; 0.15.0: _mark_tower_model("image")."""
    with_images = parameter_bytes(bundled(GEMMA), Parallelism(), Version(release))
    media = choices(limit_mm_per_prompt={"image": 0})

    without = parameter_bytes(bundled(GEMMA), Parallelism(media=media), Version(release))

    assert (without == with_images) is builds


def test_an_encoder_that_serves_nothing_is_not_profiled_even_if_it_is_built() -> None:
    media = choices(limit_mm_per_prompt={"image": 0})
    constants = constants_at(Version("0.14.1")).encoders
    layout = weight_layout_at(Version("0.14.1")).towers

    assert encoders(bundled(GEMMA), constants, replace(run(media), towers=layout), 0) == []
    assert encoders(bundled(GEMMA), constants, replace(run(choices()), towers=layout), 0) != []


@pytest.mark.parametrize(
    ("limits", "tokens", "items"),
    [
        # 0.23.0 logs 114,688 tokens of a video for Qwen2.5-VL: without videos, the largest image of 16,384.
        ({}, 114_688, 1),
        ({"video": 0}, 16_384, 1),
        ({"image": 0}, 114_688, 1),
        # By hand: 1,120 x 560 pixels in squares of 28 are 40 x 20 tokens.
        ({"video": 0, "image": {"count": 1, "width": 1120, "height": 560}}, 800, 1),
        # A size above the largest one changes nothing: 3,584 pixels a side.
        ({"video": 0, "image": {"width": 9000, "height": 9000}}, 16_384, 1),
        # 4 of 14 frames.
        ({"image": 0, "video": {"count": 1, "num_frames": 4}}, 32_768, 1),
    ],
)
def test_limits_decide_what_is_profiled(limits: dict[str, Any], tokens: int, items: int) -> None:
    encoded = encoded_items(
        _media(), constants_at(Version("0.23.0")).encoders, run(choices(limit_mm_per_prompt=limits))
    )

    assert (encoded.tokens, encoded.items) == (tokens, items)


def _media() -> Any:  # noqa: ANN401 - sizes of the tower's inputs
    (tower,) = altered(None, QWEN25_VL).media.towers
    return tower.media


@pytest.mark.parametrize(
    ("arguments", "limits", "tokens", "items"),
    [
        # By hand: 1,003,520 pixels in squares of 28 are 1,280 tokens; 8,192 places hold 6 of them.
        ({"max_pixels": 1_003_520}, {"video": 0}, 1280, 6),
        ({"size": {"longest_edge": 1_003_520, "shortest_edge": 3136}}, {"video": 0}, 1280, 6),
        ({"images_kwargs": {"max_pixels": 1_003_520}}, {"video": 0}, 1280, 6),
        # Two frames take an image's tokens: 7 x 1,280.
        ({"max_pixels": 1_003_520}, {}, 8960, 1),
        ({"do_sample_frames": True}, {"video": 0}, 16_384, 1),
    ],
)
def test_smaller_images_take_fewer_tokens(
    arguments: dict[str, Any], limits: dict[str, Any], tokens: int, items: int
) -> None:
    media = choices(mm_processor_kwargs=arguments, limit_mm_per_prompt=limits)

    encoded = encoded_items(_media(), constants_at(NEWEST).encoders, run(media, tokens=8192))

    assert (encoded.tokens, encoded.items) == (tokens, items)


def test_a_limit_of_few_items_bounds_a_batch_of_few_requests() -> None:
    """By hand: 2 requests of at most 1 image each are 2 images, though 6 fit into the batch."""
    media = choices(
        mm_processor_kwargs={"max_pixels": 1_003_520}, limit_mm_per_prompt={"video": 0, "image": 1}
    )
    few = replace(run(media, tokens=8192), sequences=2)

    assert encoded_items(_media(), constants_at(NEWEST).encoders, few).items == 2


def test_a_rank_with_whole_encoders_computes_its_part_of_the_items() -> None:
    """With one item, one rank computes all of it by whole matrices; split matrices need less on each."""
    architecture, constants = bundled(QWEN3_VL), constants_at(NEWEST).encoders
    split = run(choices(), ranks=4)

    (each,) = encoders(architecture, constants, split, 0)
    (whole,) = encoders(architecture, constants, replace(split, whole_encoders=True), 0)

    assert whole.bytes > each.bytes


def test_sizes_for_an_unknown_processor_widen_the_interval() -> None:
    constants = constants_at(NEWEST).encoders
    (usual,) = encoders(bundled(GEMMA), constants, run(choices()), 0)
    (resized,) = encoders(bundled(GEMMA), constants, run(choices(mm_processor_kwargs={"size": {}})), 0)

    assert (resized.low, resized.high) == (0, usual.high)


@pytest.mark.parametrize(
    ("tokens", "sides"), [(16_384, (128, 128)), (12_288, (96, 128)), (1280, (32, 40)), (7, (1, 7))]
)
def test_the_largest_item_is_as_near_to_a_square_as_its_tokens_allow(
    tokens: int, sides: tuple[int, int]
) -> None:
    assert squares(tokens) == sides
