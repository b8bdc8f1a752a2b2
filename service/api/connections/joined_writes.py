"""JoinedWrites: a transport that sends the head of an answer together with its body."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

SMALL_BYTES: Final = 64 << 10
"""Bytes of a body up to which it is copied behind its head."""


class JoinedWrites:
    """Holds what is written until more is, or until the event loop has done what it does now.

    A server writes the head and the body of an answer one after the other. uvloop makes a call to the system
    of each, in which other threads take the interpreter, and the caller wakes for each.
    """

    def __init__(self, transport: asyncio.WriteTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Send data, or hold it where nothing is held."""
        if self._held and len(data) <= SMALL_BYTES:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif self._held or len(data) > SMALL_BYTES:
            self.flush()
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, and close the connection when it was sent."""
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """Send what is held, and say that nothing follows."""
        self.flush()
        self._transport.write_eof()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that were not sent yet."""
        return len(self._held) + self._transport.get_write_buffer_size()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return any other method of the transport."""
        found: Callable[..., Any] = getattr(self._transport, name)
        return found
