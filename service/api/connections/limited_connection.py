"""Limits on the server's connections: their number, and the time that each may take.

uvicorn sets no limit to the time in which a caller sends a request or reads an answer, so that anybody
could hold any number of connections for ever. Here a connection has a time limit for the head of a request,
one for its body, and a least rate at which the answer must be read. A request that is too slow is answered
by 408, unless another answer has begun; a connection that sent nothing is closed without a word, since its
caller would take the words for the answer to what it asks next. Beyond the limit on their number, the
connection that has been without a request for longest is closed; where all have one, only operators' routes
answer. Of answers that wait to be read there may be so many bytes; beyond that the one that waits longest
is cut off.
"""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, Final, TypeAlias

from service.api.connections.connection_limits import OPERATORS_CONNECTIONS, ConnectionLimits
from service.api.connections.joined_writes import JoinedWrites
from service.api.errors import SlowRequest, TooManyConnections
from service.api.middleware.connection_gate import OVER_LIMIT
from service.api.problems.handlers import MEDIA_TYPE, problem_of
from service.api.refusals import ConnectionRefusal

LINGER_SECONDS: Final = 1.0
"""Time for which a refused connection is still read: closing it at once could take back the answer."""

FIRST_REQUEST_SECONDS: Final = 0.5
"""Time that a new connection has to begin its first request while the server stops.

Its caller was accepted, and may have sent the request already: to close the connection would lose it.
"""

OnRefusal: TypeAlias = Callable[[ConnectionRefusal], None]


class LimitedConnection:
    """What both protocols do about the limits of a connection; a protocol of uvicorn stands behind it."""

    limits: ClassVar[ConnectionLimits]
    refused: ClassVar[tuple[OnRefusal, ...]] = ()
    """Called with the reason whenever a connection is closed or refused."""
    idle: ClassVar[dict["LimitedConnection", None]]
    """Connections without a whole request, the longest idle first."""
    unread: ClassVar[dict["LimitedConnection", None]]
    """Connections whose answers wait to be read, the one that waits longest first."""
    transport: Any
    loop: asyncio.AbstractEventLoop
    connections: set[Any]
    cycle: Any
    """The request that is being answered, or the last one; None before the first."""
    app_state: dict[str, Any]
    _plain_state: dict[str, Any]
    _deadline: asyncio.TimerHandle | None = None
    _awaited: str | None = None
    """What the deadline is for: ``head`` or ``body``."""
    _head_begun = False
    """Whether a part of the head that is awaited has arrived."""
    _refused = False
    """Whether the last answer was written, so that what still arrives is of no interest."""
    _draining: asyncio.TimerHandle | None = None
    _is_last = False
    """Whether the request that is read now, or comes next, is the last one of this connection."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - the protocols behind disagree
        """Accept a connection; where there are too many, close the longest idle one."""
        super().connection_made(transport)  # type: ignore[misc] # of the protocol behind
        self.transport = JoinedWrites(transport, self.loop)
        self._plain_state = self.app_state
        # asyncio leaves this to who opened the listening socket. Without it the end of an answer, which is
        # written after its head, waits up to 40 ms for the caller to acknowledge the head.
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        over = len(self.connections) - self.limits.connections
        if over > 0 and not self._displace() and over > OPERATORS_CONNECTIONS:
            self._count(ConnectionRefusal.TOO_MANY)
            transport.write(_refusal(TooManyConnections()))
            transport.close()
            return
        self.idle[self] = None
        self._expect("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.idle.pop(self, None)
        self._expect(None)
        self._stop_draining()
        super().connection_lost(exc)  # type: ignore[misc] # of the protocol behind

    def pause_writing(self) -> None:
        """Start to check that the answer is read."""
        super().pause_writing()  # type: ignore[misc] # of the protocol behind
        self._stop_draining()
        self.unread[self] = None
        self._make_room()
        self._watch_draining()

    def resume_writing(self) -> None:
        """Stop checking: the answer was read."""
        self._stop_draining()
        super().resume_writing()  # type: ignore[misc] # of the protocol behind

    def shutdown(self) -> None:
        """Close the connection: after its request, where one is answered or read, or may be on its way."""
        if self.cycle is not None and not self._is_read:
            super().shutdown()  # type: ignore[misc] # of the protocol behind
            return
        self._is_last = True
        self.loop.call_later(FIRST_REQUEST_SECONDS, self._close_unused)

    @property
    def _is_read(self) -> bool:
        """Whether a part of a request has arrived, and the rest is awaited."""
        return self._awaited == "body" or (self._awaited == "head" and self._head_begun)

    def _close_unused(self) -> None:
        if not self._is_read and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def _note_last_request(self) -> None:
        """Have the connection closed after the request that was begun, where it is the last one."""
        if self._is_last and self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def _tell_whether_over_limit(self) -> None:
        over_limit = len(self.connections) > self.limits.connections
        self.app_state = {**self._plain_state, OVER_LIMIT: over_limit}

    def _expect(self, part: str | None) -> None:
        """Start the time limit of a part of the request, unless it has started already."""
        if part == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._awaited = part
        self._deadline = None
        self._head_begun = False
        if part is not None:
            seconds = {"head": self.limits.head, "body": self.limits.body}[part]
            self._deadline = self.loop.call_later(seconds, self._refuse_slow, part, seconds)

    def _refuse_slow(self, part: str, seconds: float) -> None:
        """Close a connection because a part of a request is late, with an answer where none has begun."""
        self._count(ConnectionRefusal.SLOW_HEAD if part == "head" else ConnectionRefusal.SLOW_BODY)
        if not self._may_answer(part) or self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        self._refused = True
        self.idle.pop(self, None)
        self.transport.write(_refusal(SlowRequest(part, seconds)))
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        if self.cycle is not None:  # its application waits for the rest of the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _may_answer(self, part: str) -> bool:
        """Whether the caller expects an answer now: not where it sent nothing, or another is being sent."""
        if part == "body":
            return self.cycle is not None and not self.cycle.response_started
        return self._head_begun and (self.cycle is None or self.cycle.response_complete)

    def _abort(self, reason: ConnectionRefusal) -> None:
        self._count(reason)
        self.transport.abort()

    def _count(self, reason: ConnectionRefusal) -> None:
        for each in self.refused:
            each(reason)

    def _displace(self) -> bool:
        """Close the longest idle connection; return whether there was one."""
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest._abort(ConnectionRefusal.DISPLACED)  # noqa: SLF001 - of this class
        return True

    def _make_room(self) -> None:
        """Cut off the answers that wait longest to be read, until the others are within the limit."""
        waiting = {each: each.transport.get_write_buffer_size() for each in self.unread}
        total = sum(waiting.values())
        for each, size in waiting.items():
            if total <= self.limits.unread_bytes or each is self:
                return
            total -= size
            each._stop_draining()  # noqa: SLF001 - of this class
            each._abort(ConnectionRefusal.SLOW_READER)  # noqa: SLF001 - as above

    def _watch_draining(self, before: int | None = None) -> None:
        unread = self.transport.get_write_buffer_size()
        if before is not None and before - unread < self.limits.drain_bytes:
            self._abort(ConnectionRefusal.SLOW_READER)
            return
        self._draining = self.loop.call_later(self.limits.drain, self._watch_draining, unread)

    def _stop_draining(self) -> None:
        self.unread.pop(self, None)
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None


def _refusal(error: Exception) -> bytes:
    """Return the answer to a connection that is refused without a whole request."""
    problem = problem_of(error, "")
    body = problem.model_dump_json(exclude_none=True).encode()
    head = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        f"Content-Type: {MEDIA_TYPE}",
        f"Content-Length: {len(body)}",
        *([] if problem.retry_after is None else [f"Retry-After: {problem.retry_after}"]),
        "Connection: close",
    ]
    return "\r\n".join((*head, "", "")).encode() + body
