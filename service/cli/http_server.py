"""HttpServer: uvicorn with this service's limits, its end, and a listener for operators."""

import asyncio
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from service.api.connections.connection_limits import ConnectionLimits, connections_allowed
from service.api.connections.server_protocol import protocol_of
from service.api.garbage_collection import QuietCollections, postpone_full_collections
from service.api.middleware.connection_gate import ADMIN
from service.api.refusals import RefusalLog
from service.api.sibling_channel import SiblingChannel
from service.settings import Settings

END_SECONDS: Final = 3
"""Of the time in which the service stops: for what ends after the requests, as a local worker does."""
SWITCH_SECONDS: Final = 0.001
"""Time for which a thread that plans keeps the interpreter while the event loop waits for it; Python's own
default is 0.005, and the event loop waits again after each of its steps."""
ADMIN_CONNECTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class ServedSockets:
    """The sockets of one process."""

    public: list[socket.socket]
    admin: list[socket.socket]
    """For probes and metrics alone; empty where they are served with all else."""
    channel: socket.socket | None = None
    """The line to the process that started this one."""


class HttpServer(uvicorn.Server):
    """Ends the requests that wait for jobs before it waits for all other requests to end."""

    def __init__(
        self, app: FastAPI, settings: Settings, sockets: ServedSockets, on_start: Callable[[], None]
    ) -> None:
        """``on_start`` is called once connections are accepted."""
        self._app, self._sockets, self._on_start = app, sockets, on_start
        self._admin = (ServerState(), list[asyncio.Server]())
        self._tasks: list[asyncio.Task[None]] = []
        limits = ConnectionLimits(connections_allowed(settings.max_connections))
        super().__init__(_config(app, settings, limits))

    def listen(self) -> None:
        """Accept connections from now on; they wait until the service serves.

        Raises:
            OSError: another program listens on a port by now.
        """
        for each in (*self._sockets.public, *self._sockets.admin):
            each.listen(self.config.backlog)

    def serve_sockets(self) -> bool:
        """Serve until a signal ends this process; return whether it could start."""
        self.run(self._sockets.public)
        return self.started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and put off full garbage collections."""
        sys.setswitchinterval(SWITCH_SECONDS)
        await super().startup(sockets)
        if not self.started:
            return
        await self._serve_operators()
        postpone_full_collections()
        quiet = QuietCollections(lambda: not self.server_state.tasks)
        self._tasks.append(asyncio.create_task(quiet.run()))
        if self._sockets.channel is not None:
            self._channel = SiblingChannel(self._app.state.metrics, self._app.state.announcements)
            reader = await self._channel.open(self._sockets.channel)
            self._tasks.append(asyncio.create_task(self._channel.run(reader, self._stop)))
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to serve."""
        self._app.state.services.probes.job_events.close()
        await super().shutdown(sockets)
        state, servers = self._admin
        for server in servers:
            server.close()
        for connection in list(state.connections):
            connection.shutdown()
        if self._sockets.channel is not None:
            self._channel.push()
        for task in self._tasks:
            task.cancel()

    def _stop(self) -> None:
        self.should_exit = True

    async def _serve_operators(self) -> None:
        """Accept connections on the operators' sockets; they count apart from all others."""
        state, servers = self._admin
        metrics = self._app.state.metrics
        protocol = protocol_of(ConnectionLimits(ADMIN_CONNECTIONS), metrics.count_refusal, RefusalLog())

        def connection() -> asyncio.Protocol:
            made: asyncio.Protocol = protocol(
                config=self.config, server_state=state, app_state={**self.lifespan.state, ADMIN: True}
            )
            return made

        for each in self._sockets.admin:
            servers.append(await asyncio.get_running_loop().create_server(connection, sock=each))


def _config(app: FastAPI, settings: Settings, limits: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocol_of(limits, app.state.metrics.count_refusal, RefusalLog()),
        timeout_keep_alive=settings.keep_alive_seconds,
        ws="none",
        timeout_graceful_shutdown=settings.stop_seconds - END_SECONDS,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
    )
