"""Runs the CPU-bound work of requests in threads: small work in one lane, large work in another.

Work of a kind that took less than ``LOOP_SECONDS`` the last time is done on the event loop at once, because
handing it to a thread takes as long as the work itself.

Each lane does one piece of work at a time, so that small work never waits for large work. There is one thread
for each lane, and no more: the threads of one interpreter share one processor's time, so that each further
thread would delay the event loop, and would hold the memory of one more answer.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from threading import Lock
from time import monotonic, thread_time
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

Result = TypeVar("Result")

SMALL_LIMIT: Final = 1024
"""Pieces of small work that may wait: some 30 s of one core."""
LARGE_LIMIT: Final = 64
"""Pieces of large work that may wait: one to two minutes of one core."""
STREAMS: Final = 64
"""Streams of events that one token may follow at once; each reads the database once a second."""
POLLS: Final = 512
"""Workers that may wait for a job under one token."""
QUOTA_PAUSE_SECONDS: Final = 30
LONGEST_PAUSE_SECONDS: Final = 120
FIRST_ESTIMATE_SECONDS: Final = 1.0
LOOP_SECONDS: Final = 0.002
"""Processor time below which the event loop does work of a kind by itself."""
KINDS: Final = 4096
"""Kinds of work whose duration is remembered, the most recent ones."""
LATEST_SHARE: Final = 1 / 8
"""Weight of the latest piece of work in the mean duration of work."""


class TooBusy(Exception):
    """So much work waits that no more is accepted.

    Attributes:
        retry_after: seconds after which to repeat the request.
    """

    def __init__(self, waiting: int, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"{waiting:,} requests of this kind wait already: repeat the request later")


class CallerLeft(Exception):
    """The caller closed the connection while its work waited: nobody would read the answer."""


class Lane:
    """Does one piece of work at a time: of each waiting caller in rotation, the oldest piece."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._thread = CapacityLimiter(1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._mean_seconds = FIRST_ESTIMATE_SECONDS
        self.busy = False

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait."""
        return sum(map(len, self._waiting.values()))

    async def run(self, work: Callable[[], Result], request: Request) -> Result:
        """Run work in the lane's thread and return its result.

        Raises:
            TooBusy: too much work waits already.
            CallerLeft: the caller closed the connection while its work waited.
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
        """Refuse the newest work of the caller with the most waiting work, which may be this caller.

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
        """Start the oldest work of the next caller."""
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
        """Remove work from the queue; where it was just started, start the next work in its place."""
        places = self._waiting.get(caller, deque())
        if place in places:
            places.remove(place)
            if not places:
                del self._waiting[caller]
        elif place.done() and not place.cancelled() and place.exception() is None:
            self._pass_on()


class CallerQuota:
    """Limits how many requests of one caller wait for an event at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[None]:
        """Count a request of a caller for as long as it waits.

        Raises:
            TooBusy: as many requests of this caller wait already as are allowed.
        """
        if self._taken[caller] >= self._most:
            raise TooBusy(self._taken[caller], QUOTA_PAUSE_SECONDS)
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]


class Durations:
    """Processor time that work of each kind took the last time."""

    def __init__(self, most: int = KINDS) -> None:
        self._most = most
        self._seconds: OrderedDict[Hashable, float] = OrderedDict()
        self._lock = Lock()

    def is_short(self, kind: Hashable) -> bool:
        """Whether work of this kind was done before, and took less than ``LOOP_SECONDS`` the last time."""
        return self._seconds.get(kind, LOOP_SECONDS) < LOOP_SECONDS

    def measured(self, kind: Hashable, work: Callable[[], Result]) -> Result:
        """Do work, and remember how long it took."""
        started = thread_time()
        try:
            return work()
        finally:
            seconds = thread_time() - started
            with self._lock:
                self._seconds[kind] = seconds
                self._seconds.move_to_end(kind)
                if len(self._seconds) > self._most:
                    self._seconds.popitem(last=False)


class WorkLanes:
    """The lanes of one application, and its limits on requests that wait for probes."""

    def __init__(self, large_limit: int = LARGE_LIMIT) -> None:
        """Make the lanes; ``large_limit`` pieces of large work may wait."""
        self.small = Lane(SMALL_LIMIT)
        self.large = Lane(large_limit)
        self.streams = CallerQuota(STREAMS)
        self.polls = CallerQuota(POLLS)
        self.durations = Durations()

    def of(self, request: Request) -> "Runner":
        """Return the runner of one request."""
        return Runner(self, request)


class Runner:
    """Runs the work of one request in the lane of its size."""

    def __init__(self, lanes: WorkLanes, request: Request) -> None:
        self._lanes = lanes
        self._request = request

    async def __call__(
        self, work: Callable[[], Result], *, large: bool = False, kind: Hashable | None = None
    ) -> Result:
        """Run work and return its result.

        ``large``: it takes more than some tenths of a second. ``kind``: equal for pieces of work that take
        equally long; ``None`` where that is not known, so that a thread does the work.

        Raises:
            TooBusy: too much work waits already.
            CallerLeft: the caller closed the connection while its work waited.
        """
        durations = self._lanes.durations
        if kind is not None and durations.is_short(kind):
            return durations.measured(kind, work)
        measured = work if kind is None else partial(durations.measured, kind, work)
        lane = self._lanes.large if large else self._lanes.small
        return await lane.run(measured, self._request)


def _check(place: asyncio.Future[None]) -> None:
    if not place.done():
        raise CallerLeft
    place.result()


async def _left(request: Request) -> None:
    """Return once the caller has closed the connection; its body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
