"""HTTP/1.1 of one connection, within limits, read by h11: in Python, and always installed."""

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.api.connections.limited_connection import LimitedConnection


class PythonProtocol(LimitedConnection, H11Protocol):
    """HTTP/1.1 of one connection, within limits, read in Python."""

    def data_received(self, data: bytes) -> None:
        """Take what the caller sent; the head's time limit starts with its first byte."""
        if self._refused:
            return
        if self._awaited is None and self.conn.their_state is h11.IDLE:
            self._expect("head")
        self._head_begun = True
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin the requests that have been received."""
        self._tell_whether_over_limit()
        super().handle_events()
        self._note_last_request()
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._expect("body")
        elif state is not h11.IDLE:
            self._expect(None)
            self.idle.pop(self, None)

    def on_response_complete(self) -> None:
        """Count the connection as idle until its next request."""
        if not self.transport.is_closing():
            self.idle[self] = None
        super().on_response_complete()
