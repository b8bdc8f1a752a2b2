"""Terms of the budget that many GPU types share: of a profile run, and of CUDA graphs."""

from functools import lru_cache

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.memory.activation import activation, compiled_copy
from service.memory.budget_types import Estimate
from service.memory.constants import constants_at
from service.memory.graphs import Capture, captured_graphs, cuda_graphs
from service.memory.profile_run import ProfileRun


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def profiled(architecture: ModelArchitecture, release: Version, run: ProfileRun) -> tuple[Estimate, Estimate]:
    """Return the peak of a profile run, and the copy in it on which the compiler times kernels."""
    constants = constants_at(release)
    peak = activation(architecture, constants.activation, constants.encoders, run)
    return peak, compiled_copy(architecture, constants.activation, run)


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def graphs_of(
    architecture: ModelArchitecture, release: Version, capture: Capture
) -> tuple[Estimate, Estimate]:
    """Return what is set aside for CUDA graphs, and what they take once they are captured."""
    constants = constants_at(release).graphs
    return cuda_graphs(architecture, constants, capture), captured_graphs(architecture, constants, capture)
