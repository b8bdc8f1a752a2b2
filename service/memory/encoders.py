"""What encoders of images and sound add to the peak of the profile run.

The engine encodes the largest items first; what comes of them stays while the decoder runs after it.
"""

from dataclasses import dataclass
from typing import Final

from service.architecture.encoders.media import PatchedMedia
from service.architecture.model import ModelArchitecture
from service.memory.budget import Basis, Estimate
from service.memory.constants import Constants
from service.memory.interval import around
from service.memory.profile_run import ProfileRun

FRAMES_OF_A_PATCH: Final = 2
"""Frames of a video that one patch spans (Qwen2-VL's ``temporal_patch_size``)."""


@dataclass(frozen=True, slots=True)
class EncodedItems:
    """The largest items that one step can encode, of the modality that takes more."""

    items: int
    tokens: int
    """Tokens of each."""
    budget: int
    """Places of the encoder cache, in tokens."""


def encoders(
    architecture: ModelArchitecture, constants: Constants, run: ProfileRun, decoder_peak: float
) -> list[Estimate]:
    """Return what encoders add to the decoder's peak: their outputs, or their own peak where it is higher."""
    terms = [
        _by_name(tower.name.split(".")[0], constants, decoder_peak)
        if tower.media is None
        else _by_patches(tower.media, constants, run, decoder_peak)
        for tower in architecture.media.towers
    ]
    if not architecture.media.towers_known:
        terms.append(_by_name("unknown", constants, decoder_peak))
    return terms


def encoded_items(media: PatchedMedia, constants: Constants, run: ProfileRun) -> EncodedItems:
    """Return what the profile run encodes.

    Source: vLLM 0.11.0, v1/worker/utils.py MultiModalBudget; 0.33.0, multimodal/encoder_budget.py.
    """
    video, places = _largest_video(media, constants, run.max_model_len)
    tokens, places = (video, places) if places > media.image_tokens else (media.image_tokens,) * 2
    budget = max(run.tokens, places)
    in_prompts = run.sequences * max(1, run.max_model_len // places)
    return EncodedItems(max(1, min(budget // places, in_prompts)), tokens, budget)


def _largest_video(media: PatchedMedia, constants: Constants, max_model_len: int) -> tuple[int, int]:
    """Return the tokens of the largest video, and the places in the prompt that it counts for."""
    if media.video_tokens is not None:
        return media.video_tokens, int(media.video_tokens * constants.video_places)
    fitting = max(1, max_model_len // media.image_tokens)
    tokens = min(constants.video_frames // FRAMES_OF_A_PATCH, fitting) * media.image_tokens
    return tokens, tokens


def _by_patches(media: PatchedMedia, constants: Constants, run: ProfileRun, decoder_peak: float) -> Estimate:
    encoded = encoded_items(media, constants, run)
    tokens = encoded.items * encoded.tokens
    patches = tokens * media.merged_patches
    # The engine still holds the input while the decoder runs.
    given = patches * media.patch_elements * run.element_bytes
    outputs = tokens
    if constants.outputs_fill_cache and encoded.tokens < encoded.budget:
        outputs = encoded.items * encoded.budget + encoded.tokens
    left = given + outputs * media.output_width * run.element_bytes
    widths = constants.tower_widths
    alive = widths.whole * media.width + widths.split * run.shards.share(media.width)
    peak = given + patches * alive * run.element_bytes
    low, high = (percent / 100 for percent in constants.tower_spread_percent)
    middle, below, above = (max(share * left, share * peak - decoder_peak) for share in (1, low, high))
    return around(middle, below, above, Basis.ASSUMED, constants.sources["tower_widths"])


def _by_name(name: str, constants: Constants, decoder_peak: float) -> Estimate:
    outputs = constants.encoder_outputs.get(name, constants.encoder_outputs["unknown"])
    peak = constants.encoder_peak.get(name, constants.encoder_peak["unknown"])
    return around(
        outputs.middle + max(0, peak.middle - decoder_peak),
        outputs.low + max(0, peak.low - decoder_peak),
        outputs.high + max(0, peak.high - decoder_peak),
        Basis.CALIBRATED,
        constants.sources["encoder_outputs"],
    )
