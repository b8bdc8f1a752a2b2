"""What the stores raise. Who only catches these errors does not import a database."""

from typing import Final

PAUSE_SECONDS: Final = 5
"""Wait suggested to a client while the database cannot be used."""
QUEUE_PAUSE_SECONDS: Final = 30
"""Wait suggested to a client when the queue is full: a probe takes at least that long."""


class InvalidDatabase(ValueError):
    """The URL is not that of a supported database."""


class StoreUnavailable(Exception):
    """The database cannot be connected to or opened.

    Attributes:
        reason: what happened, for operators; it may name hosts and roles. Empty if unknown.
        retry_after: seconds after which to repeat the request.
    """

    retry_after: Final = PAUSE_SECONDS

    def __init__(self, reason: str = "", words: str = "") -> None:
        self.reason = reason
        super().__init__(words or "the database of probes and measurements cannot be used now")


class SchemaMismatch(StoreUnavailable):
    """The tables have a revision that this program cannot use."""

    def __init__(self, summary: str) -> None:
        super().__init__(summary, summary)


class JobNotFound(LookupError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no probe {job_id[:40]!r}")


class KeyReused(ValueError):
    """The idempotency key was already used for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the Idempotency-Key {key[:40]!r} was already used for another request")


class QueueFull(Exception):
    """The queue has as many waiting jobs as it may have.

    Attributes:
        retry_after: seconds after which a retry makes sense.
    """

    retry_after: Final = QUEUE_PAUSE_SECONDS

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit:,} probes already wait for a worker: cancel some, or try again later")
