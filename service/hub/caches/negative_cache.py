"""Remembers errors of the Hub for a minute, so that the same request is not repeated at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from service.hub.errors import HubError

TTL_SECONDS: Final = 60.0
MOST_ERRORS: Final = 4096


class NegativeCache:
    """Stores the error of each request key for `TTL_SECONDS`; at most `MOST_ERRORS` of the latest.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._errors: OrderedDict[Hashable, tuple[HubError, float]] = OrderedDict()

    def check(self, key: Hashable) -> None:
        """Raise the stored error of a key, if it has not expired.

        Raises:
            HubError: the stored error.
        """
        error, until = self._errors.get(key, (None, 0.0))
        if error is None:
            return
        if self._clock() < until:
            raise error.with_traceback(None)
        del self._errors[key]

    def store(self, key: Hashable, error: HubError) -> None:
        """Store an error. Storing the same error object again does not prolong its time."""
        if self._errors.get(key, (None,))[0] is error:
            return
        self._errors[key] = (error, self._clock() + TTL_SECONDS)
        self._errors.move_to_end(key)
        while len(self._errors) > MOST_ERRORS:
            self._errors.popitem(last=False)
