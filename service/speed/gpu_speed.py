"""How fast a GPU type reads memory, multiplies matrices and exchanges with its neighbours at best."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from service.bundled_toml import read_toml
from service.gpus.gpu_type import GpuType
from service.speed.multiplication import Precision

GIGA: Final = 1e9
TERA: Final = 1e12


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """Peaks of one GPU type."""

    bandwidth: float
    """Bytes of its memory per second."""
    operations: Mapping[Precision, float]
    """Dense tensor operations per second, by the type of the activations."""
    link: float
    """Bytes that one GPU sends per second to others of its node."""
    has_nvlink: bool
    source: str

    @property
    def is_assumed(self) -> bool:
        """Whether no published figure of the tensor peak was checked."""
        return self.source.startswith("assumed")


@cache
def _table() -> Mapping[str, Any]:
    return read_toml("service.speed", "gpu_speed.toml")


@cache
def gpu_speed(gpu: GpuType) -> GpuSpeed | None:
    """Return the peaks of a GPU type; ``None`` where they are not known, as for a slice of a GPU."""
    table, capability = _table(), gpu.compute_capability
    entry = table["gpu"].get(gpu.id)
    if entry is None or capability is None or gpu.bandwidth_gb_s is None or gpu.is_slice:
        return None
    half, multiples = entry["half"] * TERA, table["multiples"]
    byte = half * multiples["byte"].get(str(capability), 1)
    nibble = (
        entry["nibble"] * TERA if "nibble" in entry else half * multiples["nibble"].get(str(capability), 1)
    )
    nibble = max(byte, nibble)
    link = entry.get("link") or table["pcie"]["link"][str(capability.major)]
    return GpuSpeed(
        bandwidth=gpu.bandwidth_gb_s * GIGA,
        operations={Precision.HALF: half, Precision.BYTE: byte, Precision.NIBBLE: max(byte, nibble)},
        link=link * GIGA,
        has_nvlink="link" in entry,
        source=entry["source"],
    )
