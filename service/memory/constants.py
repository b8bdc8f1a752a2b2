"""The dated constants of the budget, release by release."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.engines.timeline import Change, Timeline
from service.memory.weights.weight_layout import bundled
from service.units import MIB


@dataclass(frozen=True, slots=True)
class Range:
    """A middle with its 10th and 90th percentile, in bytes (or percent, where a name says so)."""

    middle: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.middle <= self.high:
            raise ValueError(f"{self.middle} is not between {self.low} and {self.high}")


@dataclass(frozen=True, slots=True)
class GraphEstimate:
    """MiB that graphs take, by what is captured."""

    first: float
    """The first graphs together."""
    experts: float
    """What experts add to these."""
    recurrent: float
    """What recurrent layers add to these."""
    graph: float
    """Every other graph."""
    layer: float
    """What each layer adds to every other graph."""


@dataclass(frozen=True, slots=True)
class LargestCapture:
    """Tokens of the largest graph that a release captures unasked."""

    others: int
    blackwell: int
    """On data center cards of Blackwell."""


@dataclass(frozen=True, slots=True)
class TowerWidths:
    """Times a patch's width that is alive at once in a block of a tower."""

    whole: float
    """On every rank in full."""
    split: float
    """Split among the ranks."""


Growth = Mapping[tuple[int, int], tuple[Range, Range]]
"""By the least compute capability: of a single rank, and of several."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What one release adds to the computed terms."""

    interleaved_table_factor: int
    run_by_transformers: frozenset[str]
    """Classes of the transformers backend, which computes angles as it goes and keeps no rotary tables."""
    offload_survives_repacking: bool
    turboquant_splits: int
    """Parts of a context that decoding takes apart, where every layer keeps room for them; else 0."""
    mxfp4_kernel: Mapping[tuple[int, int], str]
    """Kernel that runs MXFP4 experts, by the least compute capability."""
    repacking_percent: Mapping[str, Range]
    slack: Range
    sampler_copies_v1: Range
    sampler_copies_v2: Range
    base: Range
    encoder_outputs: Mapping[str, Range]
    encoder_peak: Mapping[str, Range]
    encodes_v2: bool
    charges_counts_v2: bool
    """The second model runner runs the encoders before it profiles the decoder."""
    video_frames: int
    """Of the longest video, where each frame may be as large as an image."""
    video_places: float
    """Places in the prompt for one token of a video, where its frames share a budget."""
    outputs_fill_cache: bool
    """Every item's outputs are copied to as many places as the encoder cache has."""
    tower_widths: TowerWidths
    tower_spread_percent: tuple[float, float]
    recurrent: Range
    compressed: Range
    spread_percent_v1: tuple[float, float]
    spread_percent_v2: tuple[float, float]
    growth: Growth
    unified: Range
    graphs_reserved: bool
    graphs_reserved_v2: bool
    """The same on the second model runner."""
    largest_capture: LargestCapture
    capture_step: int
    """Tokens between the sizes of graphs above 256."""
    graph_estimate: GraphEstimate
    graph_spread_percent: tuple[float, float]
    captured_percent: Range
    """Of the estimate's formula, what is captured in the end."""
    context: tuple[Range, Range]
    """What a single rank holds before free memory is first asked for, and what one of several does."""
    rounds_up: bool
    sources: Mapping[str, str]
    """Source of each dated value, by its name."""

    def repacking(self, weight_format: str, capability: tuple[int, int]) -> Range:
        """Return the percent that repacking adds to weights of a format on a GPU."""
        if weight_format == "mxfp4":
            reached = [least for least in self.mxfp4_kernel if least <= capability]
            weight_format = f"mxfp4_{self.mxfp4_kernel[max(reached, default=min(self.mxfp4_kernel))]}"
        return self.repacking_percent.get(weight_format, self.repacking_percent["any"])


def _range(raw: list[float], scale: float = 1) -> Range:
    middle, low, high = raw
    return Range(middle * scale, low * scale, high * scale)


def _mib(raw: list[float]) -> Range:
    return _range(raw, MIB)


def _pair(raw: list[float]) -> tuple[float, float]:
    low, high = raw
    return low, high


def _by_name(scale: float) -> Callable[[Mapping[str, list[float]]], Mapping[str, Range]]:
    return lambda raw: {name: _range(values, scale) for name, values in raw.items()}


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _growth(raw: Mapping[str, Mapping[str, list[float]]]) -> Growth:
    return {_capability(text): (_mib(ranks["one"]), _mib(ranks["many"])) for text, ranks in raw.items()}


_FIELDS: Final[Mapping[str, tuple[str, str, Callable[[Any], Any]]]] = {
    "interleaved_table_factor": ("kept", "interleaved_table_factor", int),
    "run_by_transformers": ("layout", "ends_only", frozenset),
    "offload_survives_repacking": ("kept", "offload_survives_repacking", bool),
    "turboquant_splits": ("kept", "turboquant_splits", int),
    "mxfp4_kernel": ("kept", "mxfp4_kernel", lambda raw: {_capability(key): raw[key] for key in raw}),
    "repacking_percent": ("kept", "repacking_percent", _by_name(1)),
    "slack": ("kept", "slack_mib", _mib),
    "sampler_copies_v1": ("activation", "sampler_copies_v1", _range),
    "sampler_copies_v2": ("activation", "sampler_copies_v2", _range),
    "base": ("activation", "base_mib", _mib),
    "encoder_outputs": ("activation", "encoder_outputs_mib", _by_name(MIB)),
    "encoder_peak": ("activation", "encoder_peak_mib", _by_name(MIB)),
    "encodes_v2": ("activation", "encodes_v2", bool),
    "charges_counts_v2": ("activation", "charges_counts_v2", bool),
    "video_frames": ("activation", "video_frames", int),
    "video_places": ("activation", "video_places", float),
    "outputs_fill_cache": ("activation", "outputs_fill_cache", bool),
    "tower_widths": ("activation", "tower_widths", lambda raw: TowerWidths(**raw)),
    "tower_spread_percent": ("activation", "tower_spread_percent", _pair),
    "compressed": ("activation", "compressed_mib", _mib),
    "recurrent": ("activation", "recurrent_mib", _mib),
    "spread_percent_v1": ("activation", "spread_percent_v1", _pair),
    "spread_percent_v2": ("activation", "spread_percent_v2", _pair),
    "growth": ("non_torch", "growth_mib", _growth),
    "unified": ("non_torch", "unified_mib", _mib),
    "graphs_reserved": ("graphs", "reserved", bool),
    "graphs_reserved_v2": ("graphs", "reserved_v2", bool),
    "largest_capture": ("graphs", "largest", lambda raw: LargestCapture(**raw)),
    "capture_step": ("graphs", "step", int),
    "graph_estimate": ("graphs", "estimate_mib", lambda raw: GraphEstimate(**raw)),
    "graph_spread_percent": ("graphs", "spread_percent", _pair),
    "captured_percent": ("graphs", "captured_percent", _range),
    "context": ("request", "context_mib", lambda raw: (_mib(raw["one"]), _mib(raw["many"]))),
    "rounds_up": ("request", "rounding", lambda raw: raw == "up"),
}


@cache
def _timelines() -> Mapping[str, Timeline[Any]]:
    data = bundled()
    return {
        field: Timeline.parse(f"{table}.{key}", data[table][key], parse)
        for field, (table, key, parse) in _FIELDS.items()
    }


@cache
def constants_at(release: Version) -> Constants:
    """Return the constants in force in a release.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    changes: dict[str, Change[Any]] = {
        field: timeline.change_at(release) for field, timeline in _timelines().items()
    }
    values = {field: change.value for field, change in changes.items()}
    return Constants(**values, sources={field: change.source for field, change in changes.items()})
