"""Defaults of the settings of probes."""

from dataclasses import dataclass
from typing import Final

LEASE_SECONDS: Final = 60
"""Duration of a lease: a job without a heartbeat for so long is given to another worker."""
QUEUE_LIMIT: Final = 1000
"""Jobs that may wait for a worker."""
MAX_ATTEMPTS: Final = 2
"""Most leases of one job: if two workers are lost during it, the job itself is probably the reason."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of one queue."""

    waiting: int = QUEUE_LIMIT
    """Jobs that may wait for a worker; more are rejected."""
    attempts: int = MAX_ATTEMPTS
    """Most leases of one job."""
    lease_seconds: float = LEASE_SECONDS
    """Duration of a lease without a heartbeat."""
