"""The constants of the time of one step, read once from ``speed.toml``, with a source for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import Version

from service.bundled_toml import read_toml


@dataclass(frozen=True, slots=True)
class SpeedConstants:
    """The constants of one release. Shares are of a peak; times are in microseconds."""

    memory_share: float
    compute_share: float
    prompt_share: float
    link_share: float
    fallback_cache_share: float
    unpacked_prompt_attention: float
    layer_us: float
    eager_layer_us: float
    collective_us: float
    bridge_collective_us: float
    expert_layer_us: float
    stage_us: float
    sequence_us: float
    routed_share: float
    release_factor: float
    """Times that the work around the kernels takes in this release."""
    first_token_high: float
    """Measured times to the first token stay below this factor of the predicted one in 90 % of the rows."""
    bands: Mapping[str, float]
    """By basis: the factor between the middle of an interval and either end."""
    calibrated: frozenset[str]
    """Compute capabilities that have measured rows."""

    def band(self, capability: str, *, measured: bool = False) -> tuple[str, float]:
        """Return the basis of a figure and the factor of its interval."""
        basis = "measured" if measured else "calibrated" if self.is_calibrated(capability) else "assumed"
        return basis, self.bands[basis]

    def is_calibrated(self, capability: str) -> bool:
        """Whether GPUs of this compute capability, with a release of today, have measured rows."""
        return capability in self.calibrated and self.release_factor == 1


@cache
def _table() -> Mapping[str, Any]:
    return read_toml("service.speed", "speed.toml")


@cache
def speed_constants(release: Version) -> SpeedConstants:
    """Return the constants of a release of the engine."""
    table = dict(_table())
    band, classes = table.pop("band"), table.pop("classes")
    first_token, factor = table.pop("first_token"), table.pop("release_factor")
    old = release < Version(factor["until"])
    return SpeedConstants(
        **{name: float(entry["value"]) for name, entry in table.items()},
        release_factor=factor["value"] if old else 1,
        first_token_high=first_token["high"],
        bands={basis: band[basis] for basis in ("calibrated", "assumed", "measured")},
        calibrated=frozenset(classes["calibrated"]),
    )
