"""Stores: the stores of one database, each made when it is first used.

Their library takes longer to import than a plan takes, and a service that only plans never needs them.
"""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from service.store.job_counts import JobCounts

if TYPE_CHECKING:
    from service.probes.limits import QueueLimits
    from service.store.database import Database
    from service.store.jobs import JobStore
    from service.store.measurements import MeasurementStore
    from service.store.tokens import TokenStore


class Stores:
    """The stores of one database."""

    def __init__(self, database: Database, limits: QueueLimits | None = None) -> None:
        self.database = database
        self.job_counts = JobCounts()
        self._limits = limits
        self._loading = Lock()

    @cached_property
    def jobs(self) -> JobStore:
        """The queue."""
        from service.store.jobs import JobStore  # noqa: PLC0415 - at the first use, see above

        return JobStore(self.database, limits=self._limits, counts=self.job_counts)

    @cached_property
    def measurements(self) -> MeasurementStore:
        """What workers and logs reported."""
        from service.store.measurements import MeasurementStore  # noqa: PLC0415 - as above

        return MeasurementStore(self.database)

    @cached_property
    def tokens(self) -> TokenStore:
        """The tokens."""
        from service.store.tokens import TokenStore  # noqa: PLC0415 - as above

        return TokenStore(self.database)

    @property
    def loaded(self) -> bool:
        """Whether all stores are made, so that none waits for their library."""
        return vars(self).keys() >= {"jobs", "measurements", "tokens"}

    def load(self) -> None:
        """Make all stores; takes a fifth of a second of one core, the first time."""
        with self._loading:
            _ = self.jobs, self.measurements, self.tokens

    def prepare(self) -> None:
        """Make all stores where there is a database, so that no request waits for their library.

        Raises:
            StoreUnavailable: it cannot be found out whether there is one.
        """
        if self.database.exists:
            self.load()
