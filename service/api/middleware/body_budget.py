"""Limits the bytes of the bodies of all requests at once.

A parsed body takes up to twenty times its bytes in memory, and every request that waits holds its own. Small
bodies have a limit of their own, so that a few large bodies do not keep small requests out.
"""

from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.middleware.body_limit import is_log

SMALL_BYTES: Final = 64 << 10
"""Most requests are smaller, the config of their model included."""
SMALL_TOGETHER: Final = 8 << 20
"""Bytes of all small bodies at once."""
LARGE_TOGETHER: Final = 17 << 20
"""Bytes of all larger bodies at once."""
PAUSE_SECONDS: Final = 5


class TooManyBodies(HTTPException):
    """The bodies of all requests together have more bytes than the service accepts.

    Attributes:
        retry_after: seconds after which to repeat the request.
    """

    retry_after: Final = PAUSE_SECONDS

    def __init__(self) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE)


class BodyBudget:
    """Counts the bytes of all bodies in memory, and refuses a body that exceeds the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._small = 0
        self._large = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its body while it is read and held.

        Raises:
            TooManyBodies: while the application reads the body, so that its handlers answer.
        """
        if scope["type"] != "http" or is_log(scope):
            # A log is read in pieces that are not held.
            await self._app(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            now = read + len(message.get("body", b""))
            self._change(read, now)
            read = now
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._change(read, 0)

    def _change(self, before: int, now: int) -> None:
        """Count a body that has grown or ended; a refused body changes nothing."""
        small = self._small + _if_small(now) - _if_small(before)
        large = self._large + (now - _if_small(now)) - (before - _if_small(before))
        if now > before and (small > SMALL_TOGETHER or large > LARGE_TOGETHER):
            raise TooManyBodies
        self._small, self._large = small, large


def _if_small(size: int) -> int:
    return size if size <= SMALL_BYTES else 0
