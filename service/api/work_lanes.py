"""Work of the processor, beside the event loop: small and large work apart, each one after the other.

Threads of one interpreter share the time of one processor: the more of them work, the longer the event loop
waits, and each of them holds the memory of its answer. So there are two lanes, one for small work and one for
large, and each does one piece of work at a time: small work never waits behind large work.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from time import monotonic
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

Result = TypeVar("Result")

LIGHT_LIMIT: Final = 1024
"""Small pieces of work that may wait; some 30 s of one core."""
DEAR_LIMIT: Final = 64
"""Large pieces of work that may wait; one to two minutes of one core."""
STREAMS: Final = 64
"""Streams of events that one token may follow at once; each asks the database once a second."""
POLLS: Final = 512
"""Workers that may wait for a job under one token."""
SEAT_PAUSE_SECONDS: Final = 30
LONGEST_PAUSE_SECONDS: Final = 120
FIRST_GUESS_SECONDS: Final = 1.0
LATEST_SHARE: Final = 1 / 8
"""How much the latest piece of work counts in the mean of what work takes."""


class TooBusy(Exception):
    """So much work waits that no more is taken.

    Attributes:
        retry_after: seconds after which asking again makes sense.
    """

    def __init__(self, waiting: int, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"{waiting:,} requests of this kind wait already: ask again later")


class CallerLeft(Exception):
    """The caller hung up before its turn came, so that nobody would read the answer."""


class Lane:
    """Work that is done one piece at a time; callers are served in rotation, each one's work in its order."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._thread = CapacityLimiter(1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._mean_seconds = FIRST_GUESS_SECONDS
        self.busy = False

    @property
    def waiting(self) -> int:
        """How many pieces of work wait for their turn."""
        return sum(map(len, self._waiting.values()))

    async def run(self, work: Callable[[], Result], request: Request) -> Result:
        """Return what work comes to.

        Raises:
            TooBusy: too much work waits already.
            CallerLeft: the caller hung up while it waited.
        """
        if self.busy:
            await self._turn(request)
        self.busy = True
        started = monotonic()
        try:
            return await to_thread.run_sync(work, limiter=self._thread)
        finally:
            self._mean_seconds += LATEST_SHARE * (monotonic() - started - self._mean_seconds)
            self._pass_on()

    async def _turn(self, request: Request) -> None:
        caller = "" if request.client is None else request.client.host
        if self.waiting >= self._most_waiting:
            self._make_room(caller)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(place)
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({place, leaving}, return_when=asyncio.FIRST_COMPLETED)
            _check(place)
        except BaseException:
            self._give_up(caller, place)
            raise
        finally:
            leaving.cancel()

    def _make_room(self, caller: str) -> None:
        """Refuse the latest work of the caller who has most of it waiting, which may be this caller.

        Raises:
            TooBusy: it is this caller.
        """
        busy = TooBusy(self.waiting, self._pause())
        greediest = max(self._waiting, key=lambda each: len(self._waiting[each]), default=caller)
        if len(self._waiting.get(greediest, ())) <= len(self._waiting.get(caller, ())) + 1:
            raise busy
        place = self._waiting[greediest].pop()
        if not place.done():
            place.set_exception(busy)

    def _pause(self) -> int:
        return min(LONGEST_PAUSE_SECONDS, max(1, ceil(self.waiting * self._mean_seconds)))

    def _pass_on(self) -> None:
        """Let the next caller have its turn."""
        while self._waiting:
            caller = next(iter(self._waiting))
            places = self._waiting.pop(caller)
            place = places.popleft()
            if places:
                self._waiting[caller] = places
            if not place.done():
                place.set_result(None)
                return
        self.busy = False

    def _give_up(self, caller: str, place: asyncio.Future[None]) -> None:
        """Take a place out of the queue; where its turn has come already, pass the turn on."""
        places = self._waiting.get(caller, deque())
        if place in places:
            places.remove(place)
            if not places:
                del self._waiting[caller]
        elif place.done() and not place.cancelled() and place.exception() is None:
            self._pass_on()


class Seats:
    """How many requests of one caller may wait at once for something to happen."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Hold a seat for as long as a request waits.

        Raises:
            TooBusy: the caller has all of its seats.
        """
        if self._taken[caller] >= self._most:
            raise TooBusy(self._taken[caller], SEAT_PAUSE_SECONDS)
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]


class Turns:
    """The lanes of one application, and the seats of those who wait for probes."""

    def __init__(self, dear_limit: int = DEAR_LIMIT) -> None:
        """Take how many large pieces of work may wait."""
        self.light = Lane(LIGHT_LIMIT)
        self.dear = Lane(dear_limit)
        self.streams = Seats(STREAMS)
        self.polls = Seats(POLLS)

    def of(self, request: Request) -> "Turn":
        """Return what does the work of one request."""
        return Turn(self, request)


class Turn:
    """Does the work of one request when it is its turn."""

    def __init__(self, turns: Turns, request: Request) -> None:
        self._turns = turns
        self._request = request

    async def __call__(self, work: Callable[[], Result], *, dear: bool = False) -> Result:
        """Return what work comes to; ``dear``: it takes more than some tenths of a second.

        Raises:
            TooBusy: too much work waits already.
            CallerLeft: the caller hung up while it waited.
        """
        lane = self._turns.dear if dear else self._turns.light
        return await lane.run(work, self._request)


def _check(place: asyncio.Future[None]) -> None:
    if not place.done():
        raise CallerLeft
    place.result()


async def _left(request: Request) -> None:
    """Return once the caller has hung up; its body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
