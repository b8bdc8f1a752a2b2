"""The states of a job and the allowed transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    LEASED = "leased"
    """A worker has leased it and has not sent a heartbeat yet."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The probe ran and measured nothing, for example because memory ran out."""
    REFUSED = "refused"
    """The worker did not run it, because it could have disturbed other users of the GPU."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """No worker leased it in time, or every worker that leased it stopped sending heartbeats."""


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
"""States in which a worker holds a lease of the job."""
