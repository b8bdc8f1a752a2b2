"""DeviceLayout: which device holds each layer.

Source: llama.cpp 0c1e57098, `llama_model::load_tensors` (`-sm layer`), which compares numbers of 32 bits.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from service.engine_plans.engine_plan import EngineRefused


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """Which device holds each layer."""

    devices: int
    layers: tuple[int | None, ...]
    """Device of each layer; ``None``: the host."""
    output: int | None
    """Device of the output matrix."""

    def layers_on(self, device: int | None) -> tuple[int, ...]:
        """Return the indices of a device's layers; ``None`` is the host."""
        return tuple(index for index, each in enumerate(self.layers) if each == device)


def layer_split(num_layers: int, shares: Sequence[float], gpu_layers: int | None) -> DeviceLayout:
    """Return the layout with whole layers on devices.

    Args:
        num_layers: layers of the model.
        shares: `-ts`, or the free bytes of each device; in any unit.
        gpu_layers: `-ngl`; the output matrix counts as the last layer. ``None``: all.

    Raises:
        EngineRefused: the shares are all zero.
    """
    units = num_layers + 1
    asked = units if gpu_layers is None or gpu_layers < 0 else gpu_layers
    active, first = min(asked, units), max(units - asked, 0)
    sums = list(accumulate(map(_float32, shares), lambda one, other: _float32(one + other)))
    if not sums or sums[-1] <= 0:
        raise EngineRefused("invalid value for tensor_split: all shares are zero")
    points = [_float32(each / sums[-1]) for each in sums]

    def device(unit: int) -> int | None:
        if active == 0 or unit < first:
            return None
        return min(bisect_right(points, _float32(_float32(unit - first) / active)), len(points) - 1)

    placed = [device(unit) for unit in range(units)]
    return DeviceLayout(len(points), tuple(placed[:-1]), placed[-1])


def _float32(value: float) -> float:
    """Return the nearest number of 32 bits, in which llama.cpp computes shares."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
