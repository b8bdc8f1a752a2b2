"""What encoders of images and sound add to the peak of the profile run.

The engine encodes the largest items first. The outputs stay allocated while it runs the decoder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from service.architecture.encoders.media import PatchedMedia
from service.architecture.encoders.tower import Tower
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around
from service.memory.media_choices import MediaChoice, squares
from service.memory.profile_run import ProfileRun
from service.memory.ranges import MibRange
from service.memory.weights.blocks.tower_modules import modalities

MODALITIES: Final = ("image", "video", "audio")
FRAMES_OF_A_PATCH: Final = 2
"""Frames of a video in one patch (Qwen2-VL's ``temporal_patch_size``)."""


@dataclass(frozen=True, slots=True)
class TowerWidths:
    """Number of tensors of a patch's width that are alive at once in a block of a tower."""

    whole: float
    """Whole on every rank."""
    split: float
    """Split among the ranks."""


@dataclass(frozen=True, slots=True)
class EncoderConstants:
    """Dated constants of encoders."""

    outputs_mib: Mapping[str, MibRange]
    """Outputs that stay allocated while the decoder is profiled, by the tower's name."""
    peak_mib: Mapping[str, MibRange]
    """The encoders' own peak, by the tower's name."""
    video_frames: int
    """Frames of the longest video, for models where each frame may be as large as an image."""
    video_places: float
    """Places in the prompt for one token of a video, for models whose frames share a budget."""
    outputs_fill_cache: bool
    """The profile run copies each item's outputs into as many places as the encoder cache has."""
    tower_widths: TowerWidths
    tower_spread_percent: tuple[float, float]
    """Bounds in percent of what a tower is computed to take: low, high."""
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EncodedItems:
    """The largest items that one step can encode, of the modality with more tokens."""

    items: int
    tokens: int
    """Tokens of each, as profiled."""
    budget: int
    """Places of the encoder cache, in tokens."""
    modality: str = field(default="image", compare=False)


@dataclass(frozen=True, slots=True)
class Item:
    """The largest item of a modality."""

    modality: str
    tokens: int
    places: int
    """Places in the prompt that it counts for."""


def encoders(
    architecture: ModelArchitecture, constants: EncoderConstants, run: ProfileRun, decoder_peak: float
) -> list[Estimate]:
    """Return the bytes that encoders add to the decoder's peak.

    An encoder adds its outputs, or more where its own peak is higher than the decoder's (``decoder_peak``,
    in bytes). Encoders whose items a prompt may not have are not profiled, even where they are built.
    """
    terms = []
    for tower in architecture.media.towers:
        if not _serves(architecture, tower, run):
            continue
        if tower.media is None:
            terms.append(_by_name(tower.name.split(".")[0], constants, run, decoder_peak))
        else:
            terms.append(_by_patches(tower.media, constants, run, decoder_peak))
    if not architecture.media.towers_known and any(map(run.media.serves, MODALITIES)):
        terms.append(_by_name("unknown", constants, run, decoder_peak))
    return terms


def takes_media(architecture: ModelArchitecture, run: ProfileRun) -> bool:
    """Whether a prompt may have an item of media, so that the decoder is given rows and not tokens.

    Source: vLLM 0.13.0 to 0.33.0, supports_multimodal_inputs: some limit is not 0.
    """
    if not architecture.media.towers_known:
        return any(map(run.media.serves, MODALITIES))
    return any(_serves(architecture, tower, run) for tower in architecture.media.towers)


def _serves(architecture: ModelArchitecture, tower: Tower, run: ProfileRun) -> bool:
    return any(map(run.media.serves, modalities(architecture, run.towers, sound=tower.sound)))


def encoded_items(media: PatchedMedia, constants: EncoderConstants, run: ProfileRun) -> EncodedItems:
    """Return the items that the profile run encodes.

    Source: vLLM 0.11.0, v1/worker/utils.py MultiModalBudget; 0.33.0, multimodal/encoder_budget.py.
    """
    largest = max(_items(media, constants, run), key=lambda item: (item.places, item.modality))
    choice = run.media.choice(largest.modality)
    budget = max(run.tokens, largest.places)
    in_prompts = run.sequences * max(1, min(choice.limit, run.length // largest.places))
    return EncodedItems(
        max(1, min(budget // largest.places, in_prompts)),
        _profiled_tokens(largest, choice, media.token_side, constants.video_frames),
        budget,
        largest.modality,
    )


def _items(media: PatchedMedia, constants: EncoderConstants, run: ProfileRun) -> Iterator[Item]:
    """Yield the largest image and the largest video, as far as a prompt may have them."""
    choices, square = run.media, media.token_side**2
    pixels = choices.image_pixels
    image = media.image_tokens if pixels is None else max(1, pixels // square)
    if choices.serves("image"):
        yield Item("image", image, image)
    if not choices.serves("video"):
        return
    pixels = choices.video_pixels
    if media.video_tokens is not None:
        video = media.video_tokens if pixels is None else max(1, pixels // FRAMES_OF_A_PATCH // square)
        yield Item("video", video, int(video * constants.video_places))
        return
    frame = image if pixels is None else max(1, pixels // square)
    tokens = min(constants.video_frames // FRAMES_OF_A_PATCH, max(1, run.length // frame)) * frame
    yield Item("video", tokens, tokens)


def _profiled_tokens(item: Item, choice: MediaChoice, side: int, video_frames: int) -> int:
    """Return the tokens of a profiled item, which a limit with sizes makes smaller; counts stay as they are.

    Source: vLLM 0.13.0, BaseDummyInputsBuilder._get_dummy_images: the smaller of both sizes.
    """
    tokens, pairs = item.tokens, 1
    if item.modality == "video" and choice.frames is not None:
        most = max(1, video_frames // FRAMES_OF_A_PATCH)
        pairs = max(1, min(most, choice.frames // FRAMES_OF_A_PATCH))
        tokens = tokens * pairs // most if tokens % most == 0 else tokens
    if choice.width is None and choice.height is None:
        return max(1, tokens)
    height, width = squares(tokens // pairs)
    rows = min(height, max(1, round((choice.height or height * side) / side)))
    columns = min(width, max(1, round((choice.width or width * side) / side)))
    return rows * columns * pairs


def _by_patches(
    media: PatchedMedia, constants: EncoderConstants, run: ProfileRun, decoder_peak: float
) -> Estimate:
    encoded = encoded_items(media, constants, run)
    tokens = encoded.items * encoded.tokens
    # The input stays allocated while the decoder runs.
    pixels = tokens * media.merged_patches * media.patch_elements * run.element_bytes
    outputs = tokens
    if constants.outputs_fill_cache and encoded.tokens < encoded.budget:
        outputs = encoded.items * encoded.budget + encoded.tokens
    stays = pixels + outputs * media.output_width * run.element_bytes
    pruned = run.media.pruned * (encoded.modality == "video")
    peak = pixels + _tower_peak(media, constants.tower_widths, encoded, run)
    low, high = (percent / 100 for percent in constants.tower_spread_percent)
    middle, below, above = (max(share * stays, share * peak - decoder_peak) for share in (1, low, high))
    # Pruning drops tokens after the encoder has computed them.
    below = min(below, max(low * (pixels + (stays - pixels) * (1 - pruned)), low * peak - decoder_peak))
    return around(middle, below, above, Basis.ASSUMED, constants.sources["tower_widths"])


def _tower_peak(media: PatchedMedia, widths: TowerWidths, encoded: EncodedItems, run: ProfileRun) -> float:
    """Return the bytes that are alive at once in a block of the tower.

    A rank with whole encoders computes its part of the items, which it copies, and gathers all outputs.

    Source: vLLM 0.28.0, model_executor/models/vision.py run_dp_sharded_mrope_vision_model.
    """
    if not run.whole_encoders:
        alive = widths.whole * media.width + widths.split * run.shards.share(media.width)
        return encoded.items * encoded.tokens * media.merged_patches * alive * run.element_bytes
    own = run.shards.share(encoded.items) * encoded.tokens
    alive = (widths.whole + widths.split) * media.width + media.patch_elements
    computed = own * media.merged_patches * alive
    gathered = (run.shards.tensor_parallel_size + 1) * own * media.output_width
    return max(computed, gathered) * run.element_bytes


def _by_name(name: str, constants: EncoderConstants, run: ProfileRun, decoder_peak: float) -> Estimate:
    outputs = constants.outputs_mib.get(name, constants.outputs_mib["unknown"])
    peaks = constants.peak_mib.get(name, constants.peak_mib["unknown"])
    middle, low, high = (
        size + max(0, peak - decoder_peak) for size, peak in zip(outputs.bytes, peaks.bytes, strict=True)
    )
    source = constants.sources["outputs_mib"]
    if run.media.resized:
        low, source = 0, f"{source}; how many tokens --mm-processor-kwargs leaves of an item is not known"
    return around(middle, low, high, Basis.CALIBRATED, source)
