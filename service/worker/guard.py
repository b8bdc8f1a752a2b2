"""Do no harm: when a probe must not start, and when it must stop. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.units import GIB, MIB, gib_text
from service.worker.devices import DeviceState

LEAST_RESERVE: Final = 2 * GIB
RESERVE_SHARE: Final = 0.05
"""A running engine grows by 0.5 to 1.9 GiB beyond its budget, so that much is left to it."""
HIDDEN_BYTES: Final = GIB
"""More than that in use, and no process to be seen: a container hides whose it is."""
UNEXPLAINED_BYTES: Final = 256 * MIB
"""What a probe may leave in use when it ends without something else having come."""


@dataclass(frozen=True, slots=True)
class ProbeDemand:
    """What a probe wants of each of its GPUs."""

    bytes: int
    """At most; what it is expected to take."""
    reserve: int | None = None
    """What its own limits want left free."""
    max_bytes: int | None = None
    force: bool = False
    """Both the job and the node allow it to run beside others."""


def reserve_of(state: DeviceState, node_reserve: int | None, demand: ProbeDemand) -> int:
    """Return the bytes of a device that stay free, whatever a probe wants: the most that anyone asks for."""
    least = max(LEAST_RESERVE, int(state.total * RESERVE_SHARE)) if node_reserve is None else node_reserve
    return max(least, demand.reserve or 0)


def guard_refusal(samples: Sequence[DeviceState], demand: ProbeDemand, reserve: int) -> str | None:
    """Say why a probe must not start on a device, by several looks at it; ``None`` where it may.

    ``samples``: the same device, the last look last.
    """
    now = samples[-1]
    if (unfit := _unfit(now)) is not None:
        return unfit
    if not demand.force and (busy := _busy(samples)) is not None:
        return busy
    if demand.max_bytes is not None and demand.bytes > demand.max_bytes:
        return f"it would take {gib_text(demand.bytes)} GiB, its own limit is {gib_text(demand.max_bytes)}"
    if demand.bytes > now.free - reserve:
        return (
            f"it would take {gib_text(demand.bytes)} GiB; {gib_text(now.free)} are free, "
            f"of which {gib_text(reserve)} stay in reserve"
        )
    return None


def _unfit(now: DeviceState) -> str | None:
    if now.mig:
        return "the GPU is split (MIG): figures of a part are not those of the type"
    if now.virtual:
        return "the GPU is virtual: its memory is not its own"
    if now.awaits_reset:
        return "the GPU waits for a reset: faulty memory is set aside"
    if now.exclusive and (now.pids or now.used > HIDDEN_BYTES):
        return "the GPU is in an exclusive mode and in use: a probe could keep its server from restarting"
    return None


def _busy(samples: Sequence[DeviceState]) -> str | None:
    pids = {pid for sample in samples for pid in sample.pids}
    if pids:
        return f"busy: {len(pids)} other process{'es are' if len(pids) > 1 else ' is'} on the GPU"
    if any(sample.utilization for sample in samples):
        return "busy: the GPU is at work"
    if samples[-1].name != "cpu" and (used := max(sample.used for sample in samples)) > HIDDEN_BYTES:
        return f"busy: {gib_text(used)} GiB are in use by processes that cannot be seen from here"
    return None


def endangered(now: DeviceState, reserve: int) -> bool:
    """Whether a running probe must be stopped at once for the sake of others."""
    return now.free < reserve


def disturbed(before: DeviceState, after: DeviceState, seen: frozenset[int], own: frozenset[int]) -> bool:
    """Whether something else used the device meanwhile, so that what was measured counts for nothing.

    ``seen``: processes on the device while the probe ran. ``own``: the probe's.
    """
    strangers = (seen | set(before.pids)) - own
    return bool(strangers) or after.used > before.used + UNEXPLAINED_BYTES
