"""The settings of a node, made by its administrator; a job cannot change them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """The settings of one node."""

    name: str
    state_folder: Path
    """Folder for locks and for results that are not reported yet."""
    python: Path
    """Python of the environment that has torch or the engine."""
    labels: tuple[str, ...] = ()
    allows_force: bool = False
    """Probes may run while other processes use the GPU, if the job asks for that too."""
    reserve_bytes: int | None = None
    """Memory of every GPU that must stay free; by default 2 GiB or 5 %, whichever is more."""
    host_reserve_bytes: int = 1 << 30
    """Memory of the host that must stay free."""
    on_host: bool = False
    """Probes use the host's memory in place of a GPU."""
