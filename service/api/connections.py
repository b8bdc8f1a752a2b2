"""Limits on the server's connections: their number, and the time that each may take.

uvicorn sets no limit to the time in which a caller sends a request or reads an answer, so that anybody could
hold any number of connections for ever. Here a connection has a time limit for the head of a request, one for
its body, and a least rate at which the answer must be read. Beyond the limit on their number, the connection
that has been without a request for longest is closed; where all have one, only operators' routes answer.
"""

import asyncio
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.api.middleware.connection_gate import OVER_LIMIT

if sys.platform != "win32":
    import resource

RESERVED_FILES: Final = 128
"""Files that the process opens beside callers' connections: databases, the Hub, its own code."""
OPERATORS_CONNECTIONS: Final = 32
"""Connections beyond the limit that are still accepted, so that operators are answered."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server's connections. Times are in seconds."""

    connections: int
    head: float = 10
    """From the start of a connection, or the first byte of a later request, to the end of its head."""
    body: float = 60
    """From the end of the head to the end of the body."""
    drain: float = 30
    """Time in which the caller must read ``drain_bytes`` of a waiting answer, or the connection is closed."""
    drain_bytes: int = 1 << 20
    """Bytes to read in that time, or the rest of the answer if that is less."""


def connections_allowed(wanted: int) -> int:
    """Return how many of the wanted connections the process can open files for.

    The limit on open files is raised for that as far as the system allows.
    """
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES + OPERATORS_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (ValueError, OSError):
            raised = soft
        return max(1, min(wanted, raised - RESERVED_FILES - OPERATORS_CONNECTIONS))
    return wanted


def listens_on_loopback(host: str) -> bool:
    """Whether an address or a name to listen on can be reached from this machine alone."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 of one connection, within limits."""

    limits: ClassVar[ConnectionLimits]
    idle: ClassVar[dict["LimitedProtocol", None]]
    """Connections without a whole request, the longest idle first."""
    _deadline: asyncio.TimerHandle | None = None
    _awaited: str | None = None
    """What the deadline is for: ``head`` or ``body``."""
    _draining: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; where there are too many, close the longest idle one."""
        super().connection_made(transport)
        self._plain_state: dict[str, Any] = self.app_state
        over = len(self.connections) - self.limits.connections
        if over > 0 and not self._displace() and over > OPERATORS_CONNECTIONS:
            transport.abort()
            return
        self.idle[self] = None
        self._expect("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.idle.pop(self, None)
        self._expect(None)
        self._stop_draining()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the caller sent; the head's time limit starts with its first byte."""
        if self._awaited is None and self.conn.their_state is h11.IDLE:
            self._expect("head")
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin the requests that have been received."""
        over_limit = len(self.connections) > self.limits.connections
        self.app_state = {**self._plain_state, OVER_LIMIT: over_limit}
        super().handle_events()
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

    def pause_writing(self) -> None:
        """Start to check that the answer is read."""
        super().pause_writing()
        self._stop_draining()
        self._watch_draining()

    def resume_writing(self) -> None:
        """Stop checking: the answer was read."""
        self._stop_draining()
        super().resume_writing()

    def _expect(self, part: str | None) -> None:
        """Start the time limit of a part of the request, unless it has started already."""
        if part == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._awaited = part
        seconds = {"head": self.limits.head, "body": self.limits.body}
        self._deadline = None if part is None else self.loop.call_later(seconds[part], self.transport.abort)

    def _displace(self) -> bool:
        """Close the longest idle connection; return whether there was one."""
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest.transport.abort()
        return True

    def _watch_draining(self, before: int | None = None) -> None:
        unread = self.transport.get_write_buffer_size()
        if before is not None and before - unread < self.limits.drain_bytes:
            self.transport.abort()
            return
        self._draining = self.loop.call_later(self.limits.drain, self._watch_draining, unread)

    def _stop_draining(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None


def protocol_of(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol of one server's connections."""
    return type("ServersProtocol", (LimitedProtocol,), {"limits": limits, "idle": {}})
