"""Rules that protect other users of a GPU: when a probe must not start, and when it must stop. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.units import GIB, MIB, gib_text
from service.worker.devices import DeviceState

LEAST_RESERVE: Final = 2 * GIB
RESERVE_SHARE: Final = 0.05
"""Reserve as a share of a GPU's memory: a running engine grows by 0.5 to 1.9 GiB beyond its budget."""
HIDDEN_BYTES: Final = GIB
"""If more is in use and no process is visible, a container hides the process that uses it."""
UNEXPLAINED_BYTES: Final = 256 * MIB
"""If more stays in use after a probe than before it, another process has used the GPU meanwhile."""


@dataclass(frozen=True, slots=True)
class ProbeDemand:
    """The memory that a probe needs on each of its GPUs, in bytes, and its limits."""

    bytes: int
    """Upper bound of what it is expected to use."""
    reserve: int | None = None
    """Memory that the job wants to stay free."""
    max_bytes: int | None = None
    """Most memory that the job may use; None for no such limit."""
    force: bool = False
    """The probe may run while other processes use the GPU: both the job and the node allow it."""


def reserve_of(state: DeviceState, node_reserve: int | None, demand: ProbeDemand) -> int:
    """Return the bytes of a device that must stay free: the larger of the node's and the job's reserve."""
    least = max(LEAST_RESERVE, int(state.total * RESERVE_SHARE)) if node_reserve is None else node_reserve
    return max(least, demand.reserve or 0)


def guard_refusal(samples: Sequence[DeviceState], demand: ProbeDemand, reserve: int) -> str | None:
    """Return why a probe must not start on a device; ``None`` where it may.

    ``samples``: states of the same device, the latest last.
    """
    now = samples[-1]
    if (unfit := _unfit(now)) is not None:
        return unfit
    if not demand.force and (busy := _busy(samples)) is not None:
        return busy
    if demand.max_bytes is not None and demand.bytes > demand.max_bytes:
        return f"it needs {gib_text(demand.bytes)} GiB, but its own limit is {gib_text(demand.max_bytes)} GiB"
    if demand.bytes > now.free - reserve:
        return (
            f"it needs {gib_text(demand.bytes)} GiB; {gib_text(now.free)} GiB are free, "
            f"and {gib_text(reserve)} GiB of these must stay free"
        )
    return None


def _unfit(now: DeviceState) -> str | None:
    if now.mig:
        return "the GPU is split (MIG): measurements of a part do not apply to the GPU type"
    if now.virtual:
        return "the GPU is virtual: it shares its memory with other virtual GPUs"
    if now.awaits_reset:
        return "the GPU waits for a reset: a reset will change its usable memory"
    if now.exclusive and (now.pids or now.used > HIDDEN_BYTES):
        return "the GPU is in an exclusive mode and in use: a probe could prevent a restart of its server"
    return None


def _busy(samples: Sequence[DeviceState]) -> str | None:
    pids = {pid for sample in samples for pid in sample.pids}
    if pids:
        return f"busy: {len(pids)} other process{'es use' if len(pids) > 1 else ' uses'} the GPU"
    if any(sample.utilization for sample in samples):
        return "busy: the GPU is computing"
    if samples[-1].name != "cpu" and (used := max(sample.used for sample in samples)) > HIDDEN_BYTES:
        return f"busy: {gib_text(used)} GiB are used by processes that the worker cannot see"
    return None


def endangered(now: DeviceState, reserve: int) -> bool:
    """Whether a running probe must be stopped at once, because less than the reserve is free."""
    return now.free < reserve


def disturbed(before: DeviceState, after: DeviceState, seen: frozenset[int], own: frozenset[int]) -> bool:
    """Whether other processes used the device during the probe, so that its measurement is not valid.

    ``seen``: processes on the device while the probe ran. ``own``: processes of the probe.
    """
    others = (seen | set(before.pids)) - own
    return bool(others) or after.used > before.used + UNEXPLAINED_BYTES
