"""`dryserve serve`: run the HTTP service."""

import asyncio
import errno
import json
import socket
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
import uvicorn

from service import __version__
from service.api.connections import (
    ConnectionLimits,
    connections_allowed,
    listens_on_loopback,
    protocol_of,
)
from service.api.examples import EXAMPLES
from service.api.garbage_collection import QuietCollections, postpone_full_collections
from service.api.refusals import RefusalLog
from service.application.job_events import JobEvents
from service.bootstrap import build_app
from service.cli.exit_codes import ExitCode
from service.cli.settings_of_host import host_settings, settings_help
from service.logs import configure_logs
from service.worker.deploy.local_worker import LocalWorker

serve_app: Final = typer.Typer()

GRACE_SECONDS: Final = 6
"""For requests that are being answered when the service stops; a local worker gets three more."""


SWITCH_SECONDS: Final = 0.001
"""Time for which a thread that plans keeps the interpreter while the event loop waits for it; Python's own
default is 0.005, and the event loop waits again after each of its steps."""
BACKLOG: Final = 2048
"""Connections that may wait to be accepted, as in uvicorn."""


class Server(uvicorn.Server):
    """Ends the requests that wait for jobs before it waits for all other requests to end."""

    def __init__(self, config: uvicorn.Config, job_events: JobEvents, greeting: str) -> None:
        super().__init__(config)
        self._job_events = job_events
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, say where, and put off full garbage collections."""
        sys.setswitchinterval(SWITCH_SECONDS)
        await super().startup(sockets)
        if self.started:
            typer.echo(self._greeting)
        postpone_full_collections()
        quiet = QuietCollections(lambda: not self.server_state.tasks)
        self._collecting = asyncio.create_task(quiet.run())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to serve."""
        self._collecting.cancel()
        self._job_events.close()
        await super().shutdown(sockets)


@serve_app.command(epilog=settings_help())
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [DRYSERVE_HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on [DRYSERVE_PORT].")] = None,
    *,
    local_worker: Annotated[
        bool, typer.Option("--local-worker", help="Also run a worker for probes on this host.")
    ] = False,
    worker_python: Annotated[
        Path | None, typer.Option(help="Python that has torch or the engine, for the local worker.")
    ] = None,
) -> None:
    """Run the HTTP service.

    Exits with 2 when a setting is not valid, 6 when the address cannot be listened on, 3 when it cannot
    start.
    """
    settings = host_settings()
    host, port = host or settings.host, settings.port if port is None else port
    configure_logs(settings.log_level)
    listening = _listening(host, port)
    port = listening[0].getsockname()[1]
    worker = LocalWorker(f"http://127.0.0.1:{port}", worker_python) if local_worker else None
    app = build_app(settings, local_worker=worker, open_reads=listens_on_loopback(host))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocol_of(
            ConnectionLimits(connections_allowed(settings.max_connections)),
            app.state.metrics.count_refusal,
            RefusalLog(),
        ),
        timeout_keep_alive=settings.keep_alive_seconds,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = Server(config, app.state.services.probes.job_events, _greeting(host, port))
    server.run(listening)
    if not server.started:
        raise typer.Exit(ExitCode.FAILED)


def _listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on the addresses of a host: nothing is said before others can connect.

    A name such as localhost may have an IPv6 address that this host lacks; one address is enough.

    Raises:
        typer.Exit: no address can be listened on, or the port of one is taken.
    """
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            # With port 0 all addresses get the port that the first one got.
            chosen = found[0].getsockname()[1] if found else port
            try:
                found.append(socket.create_server((str(address[0]), chosen), family=family, backlog=BACKLOG))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                missing = error
        if not found:
            raise missing
    except (OSError, OverflowError) as error:
        for each in found:
            each.close()
        typer.echo(_not_listening(host, port, error), err=True)
        raise typer.Exit(ExitCode.PORT_TAKEN) from None
    return found


def _not_listening(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} of {host} is taken by another program: choose another with --port or DRYSERVE_PORT "
            "(0 takes a free one)."
        )
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    # The socket module adds the address, which the message names already.
    reason = reason.partition(" (while")[0]
    return f"{host} port {port} cannot be listened on: {reason}"


def _greeting(host: str, port: int) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    url = f"http://{name}:{port}"
    body = json.dumps(EXAMPLES["create_plan"].body, default=dict)
    curl = f"curl -H 'Accept: text/plain' -H 'Content-Type: application/json' -d '{body}' {url}/plan"
    return f"dryserve {__version__} on {url} (API: {url}/docs). Try:\n\n{curl}\n"
