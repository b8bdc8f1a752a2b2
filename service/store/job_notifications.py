"""JobNotifications: announcements between the replicas of one PostgreSQL database, by LISTEN and NOTIFY."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from service.store.database import Database
from service.store.faults import is_unusable, reason_of

CHANNEL: Final = "dryserve"
LONGEST: Final = 7999
"""Bytes of a payload that PostgreSQL takes (manual of NOTIFY)."""
MOST_WAITING: Final = 1000
"""Announcements that wait to be sent; beyond that the oldest are dropped."""
PAUSE_SECONDS: Final = 5.0
"""Pause before a connection that failed is opened again."""

_log: Final = structlog.stdlib.get_logger("dryserve.notifications")


class JobNotifications:
    """One connection of a replica that listens for announcements and sends them."""

    def __init__(
        self, database: Database, receive: Callable[[str], None], pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        """``receive`` is called with each announcement of another replica."""
        self._pause_seconds = pause_seconds
        self._database = database
        self._receive = receive
        self._own: int | None = None
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)
        self._any = asyncio.Event()
        self.listening = asyncio.Event()
        """Set while the connection listens."""

    def announce(self, text: str) -> None:
        """Send a text to the other replicas soon; equal ones that wait are sent once."""
        if len(text.encode()) <= LONGEST and text not in self._waiting:
            self._waiting.append(text)
            self._any.set()

    async def run(self) -> None:
        """Listen and send until this is cancelled; a connection that fails is opened again."""
        while True:
            try:
                await self._serve()
            except Exception as error:
                if not is_unusable(error):
                    raise
                _log.warning("announcements are not received now", reason=reason_of(error))
            finally:
                self.listening.clear()
            await asyncio.sleep(self._pause_seconds)

    async def _serve(self) -> None:
        connection = await self._database.dedicated_connection()
        try:
            await connection.add_listener(CHANNEL, self._take)
            self._own = connection.get_server_pid()
            connection.add_termination_listener(lambda _: self._any.set())
            self.listening.set()
            while not connection.is_closed():
                await self._any.wait()
                self._any.clear()
                while self._waiting and not connection.is_closed():
                    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, self._waiting[0])
                    self._waiting.popleft()
        finally:
            connection.terminate()

    def _take(self, connection: Any, pid: int, channel: str, payload: str) -> None:  # noqa: ANN401 - the driver's
        del connection, channel
        if pid != self._own:
            self._receive(payload)
