"""`dryserve serve`: run the HTTP service, in one process or in several."""

import gc
import socket
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from service.cli.exit_codes import ExitCode
from service.cli.greeting import greet
from service.cli.listening import bound, inherited, refuse_port
from service.cli.settings_of_host import host_settings, settings_help
from service.deferred_validators import deferred_validators
from service.generated_methods import stored_methods
from service.logs import configure_logs
from service.settings import Settings

serve_app: Final = typer.Typer()

SEVERAL: Final = 2


@serve_app.command(epilog=settings_help())
def serve(  # noqa: PLR0913 - one for each option
    host: Annotated[str | None, typer.Option(help="Address to listen on [DRYSERVE_HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on [DRYSERVE_PORT].")] = None,
    *,
    admin_port: Annotated[
        int | None, typer.Option(help="Port for probes and metrics alone [DRYSERVE_ADMIN_PORT].")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that serve [DRYSERVE_WORKERS].")
    ] = None,
    root_path: Annotated[
        str | None, typer.Option(help="Prefix of all paths behind a proxy [DRYSERVE_ROOT_PATH].")
    ] = None,
    local_worker: Annotated[
        bool, typer.Option("--local-worker", help="Also run a worker for probes on this host.")
    ] = False,
    worker_python: Annotated[
        Path | None, typer.Option(help="Python that has torch or the engine, for the local worker.")
    ] = None,
    inherited_sockets: Annotated[str | None, typer.Option("--inherited", hidden=True)] = None,
    first: Annotated[bool, typer.Option("--first", hidden=True)] = False,
) -> None:
    """Run the HTTP service.

    With several workers SIGHUP replaces each of them by a new one, one after another, so that no request is
    lost. Exits with 2 when a setting is not valid, 6 when the address cannot be listened on, 3 when it cannot
    start.
    """
    given = {"host": host, "port": port, "admin_port": admin_port, "workers": workers, "root_path": root_path}
    settings = host_settings({name: value for name, value in given.items() if value is not None})
    configure_logs(settings.log_level)
    if inherited_sockets is not None:
        *opened, channel = inherited(inherited_sockets)
        _serve(settings, opened, channel, local_worker=first and local_worker, python=worker_python)
        return
    opened = bound(settings.host, settings.port)
    if settings.admin_port is not None:
        opened += bound(settings.host, settings.admin_port)
    if settings.workers < SEVERAL:
        _serve(settings, opened, None, local_worker=local_worker, python=worker_python)
        return
    # Imported here: one process alone does not need it.
    from service.cli.serving_processes import serve_in_processes  # noqa: PLC0415

    options = [f"--host={settings.host}", f"--port={_port(opened)}", f"--workers={settings.workers}"]
    options += [] if settings.admin_port is None else [f"--admin-port={settings.admin_port}"]
    options += [f"--root-path={settings.root_path}"] if settings.root_path else []
    options += ["--local-worker"] if local_worker else []
    options += [] if worker_python is None else [f"--worker-python={worker_python}"]
    serve_in_processes(options, opened, settings, partial(greet, settings.host, _port(opened)))


def _serve(
    settings: Settings,
    opened: list[socket.socket],
    channel: socket.socket | None,
    *,
    local_worker: bool,
    python: Path | None,
) -> None:
    """Serve in this process; ``channel``: the line to the process that started this one.

    Raises:
        typer.Exit: it could not start.
    """
    gc.disable()  # until the service has started, for the reason that `main` gives
    # Imported here: the process that only starts others needs none of it.
    with stored_methods(), deferred_validators():
        from service.api.connections.connection_limits import listens_on_loopback  # noqa: PLC0415
        from service.api.tracing import ExtraMissing  # noqa: PLC0415
        from service.bootstrap import build_app  # noqa: PLC0415
        from service.cli.http_server import HttpServer, ServedSockets  # noqa: PLC0415
        from service.store.token_file import InvalidTokenFile  # noqa: PLC0415
        from service.worker.deploy.local_worker import LocalWorker  # noqa: PLC0415

    shared = settings if channel is None else settings.of_one_process
    count = len(opened) // 2 if settings.admin_port is not None else len(opened)
    sockets = ServedSockets(opened[:count], opened[count:], channel)
    port = _port(opened)
    worker = LocalWorker(f"http://127.0.0.1:{port}", python) if local_worker else None
    try:
        app = build_app(shared, local_worker=worker, open_reads=listens_on_loopback(settings.host))
    except ExtraMissing as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    except (InvalidTokenFile, OSError) as error:
        typer.echo(f"DRYSERVE_TOKENS_FILE: {error}", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    server = HttpServer(app, shared, sockets, lambda: None if channel else greet(settings.host, port))
    try:
        server.listen()
    except OSError as error:
        refuse_port(settings.host, port, error)
    if not server.serve_sockets():
        raise typer.Exit(ExitCode.FAILED)


def _port(opened: list[socket.socket]) -> int:
    port: int = opened[0].getsockname()[1]
    return port
