"""Limits the size of a request: its address, its headers and its body."""

import re
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.raw_headers import header
from service.api.responses import problem_response
from service.startup_log.text.long_logs import MAX_LOG_BYTES

MAX_BODY_BYTES: Final = 17 << 20
"""A config of 16 MiB and what stands beside it."""
LOG_PATH: Final = "/explain"
LOG_TYPES: Final = ("text/plain", "application/octet-stream")
MAX_CONTAINERS: Final = 100_000
"""Objects and lists of a body. Each takes up to a hundred times the memory of its text when parsed."""
MAX_VALUES: Final = 1 << 18
"""Values of a body, counted by commas. The weight index of a large mixture of experts has some 50,000."""
SHORT_BYTES: Final = min(MAX_CONTAINERS, MAX_VALUES)
"""A body of no more bytes is within both limits, and is not counted."""
MAX_TARGET_BYTES: Final = 32 << 10
"""Bytes of a path with its query: 256 GPU types of 100 characters fit."""
MAX_PARAMETERS: Final = 2048
MAX_HEADER_BYTES: Final = 64 << 10
MOST_DIGITS: Final = 12

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?)', re.DOTALL)
"""A string up to its closing quote, or else to the end of the text, with a backslash that ends the text."""


def is_log(scope: Scope) -> bool:
    """Whether the body is a log, which is read in pieces and not held, so that it may be longer."""
    if not str(scope["path"]).endswith(LOG_PATH):
        return False
    return header(scope, b"content-type").partition(";")[0].strip().lower() in LOG_TYPES


class BodyLimit:
    """Stops reading a body beyond the limits; one announced as too long is not read at all."""

    def __init__(self, app: ASGIApp, limit_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its address or its headers are too long.

        Raises:
            HTTPException: while the application reads the body, so that its handlers answer.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (refusal := _refusal(scope)) is not None:
            await problem_response(Request(scope), HTTPException(refusal))(scope, receive, send)
            return
        log = is_log(scope)
        limit = MAX_LOG_BYTES if log else self._limit
        announced = header(scope, b"content-length")
        too_long = announced.isdecimal() and (len(announced) > MOST_DIGITS or int(announced) > limit)
        read, counted = 0, JsonCount()

        async def limited() -> Message:
            nonlocal read
            if too_long:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            message = await receive()
            body = message.get("body", b"")
            read += len(body)
            is_short = read <= SHORT_BYTES and not message.get("more_body", False)
            if read > limit or (not log and not is_short and counted.add(body)):
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        await self._app(scope, limited, send)


class JsonCount:
    """Counts the values of a JSON text without parsing it: commas and brackets outside of strings."""

    def __init__(self) -> None:
        self._open = b""
        self.containers = 0
        self.values = 0

    def add(self, chunk: bytes) -> bool:
        """Count a part of the text, and return whether there are too many values now."""
        text = self._open + chunk
        self._open = b""
        # Even items stand outside of strings; odd items are the end of each string.
        parts = _STRING.split(text)
        if len(parts) > 1 and parts[-2] != b'"':
            self._open = b'"' + parts[-2]
        outside = b"".join(parts[::2])
        self.containers += outside.count(b"{") + outside.count(b"[")
        self.values += outside.count(b",")
        return self.containers > MAX_CONTAINERS or self.values > MAX_VALUES


def _refusal(scope: Scope) -> HTTPStatus | None:
    query = scope.get("query_string", b"")
    path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    if len(path) + len(query) > MAX_TARGET_BYTES or query.count(b"&") >= MAX_PARAMETERS:
        return HTTPStatus.REQUEST_URI_TOO_LONG
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None
