"""What the commands about probes ask a service, and how they follow a probe to its end."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, Final, TypeAlias

import httpx2
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from service.cli.exit_codes import ExitCode
from service.probes.job_state import ENDED

Json: TypeAlias = Mapping[str, Any]
TIMEOUT: Final = httpx2.Timeout(30, read=60)
PATIENCE_SECONDS: Final = 60
"""Seconds for which a service may be unreachable while a probe is followed."""
PAUSE_SECONDS: Final = 1
SERVER: Final = "http://127.0.0.1:8000"
Server: TypeAlias = Annotated[str, typer.Option(help="Address of the service.")]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="File that holds a token; left out: none, as on the service's own host.", exists=True),
]
Timeout: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="Seconds to wait at most; the probe goes on. Left out: no limit.")
]


class StillRunning(Exception):
    """The probe had not ended in the time that was given.

    Attributes:
        current: the probe as it was seen last.
    """

    def __init__(self, current: Json) -> None:
        super().__init__(_words(current))
        self.current = current


@contextmanager
def service_at(server: str, token_file: Path | None) -> Iterator[httpx2.Client]:
    """Yield a client of a service.

    Raises:
        typer.Exit: the address is not one, the service cannot be reached, or it refuses a request.
    """
    headers = {}
    if token_file is not None:
        headers["Authorization"] = f"Bearer {token_file.read_text('utf-8').strip()}"
    try:
        with httpx2.Client(base_url=server, headers=headers, timeout=TIMEOUT) as http:
            yield http
    except httpx2.UnsupportedProtocol:
        raise refused(f"{server} is not an address such as {SERVER}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise refused(f"{server} cannot be reached: {str(error) or type(error).__name__}") from None


def answered(reply: httpx2.Response) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON of a reply.

    Raises:
        typer.Exit: the service refuses the request.
    """
    if not reply.is_success:
        raise problem(reply)
    return reply.json()


def problem(reply: httpx2.Response) -> typer.Exit:
    """Print the problem that a service answers, and return the exit.

    A failure of the service itself has an exit code of its own. ``instance`` is printed with it, since the
    service's log names the request by it.
    """
    try:
        found = reply.json()
        words = f"{found['title']}: {found['detail']}"
    except (ValueError, KeyError, TypeError):
        found, words = {}, f"{reply.url.host} answers {reply.status_code}, and as no service of ours does"
    if not reply.is_server_error:
        return refused(words)
    typer.echo(words, err=True)
    if found.get("instance"):
        typer.echo(f"instance: {found['instance']}", err=True)
    return typer.Exit(ExitCode.SERVICE_FAILED)


def refused(words: str) -> typer.Exit:
    """Print words to standard error, and return the exit for bad input."""
    typer.echo(words, err=True)
    return typer.Exit(ExitCode.BAD_INPUT)


def followed(http: httpx2.Client, requested: Json, timeout: float | None) -> Json:
    """Show a probe's progress until it has ended, then return it; a service that restarts is tried again.

    On a terminal the progress is one line that changes. Elsewhere each change is a line on standard error.

    Raises:
        StillRunning: it had not ended after ``timeout`` seconds.
        HTTPError: the service was unreachable for longer than ``PATIENCE_SECONDS``.
    """
    console = Console(stderr=True)
    until = None if timeout is None else monotonic() + timeout
    if not console.is_terminal:
        return _last(_changes(http, requested, until), lambda current: typer.echo(_words(current), err=True))
    typer.echo(f"probe {requested['id']}", err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(_words(requested), total=None)
        changes = _changes(http, requested, until)
        return _last(changes, lambda current: progress.update(task, description=_words(current)))


def _last(changes: Iterator[Json], show: Any) -> Json:  # noqa: ANN401 - a function of a probe
    shown: str | None = None
    current: Json = {}
    for current in changes:
        if _words(current) != shown:
            shown = _words(current)
            show(current)
    return current


def _changes(http: httpx2.Client, requested: Json, until: float | None) -> Iterator[Json]:
    """Yield a probe now and after each change, until it has ended."""
    current, patient_until = requested, monotonic() + PATIENCE_SECONDS
    yield current
    while current["state"] not in ENDED:
        try:
            for current in _streamed(http, requested["id"], until):
                patient_until = monotonic() + PATIENCE_SECONDS
                yield current
        except httpx2.TransportError:
            if monotonic() > patient_until:
                raise
        if current["state"] not in ENDED:
            if until is not None and monotonic() >= until:
                raise StillRunning(current)
            sleep(PAUSE_SECONDS)


def _streamed(http: httpx2.Client, probe_id: str, until: float | None) -> Iterator[Json]:
    """Yield the probes of one stream of events, until it ends or the time is up."""
    left = None if until is None else max(0.1, until - monotonic())
    timeout = TIMEOUT if left is None else httpx2.Timeout(30, read=min(60.0, left))
    with http.stream("GET", f"/probes/{probe_id}/events", timeout=timeout) as reply:
        if reply.is_server_error:
            raise httpx2.TransportError(f"it answers {reply.status_code}")
        if not reply.is_success:
            reply.read()
            raise problem(reply)
        for line in reply.iter_lines():
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))
            if until is not None and monotonic() >= until:
                return


def _words(probe: Json) -> str:
    phase = f": {probe['phase']}" if probe["phase"] else ""
    waiting = f" ({probe['waiting']})" if probe.get("waiting") else ""
    return f"{probe['id']} {probe['state']}{phase}{waiting}"
