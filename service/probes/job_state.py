"""The states of a job, and the only ways from one to another."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    LEASED = "leased"
    """A worker has it and has not said yet that it began."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The probe ran and came to no measurement; running out of memory is one such result."""
    REFUSED = "refused"
    """The worker would not run it here: it could have done harm."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Nobody took it in time, or every worker that took it was lost."""


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.QUEUED: frozenset({State.LEASED, State.CANCELLED, State.EXPIRED}),
    State.LEASED: frozenset(
        {
            State.RUNNING,
            State.QUEUED,
            State.SUCCEEDED,
            State.FAILED,
            State.REFUSED,
            State.CANCELLED,
            State.EXPIRED,
        }
    ),
    State.RUNNING: frozenset(
        {State.QUEUED, State.SUCCEEDED, State.FAILED, State.REFUSED, State.CANCELLED, State.EXPIRED}
    ),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.REFUSED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}
ENDED: Final = frozenset(state for state, after in TRANSITIONS.items() if not after)
HELD: Final = frozenset({State.LEASED, State.RUNNING})
"""States in which one worker holds the job."""
