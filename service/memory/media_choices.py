"""What the flags say about images, videos and sound: how many, how large, and what of it is profiled."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Final, Self

from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject

UNLIMITED: Final = 999
"""Items of one prompt where no limit is set: vLLM 0.11.0 to 0.32.0, MultiModalConfig.get_limit_per_prompt."""
SCOPES: Final[Mapping[str, str]] = {"image": "images_kwargs", "video": "videos_kwargs"}
SIZES: Final = frozenset({"max_pixels", "min_pixels", "size"})
"""Arguments of a processor that change how many tokens an item has."""


@dataclass(frozen=True, slots=True)
class MediaChoice:
    """What the flags say about one modality."""

    modality: str
    limit: int = UNLIMITED
    """Most items of one prompt."""
    width: int | None = None
    """Pixels of a profiled item, where less than the largest; ``None``: the largest."""
    height: int | None = None
    frames: int | None = None
    """Frames of a profiled video."""


@dataclass(frozen=True, slots=True)
class MediaChoices:
    """What the flags say about all modalities."""

    choices: tuple[MediaChoice, ...] = ()
    """Of the modalities that ``limit_mm_per_prompt`` names."""
    language_model_only: bool = False
    """No modality is served."""
    profiled: bool = True
    """The profile run runs the encoders."""
    image_pixels: int | None = None
    """Most pixels of an image, where ``mm_processor_kwargs`` sets them; ``None``: the processor's default."""
    video_pixels: int | None = None
    """Most pixels of a video, or of one of its frames where frames are sized alone."""
    resized: bool = False
    """``mm_processor_kwargs`` sets sizes of items."""
    pruned: float = 0.0
    """Share of a video's tokens that are dropped after the encoder."""

    @classmethod
    def of(cls, flags: ServeFlags) -> Self:
        """Read the flags."""
        limits = {} if flags.limit_mm_per_prompt is None else flags.limit_mm_per_prompt.document()
        images, videos = (_pixels(flags.mm_processor_kwargs, SCOPES[name]) for name in ("image", "video"))
        return cls(
            choices=tuple(_choice(name, given) for name, given in sorted(limits.items())),
            language_model_only=flags.language_model_only,
            profiled=not flags.skip_mm_profiling,
            image_pixels=images,
            video_pixels=videos,
            resized=_names_sizes(flags.mm_processor_kwargs),
            pruned=flags.video_pruning_rate or 0.0,
        )

    def choice(self, modality: str) -> MediaChoice:
        """Return what the flags say about a modality."""
        if self.language_model_only:
            return MediaChoice(modality, limit=0)
        named = (choice for choice in self.choices if choice.modality == modality)
        return next(named, MediaChoice(modality))

    def serves(self, modality: str) -> bool:
        """Whether a prompt may have an item of a modality."""
        return self.choice(modality).limit > 0


ALL_MEDIA: Final = MediaChoices()


def _choice(modality: str, given: int | Mapping[str, int]) -> MediaChoice:
    if isinstance(given, int):
        return MediaChoice(modality, given)
    return MediaChoice(
        modality,
        given.get("count", UNLIMITED),
        given.get("width"),
        given.get("height"),
        given.get("num_frames"),
    )


def _pixels(arguments: JsonObject | None, scope: str) -> int | None:
    """Return the most pixels of an item for a processor of the Qwen-VL kind; the scope's own go first.

    Source: vLLM 0.19.0 and 0.32.0, Qwen2VLProcessingInfo: ``max_pixels`` replaces ``size.longest_edge``.
    """
    if arguments is None:
        return None
    document = arguments.document()
    for place in (document.get(scope), document):
        if isinstance(place, dict):
            size = place.get("size")
            edge = size.get("longest_edge") if isinstance(size, dict) else None
            found = place.get("max_pixels", edge)
            if isinstance(found, int) and found > 0:
                return found
    return None


def _names_sizes(arguments: JsonObject | None) -> bool:
    if arguments is None:
        return False
    document = arguments.document()
    scopes = (document, *(document.get(scope) for scope in SCOPES.values()))
    return any(isinstance(scope, dict) and not SIZES.isdisjoint(scope) for scope in scopes)


def squares(tokens: int) -> tuple[int, int]:
    """Return the height and width, in tokens, of an item of so many tokens that is nearest to a square.

    Source: vLLM 0.13.0 to 0.32.0, Qwen2VLProcessingInfo.get_image_size_with_most_features.
    """
    rows = next(each for each in range(isqrt(max(1, tokens)), 0, -1) if max(1, tokens) % each == 0)
    return rows, max(1, tokens) // rows
