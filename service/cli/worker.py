"""`dryserve worker`: run probes on this node."""

import asyncio
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated, Final

import httpx2
import typer

from service.cli.exit_codes import ExitCode
from service.cli.settings_of_host import host_settings
from service.logs import configure_logs
from service.units import GIB
from service.worker.devices import HostMemory, Nvml
from service.worker.loop import Worker
from service.worker.node import Node
from service.worker.service_client import Denied, ServiceClient, Unreachable

worker_app: Final = typer.Typer()

STATE: Final = ".local/state/dryserve"


@worker_app.command()
def worker(  # noqa: PLR0913 - one for each option
    *,
    server: Annotated[str, typer.Option(help="Address of the service.")],
    token_file: Annotated[Path, typer.Option(help="File that holds the worker's token.", exists=True)],
    once: Annotated[bool, typer.Option("--once", help="End after one job, or if there is none.")] = False,
    node: Annotated[str | None, typer.Option(help="Name of this node; left out: its host name.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label that jobs may ask for, repeatable.")] = None,
    python: Annotated[Path | None, typer.Option(help="Python that has torch or the engine.")] = None,
    allow_force: Annotated[
        bool,
        typer.Option("--allow-force", help="Allow jobs with `force` to use a GPU that other processes use."),
    ] = False,
    reserve_gib: Annotated[
        float | None,
        typer.Option(help="GiB of every GPU to leave free; left out: 2 GiB or 5 %, whichever is more."),
    ] = None,
    host_memory: Annotated[
        bool, typer.Option("--host-memory", help="Use the host's memory in place of a GPU.")
    ] = False,
    tied: Annotated[bool, typer.Option("--tied", help="Stop when the parent process ends.")] = False,
    state: Annotated[Path | None, typer.Option(help="Folder for locks and for results not sent yet.")] = None,
) -> None:
    """Take jobs from a service, run them on this node's GPUs, send the results. Opens no port.

    Exits with 2 when the address, the token or the Python is at fault, 3 when --once cannot reach the
    service.
    """
    _check_address(server)
    configure_logs(host_settings().log_level)
    # Children run in other folders, where a relative path would not be found.
    found = shutil.which(python or sys.executable)
    if found is None:
        typer.echo(f"--python: {python} does not exist or is not a program", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)
    settings = Node(
        name=node or socket.gethostname().split(".")[0][:64],
        state_folder=(state or Path.home() / STATE).absolute(),
        python=Path(found).absolute(),
        labels=tuple(label or ()),
        allows_force=allow_force,
        reserve_bytes=None if reserve_gib is None else int(reserve_gib * GIB),
        on_host=host_memory,
    )
    try:
        asyncio.run(_work(settings, server, _headers(token_file), once=once, tied=tied))
    except Denied as denied:
        typer.echo(f"The service does not accept the token: {denied}", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    except Unreachable as unreachable:
        typer.echo(f"{unreachable}; given up", err=True)
        raise typer.Exit(ExitCode.FAILED) from None


def _check_address(server: str) -> None:
    """End the command if a text is not the address of a service; a worker would ask it for ever."""
    try:
        url = httpx2.URL(server)
        valid = url.scheme in {"http", "https"} and bool(url.host)
    except httpx2.InvalidURL:
        valid = False
    if not valid:
        typer.echo(f"--server: {server!r} is not an address such as http://127.0.0.1:8000", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)


def _headers(token_file: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_file.read_text('utf-8').strip()}"}


async def _work(node: Node, server: str, headers: dict[str, str], *, once: bool, tied: bool) -> None:
    devices = HostMemory() if node.on_host else Nvml()
    async with httpx2.AsyncClient(base_url=server, headers=headers) as http:
        worker = Worker(node, devices, ServiceClient(http, node.name))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        if tied:
            loop.add_reader(sys.stdin.fileno(), worker.stop)
        await worker.work(once=once)
