"""`dryserve serve`: run the HTTP service."""

import gc
import json
import socket
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
from service.application.job_events import JobEvents
from service.bootstrap import build_app
from service.cli.exit_codes import ExitCode
from service.logs import configure_logs
from service.settings import Settings
from service.worker.deploy.local_worker import LocalWorker

GRACE_SECONDS: Final = 6
"""For requests that are being answered when the service stops; a local worker gets three more."""


class Server(uvicorn.Server):
    """Ends the requests that wait for jobs before it waits for all other requests to end."""

    def __init__(self, config: uvicorn.Config, job_events: JobEvents) -> None:
        super().__init__(config)
        self._job_events = job_events

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and take what is loaded by then out of garbage collection.

        It stays until the end, and each collection stops all threads.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to serve."""
        self._job_events.close()
        await super().shutdown(sockets)


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
    """Run the HTTP service."""
    settings = Settings()
    host, port = host or settings.host, settings.port if port is None else port
    configure_logs(settings.log_level)
    typer.echo(_greeting(f"http://{host}:{port}"))
    worker = LocalWorker(f"http://127.0.0.1:{port}", worker_python) if local_worker else None
    app = build_app(settings, local_worker=worker, open_reads=listens_on_loopback(host))
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocol_of(ConnectionLimits(connections_allowed(settings.max_connections))),
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = Server(config, app.state.services.probes.job_events)
    server.run()
    if not server.started:
        raise typer.Exit(ExitCode.FAILED)


def _greeting(url: str) -> str:
    body = json.dumps(EXAMPLES["create_plan"].body, default=dict)
    curl = f"curl -H 'Accept: text/plain' --json '{body}' {url}/plan"
    return f"dryserve {__version__} on {url} (API: {url}/docs). Try:\n\n{curl}\n"
