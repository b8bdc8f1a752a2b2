"""FailedAttempts: a bound on requests with wrong tokens.

A token cannot be found by trial, but each trial costs a query. Whoever sends too many wrong tokens is refused
without one, except with a token that was accepted lately: callers behind one proxy share an address.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from service.api.errors import TooManyAttempts

MOST: Final = 10
"""Wrong tokens of one address within ``WINDOW_SECONDS``."""
WINDOW_SECONDS: Final = 60.0
ADDRESSES: Final = 10_000
ACCEPTED: Final = 1000
"""Tokens that were accepted lately and are remembered, as digests."""


class FailedAttempts:
    """Counts wrong tokens by the address that they came from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST) -> None:
        self._most = most
        self._clock = clock
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._accepted: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str, text: str) -> None:
        """Refuse a token before it is looked up.

        Raises:
            TooManyAttempts: too many wrong ones came from this address.
        """
        since, number = self._failed.get(address, (0.0, 0))
        left = since + WINDOW_SECONDS - self._clock()
        if number >= self._most and left > 0 and _digest(text) not in self._accepted:
            raise TooManyAttempts(max(1, int(left) + 1))

    def note(self, address: str, text: str, *, accepted: bool) -> None:
        """Note whether a token was accepted."""
        if accepted:
            self._accepted[_digest(text)] = None
            self._accepted.move_to_end(_digest(text))
            if len(self._accepted) > ACCEPTED:
                self._accepted.popitem(last=False)
            return
        self._accepted.pop(_digest(text), None)
        since, number = self._failed.pop(address, (0.0, 0))
        now = self._clock()
        self._failed[address] = (now, 1) if now - since > WINDOW_SECONDS else (since, number + 1)
        if len(self._failed) > ADDRESSES:
            self._failed.popitem(last=False)


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
