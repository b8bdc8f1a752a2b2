"""Lane: does one piece of work at a time, for each waiting caller in rotation."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import ceil, inf
from time import monotonic
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.types import Scope

from service.api.errors import CallerLeft, Overloaded
from service.api.supervision import Supervision

Result = TypeVar("Result")

LONGEST_PAUSE_SECONDS: Final = 120
FIRST_ESTIMATE_SECONDS: Final = 0.5
EXPECTED_SHARE: Final = 0.5
"""Part of the time limit that work may be expected to wait: estimates are inexact."""
LATEST_SHARE: Final = 1 / 8
"""Weight of the latest piece of work in the mean duration of work."""
REFUSING_SECONDS: Final = 0.005
"""Time after a refusal for which others are expected: they come in hundreds where callers ask too much."""


class Lane:
    """Does one piece of work at a time: of each waiting caller in rotation, the oldest piece."""

    def __init__(
        self,
        most_waiting: int,
        limit_seconds: float,
        has_urgent_work: Callable[[], bool] = lambda: False,
        expected_seconds: float = FIRST_ESTIMATE_SECONDS,
    ) -> None:
        """Make a lane in which so many pieces of work may wait.

        ``limit_seconds``: processor time that a piece may take, and time that it may wait for its turn.
        ``expected_seconds``: duration of a piece, before any was measured.
        ``has_urgent_work``: whether other lanes have work that this lane's work is to be stopped for.
        """
        self._most_waiting = most_waiting
        self._limit = limit_seconds
        self._has_urgent_work = has_urgent_work
        self._thread = CapacityLimiter(1)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._admitted: Counter[str] = Counter()
        self._mean_seconds = expected_seconds
        self._refused_at = -inf
        self.busy = False

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait."""
        return sum(map(len, self._waiting.values()))

    async def run(self, work: Callable[[], Result], request: Request) -> Result:
        """Run work in the lane's thread and return its result.

        Raises:
            Overloaded: too much work waits already, or it waited too long.
            CallerLeft: the caller closed the connection while its work waited or ran.
            TimeLimitReached: the work took longer than it may.
        """
        leaving = asyncio.ensure_future(_left(request))
        try:
            if self.busy:
                await self._turn(request, leaving)
            self.busy = True
            started = monotonic()
            try:
                return await self._supervised(work, leaving)
            finally:
                self._mean_seconds += LATEST_SHARE * (monotonic() - started - self._mean_seconds)
                self._pass_on()
        finally:
            leaving.cancel()

    @contextmanager
    def admit(self, request: Request) -> Iterator[None]:
        """Count a request that will run its work here, before anything is done for it.

        Raises:
            Overloaded: so many are admitted that ``run`` would refuse it in the end.
        """
        caller = caller_of(request.scope)
        if (error := self.refusal(caller)) is not None:
            raise error
        self._admitted[caller] += 1
        try:
            yield
        finally:
            self._admitted[caller] -= 1
            self._admitted += Counter()  # drops callers without a request

    @property
    def is_filled(self) -> bool:
        """Whether some callers would be refused now."""
        return self._is_full(self._admitted.total())

    def refusal(self, caller: str) -> Overloaded | None:
        """Return the error by which ``admit`` would refuse a caller now; ``None`` where it would not."""
        if not self.is_filled:
            return None
        try:
            self._check_share(caller, self._admitted)
        except Overloaded as error:
            return error
        return None

    def note_refusal(self) -> None:
        """Note that a caller is refused now: the work stops for a moment, so that others are refused at once.

        The event loop waits for the interpreter before each request that it reads while a thread works.
        """
        self._refused_at = monotonic()

    @property
    def _refuses(self) -> bool:
        """Whether a caller was refused just now."""
        return monotonic() - self._refused_at < REFUSING_SECONDS

    def _is_full(self, ahead: int) -> bool:
        """Whether a piece behind so many others would hardly get its turn in time."""
        return ahead > self._most_waiting or ahead * self._mean_seconds > self._limit * EXPECTED_SHARE

    async def _supervised(self, work: Callable[[], Result], leaving: asyncio.Future[None]) -> Result:
        supervision = Supervision(self._limit, lambda: self._refuses or self._has_urgent_work())

        def left(done: asyncio.Future[None]) -> None:
            if not done.cancelled():
                supervision.leave()

        leaving.add_done_callback(left)
        try:
            return await to_thread.run_sync(partial(supervision.run, work), limiter=self._thread)
        finally:
            leaving.remove_done_callback(left)

    async def _turn(self, request: Request, leaving: asyncio.Future[None]) -> None:
        caller = caller_of(request.scope)
        if self._is_full(self.waiting + 1):
            self._make_room(caller)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(place)
        try:
            await asyncio.wait({place, leaving}, timeout=self._limit, return_when=asyncio.FIRST_COMPLETED)
            self._check(place, leaving)
        except BaseException:
            self._give_up(caller, place)
            raise

    def _make_room(self, caller: str) -> None:
        """Refuse the newest work of the caller with the most waiting work, which may be this caller.

        Raises:
            Overloaded: it is this caller.
        """
        waiting = {each: len(places) for each, places in self._waiting.items()}
        place = self._waiting[self._check_share(caller, waiting)].pop()
        if not place.done():
            place.set_exception(self._overloaded())

    def _check_share(self, caller: str, taken: Mapping[str, int]) -> str:
        """Return the caller who takes the most places.

        Raises:
            Overloaded: it is this caller.
        """
        greediest = max(taken, key=lambda each: taken[each], default=caller)
        if taken.get(greediest, 0) <= taken.get(caller, 0) + 1:
            raise self._overloaded()
        return greediest

    def _check(self, place: asyncio.Future[None], leaving: asyncio.Future[None]) -> None:
        if not place.done():
            raise CallerLeft if leaving.done() else self._overloaded()
        place.result()

    def _overloaded(self) -> Overloaded:
        pause = min(LONGEST_PAUSE_SECONDS, max(1, ceil(self.waiting * self._mean_seconds)))
        return Overloaded(self.waiting, pause)

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


def caller_of(scope: Scope) -> str:
    """Return the address of the caller of a request; empty where the server gives none."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


async def _left(request: Request) -> None:
    """Return once the caller has closed the connection; its body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
