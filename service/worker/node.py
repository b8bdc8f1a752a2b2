"""What the node's own administrator decided; no job can change it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """One node."""

    name: str
    state_folder: Path
    """For locks and results that are not handed in yet."""
    python: Path
    """Of the environment that has torch or the engine."""
    labels: tuple[str, ...] = ()
    allows_force: bool = False
    """Probes may run beside others, where a job asks for that too."""
    reserve_bytes: int | None = None
    """Memory of every GPU that stays free; by default 2 GiB or 5 %, whichever is more."""
    host_reserve_bytes: int = 1 << 30
    """Memory of the host that stays free."""
    on_host: bool = False
    """The host's memory stands in for a GPU."""
