"""What the Hub said no to a moment ago, so that it is not asked again at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from service.hub.errors import HubError

REFUSED_SECONDS: Final = 60.0
MOST_REFUSALS: Final = 4096


class NegativeCache:
    """Errors by what was asked for, for a minute by `clock` (monotonic seconds), the latest ones only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stored: OrderedDict[Hashable, tuple[HubError, float]] = OrderedDict()

    def check(self, key: Hashable) -> None:
        """Repeat an error that is still good.

        Raises:
            HubError: the one that was kept.
        """
        error, until = self._stored.get(key, (None, 0.0))
        if error is None:
            return
        if self._clock() < until:
            raise error.with_traceback(None)
        del self._stored[key]

    def keep(self, key: Hashable, error: HubError) -> None:
        """Repeat an error for a minute from when it was first met."""
        if self._stored.get(key, (None,))[0] is error:
            return
        self._stored[key] = (error, self._clock() + REFUSED_SECONDS)
        self._stored.move_to_end(key)
        while len(self._stored) > MOST_REFUSALS:
            self._stored.popitem(last=False)
