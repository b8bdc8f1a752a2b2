"""No body is read beyond the size of any question."""

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 4 << 20


class BodyLimit:
    """Counts a body while it is read, and lets nothing announced as too long be read at all."""

    def __init__(self, app: ASGIApp, limit_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit_bytes

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
            read += len(message.get("body", b""))
            if read > self._limit:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        await self._app(scope, counted, send)
