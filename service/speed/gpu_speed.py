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
    pcie: float
    """Bytes that one GPU sends per second to others of its node over PCIe."""
    nvlink: float
    """The same over NVLink."""
    joined: int
    """GPUs that exchange over NVLink."""
    source: str

    def joins(self, ranks: int) -> bool:
        """Whether so many ranks exchange over NVLink."""
        return ranks <= self.joined

    def link(self, ranks: int) -> float:
        """Return the bytes per second that each of so many ranks sends to the others."""
        return self.nvlink if self.joins(ranks) else self.pcie

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
    pcie = table["pcie"]["link"][str(capability.major)] * GIGA
    return GpuSpeed(
        bandwidth=gpu.bandwidth_gb_s * GIGA,
        operations={Precision.HALF: half, Precision.BYTE: byte, Precision.NIBBLE: max(byte, nibble)},
        pcie=pcie,
        nvlink=entry["link"] * GIGA if "link" in entry else pcie,
        joined=gpu.joined_gpus,
        source=entry["source"],
    )
