"""The dated constants of the memory budget, in one group for each module that reads them."""

from dataclasses import dataclass
from functools import cache

from packaging.version import Version

from service.memory.activation import ActivationConstants
from service.memory.dated_groups import group_at
from service.memory.device import DeviceConstants
from service.memory.encoders import EncoderConstants
from service.memory.graphs import GraphConstants
from service.memory.weights.resident.resident_weights import ResidentConstants


@dataclass(frozen=True, slots=True)
class MemoryConstants:
    """The constants of one release; the data of each group is in a TOML file beside its module."""

    activation: ActivationConstants
    device: DeviceConstants
    encoders: EncoderConstants
    graphs: GraphConstants
    resident: ResidentConstants


@cache
def constants_at(release: Version) -> MemoryConstants:
    """Return the constants of a release.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    return MemoryConstants(
        activation=group_at(ActivationConstants, release, "activation.toml"),
        device=group_at(DeviceConstants, release, "device.toml"),
        encoders=group_at(EncoderConstants, release, "encoders.toml"),
        graphs=group_at(GraphConstants, release, "graphs.toml"),
        resident=group_at(ResidentConstants, release, "weights/resident/resident_weights.toml"),
    )
