"""No body is read beyond the size of any question, nor more of them at once than memory bears.

What is read from a body takes up to twenty times its bytes as objects, and all requests that wait for their
turn keep theirs. So the bodies of all requests at once have a bound; small ones have one of their own, so
that a few large ones keep no question out.
"""

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 4 << 20
SMALL_BYTES: Final = 64 << 10
"""Most questions are smaller, the config of their model included."""
SMALL_TOGETHER: Final = 8 << 20
LARGE_TOGETHER: Final = 12 << 20
PAUSE_SECONDS: Final = 5


class TooManyBodies(HTTPException):
    """The bodies of all requests at once are more than the service takes.

    Attributes:
        retry_after: seconds after which asking again makes sense.
    """

    retry_after: Final = PAUSE_SECONDS

    def __init__(self) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE)


class _Together:
    """Bytes of the bodies of all requests."""

    def __init__(self) -> None:
        self.small = 0
        self.large = 0

    def add(self, before: int, now: int) -> None:
        """Count a body that has grown, or that is gone.

        Raises:
            TooManyBodies: all together are too many; nothing has changed then.
        """
        small = self.small + _if_small(now) - _if_small(before)
        large = self.large + (now - _if_small(now)) - (before - _if_small(before))
        if now > before and (small > SMALL_TOGETHER or large > LARGE_TOGETHER):
            raise TooManyBodies
        self.small, self.large = small, large


def _if_small(size: int) -> int:
    return size if size <= SMALL_BYTES else 0


class BodyLimit:
    """Counts a body while it is read, and lets nothing announced as too long be read at all."""

    def __init__(self, app: ASGIApp, limit_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit_bytes
        self._together = _Together()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on.

        Raises:
            HTTPException: from within the application's own reading, so that its handlers answer.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        read = int(announced) if announced.isdecimal() else 0
        too_long = read > self._limit
        read = 0

        async def counted() -> Message:
            nonlocal read
            if too_long:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            message = await receive()
            now = read + len(message.get("body", b""))
            if now > self._limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            self._together.add(read, now)
            read = now
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._together.add(read, 0)
