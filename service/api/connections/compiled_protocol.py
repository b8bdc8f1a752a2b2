"""HTTP/1.1 of one connection, within limits, read by httptools: compiled code in place of Python.

Only imported where httptools is installed.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.connections.limited_connection import LimitedConnection

MOST_HEAD_BYTES: Final = 128 << 10
"""Bytes of a request's head that are stored. ``BodyLimit`` refuses shorter ones that are too long, too."""


class CompiledProtocol(LimitedConnection, HttpToolsProtocol):
    """HTTP/1.1 of one connection, within limits."""

    _head_bytes = 0
    """Bytes received of a head that is not complete."""
    _body_is_missing = False

    def data_received(self, data: bytes) -> None:
        """Take what the caller sent; the head's time limit starts with its first byte.

        httptools stores a head of any length, so one that is too long is refused here.
        """
        if self._refused:
            return
        if self._awaited is None and self in self.idle:
            self._expect("head")
        self._head_begun = True
        self._tell_whether_over_limit()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._awaited != "head":
            self._head_bytes = 0
        elif self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """Begin a request, which may follow another one in the same bytes."""
        self._expect("head")
        self._head_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Expect the body, unless an earlier request is still being answered: until then nothing is read."""
        super().on_headers_complete()
        self._note_last_request()
        self._body_is_missing = True
        self._expect(None if self.pipeline else "body")

    def on_message_complete(self) -> None:
        """Stop the time limit: the request was received."""
        self._body_is_missing = False
        self._expect(None)
        self.idle.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Count the connection as idle until its next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._body_is_missing:
            self._expect("body")
        elif self.cycle.response_complete:
            self.idle[self] = None
