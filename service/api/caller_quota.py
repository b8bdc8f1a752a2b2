"""CallerQuota: a limit on the requests of one caller that wait for events."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.api.errors import Overloaded

QUOTA_PAUSE_SECONDS: Final = 30


class CallerQuota:
    """Limits how many requests of one caller wait for an event at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[None]:
        """Count a request of a caller for as long as it waits.

        Raises:
            Overloaded: as many requests of this caller wait already as are allowed.
        """
        if self._taken[caller] >= self._most:
            raise Overloaded(self._taken[caller], QUOTA_PAUSE_SECONDS)
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]
