"""What encoders of images and sound add to the peak of the profile run.

The engine encodes the largest items first. The outputs stay allocated while it runs the decoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.encoders.media import PatchedMedia
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around
from service.memory.profile_run import ProfileRun
from service.memory.ranges import MibRange

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
    """Tokens of each."""
    budget: int
    """Places of the encoder cache, in tokens."""


def encoders(
    architecture: ModelArchitecture, constants: EncoderConstants, run: ProfileRun, decoder_peak: float
) -> list[Estimate]:
    """Return the bytes that encoders add to the decoder's peak.

    An encoder adds its outputs, or more where its own peak is higher than the decoder's (``decoder_peak``,
    in bytes).
    """
    terms = [
        _by_name(tower.name.split(".")[0], constants, decoder_peak)
        if tower.media is None
        else _by_patches(tower.media, constants, run, decoder_peak)
        for tower in architecture.media.towers
    ]
    if not architecture.media.towers_known:
        terms.append(_by_name("unknown", constants, decoder_peak))
    return terms


def encoded_items(media: PatchedMedia, constants: EncoderConstants, run: ProfileRun) -> EncodedItems:
    """Return the items that the profile run encodes.

    Source: vLLM 0.11.0, v1/worker/utils.py MultiModalBudget; 0.33.0, multimodal/encoder_budget.py.
    """
    video, places = _largest_video(media, constants, run.max_model_len)
    tokens, places = (video, places) if places > media.image_tokens else (media.image_tokens,) * 2
    budget = max(run.tokens, places)
    in_prompts = run.sequences * max(1, run.max_model_len // places)
    return EncodedItems(max(1, min(budget // places, in_prompts)), tokens, budget)


def _largest_video(media: PatchedMedia, constants: EncoderConstants, max_model_len: int) -> tuple[int, int]:
    """Return the tokens of the largest video, and the places in the prompt that it counts for."""
    if media.video_tokens is not None:
        return media.video_tokens, int(media.video_tokens * constants.video_places)
    fitting = max(1, max_model_len // media.image_tokens)
    tokens = min(constants.video_frames // FRAMES_OF_A_PATCH, fitting) * media.image_tokens
    return tokens, tokens


def _by_patches(
    media: PatchedMedia, constants: EncoderConstants, run: ProfileRun, decoder_peak: float
) -> Estimate:
    encoded = encoded_items(media, constants, run)
    tokens = encoded.items * encoded.tokens
    patches = tokens * media.merged_patches
    # The input stays allocated while the decoder runs.
    pixels = patches * media.patch_elements * run.element_bytes
    outputs = tokens
    if constants.outputs_fill_cache and encoded.tokens < encoded.budget:
        outputs = encoded.items * encoded.budget + encoded.tokens
    stays = pixels + outputs * media.output_width * run.element_bytes
    widths = constants.tower_widths
    alive = widths.whole * media.width + widths.split * run.shards.share(media.width)
    peak = pixels + patches * alive * run.element_bytes
    low, high = (percent / 100 for percent in constants.tower_spread_percent)
    middle, below, above = (max(share * stays, share * peak - decoder_peak) for share in (1, low, high))
    return around(middle, below, above, Basis.ASSUMED, constants.sources["tower_widths"])


def _by_name(name: str, constants: EncoderConstants, decoder_peak: float) -> Estimate:
    outputs = constants.outputs_mib.get(name, constants.outputs_mib["unknown"])
    peaks = constants.peak_mib.get(name, constants.peak_mib["unknown"])
    middle, low, high = (
        size + max(0, peak - decoder_peak) for size, peak in zip(outputs.bytes, peaks.bytes, strict=True)
    )
    return around(middle, low, high, Basis.CALIBRATED, constants.sources["outputs_mib"])
