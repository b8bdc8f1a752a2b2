"""Conditional requests, HEAD and compression, for every route at once.

The body of an answer is compared and compressed when it is complete. Streams pass through unchanged.
"""

import gzip
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.middleware.request_log import PROBES
from service.api.raw_headers import header

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEAST_BYTES: Final = 1000
"""Shorter bodies fit into one packet, and are not compressed."""
THREAD_BYTES: Final = 64 << 10
"""Larger bodies take more than a millisecond, and are hashed and compressed in a thread."""
GZIP_LEVEL: Final = 5
ZSTD_LEVEL: Final = 3
SECRETS: Final = frozenset({b"authorization", b"x-hub-token"})
"""Headers on which an answer may depend."""
COMPRESSIBLE: Final = re.compile(r"(text/|application/([\w.-]+\+)?(json|yaml|javascript)|image/svg)")
NOT_STORED: Final = "no-store"
REVALIDATED: Final = "no-cache"
"""Value of Cache-Control: may be stored, and is compared by its ETag before it is used again."""


def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, GZIP_LEVEL, mtime=0)


def _zstandard(body: bytes) -> bytes:
    return bytes(zstd.compress(body, ZSTD_LEVEL))


ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "zstd": _zstandard,
    "gzip": _gzipped,
}
"""Encodings by name, the preferred one first."""


class Representation:
    """Answers HEAD as GET without a body, tells unchanged answers by 304, and compresses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and write its answer as the caller asked for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        if scope["method"] != "HEAD":
            await self._app(scope, receive, answer.send)
            return
        scope["method"] = "GET"
        try:
            await self._app(scope, receive, answer.send)
        except (ClientDisconnect, _HeadAnsweredError, ExceptionGroup):
            if not answer.ended:
                raise
        finally:
            scope["method"] = "HEAD"


class _HeadAnsweredError(OSError):
    """The headers of a stream were sent: nothing more is wanted of it."""


class _Answer:
    """Holds the start of a response until its first bytes are known."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._is_head = scope["method"] == "HEAD"
        self._is_get = scope["method"] in {"GET", "HEAD"}
        self._send = send
        self._start: Message | None = None
        self.ended = False

    async def send(self, message: Message) -> None:
        """Send a message of the application, or hold it.

        Raises:
            _HeadAnsweredError: the answer to HEAD is complete.
        """
        if self.ended:
            raise _HeadAnsweredError
        if message["type"] == "http.response.start":
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            start, self._start = self._start, None
            await self._begin(start, message)

    async def _begin(self, start: Message, message: Message) -> None:
        headers = MutableHeaders(scope=start)
        if self._is_get and "cache-control" not in headers:
            headers["Cache-Control"] = self._cache_control(start["status"])
        if message.get("more_body", False):
            await self._stream(start, message)
            return
        body = message.get("body", b"")
        if len(body) > THREAD_BYTES:
            body = await to_thread.run_sync(partial(self._written, start, headers, body))
        else:
            body = self._written(start, headers, body)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})

    def _cache_control(self, status: int) -> str:
        if status != HTTPStatus.OK or self._scope["path"] in PROBES:
            return NOT_STORED
        is_private = any(name in SECRETS for name, _ in self._scope["headers"])
        return f"private, {REVALIDATED}" if is_private else REVALIDATED

    async def _stream(self, start: Message, message: Message) -> None:
        await self._send(start)
        if not self._is_head:
            await self._send(message)
            return
        self.ended = True
        await self._send({"type": "http.response.body", "body": b""})
        raise _HeadAnsweredError

    def _written(self, start: Message, headers: MutableHeaders, body: bytes) -> bytes:
        """Return the body as it is sent, and complete the headers."""
        if self._is_get and start["status"] == HTTPStatus.OK and headers["cache-control"] != NOT_STORED:
            tag = headers.setdefault("ETag", f'"{blake2b(body, digest_size=12).hexdigest()}"')
            if _matches(header(self._scope, b"if-none-match"), tag):
                start["status"] = int(HTTPStatus.NOT_MODIFIED)
                for name in ("content-length", "content-type"):
                    if name in headers:
                        del headers[name]
                return b""
        if len(body) >= LEAST_BYTES and _is_compressible(headers):
            headers.add_vary_header("Accept-Encoding")
            encoding = chosen_encoding(header(self._scope, b"accept-encoding"))
            if encoding is not None:
                body = ENCODERS[encoding](body)
                headers["Content-Encoding"] = encoding
                if "etag" in headers:
                    headers["ETag"] = f"W/{headers['etag'].removeprefix('W/')}"
                if "content-length" in headers:
                    headers["Content-Length"] = str(len(body))
        return body


def _is_compressible(headers: MutableHeaders) -> bool:
    plain = "content-encoding" not in headers
    return plain and COMPRESSIBLE.match(headers.get("content-type", "")) is not None


def _matches(given: str, tag: str) -> bool:
    """Whether a header If-None-Match names an ETag, by the weak comparison (RFC 9110, section 13.1.2)."""
    names = {name.strip().removeprefix("W/") for name in given.split(",")}
    return "*" in names or tag.removeprefix("W/") in names


@lru_cache(maxsize=64)
def chosen_encoding(accepted: str) -> str | None:
    """Return the encoding that a header Accept-Encoding prefers; ``None`` for none (RFC 9110, 12.5.3)."""
    weights = dict(map(_weighed, filter(None, map(str.strip, accepted.lower().split(",")))))
    rest = weights.get("*", 0.0)
    best = max(ENCODERS, key=lambda name: weights.get(name, rest))
    return best if weights.get(best, rest) > 0 else None


def _weighed(part: str) -> tuple[str, float]:
    name, _, parameter = part.partition(";")
    _, _, weight = parameter.partition("q=")
    try:
        return name.strip(), float(weight) if weight else 1.0
    except ValueError:
        return name.strip(), 0.0
