"""`dryserve probe`: request a measurement from a service, and follow it."""

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, Final, Literal

import httpx2
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.application.schemas.plan_body import Format, PlanParameters
from service.cli.bad_input import exits_on_bad_input, with_config
from service.cli.exit_codes import ExitCode
from service.probes.job_state import ENDED, State
from service.units import gib_text

TERMS: Final = ("requested", "weights", "activation", "non_torch", "cuda_graphs", "available_kv")
UNPLANNED: Final = ("context", "library", "nccl", "granularity", "largest")
"""What an allocation probe measures and no plan computes."""
MEASURED_AS: Final = {"cuda_graphs": "graphs_estimated"}
TIMEOUT: Final = httpx2.Timeout(30, read=60)
PATIENCE_SECONDS: Final = 60
"""Seconds for which a service may be unreachable while a probe is followed."""
PAUSE_SECONDS: Final = 1
Json = Mapping[str, Any]


def probe(  # noqa: PLR0913 - one for each option
    *,
    model: str,
    config: Path | None,
    format: Format | None,  # noqa: A002 - the option's own name
    server: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8000",
    token_file: Annotated[Path, typer.Option(help="File that holds an operator's token.", exists=True)],
    kind: Annotated[Literal["alloc", "engine"], typer.Option(help="What to measure.")] = "engine",
    label: Annotated[str | None, typer.Option(help="Label of the worker that is to run it.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run beside other processes, if the node allows it.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it has ended.")] = False,
    **flags: Any,  # noqa: ANN401 - checked by PlanParameters
) -> None:
    """Measure on a GPU what a plan for MODEL computes; a worker on a node with that GPU runs it.

    Exits with 0 when it is queued (with --wait: when it has measured), 3 when it did not measure, 2 on bad
    input.
    """
    with exits_on_bad_input():
        plan = with_config(PlanParameters(model=model, **flags).document(), config)
    body = {"kind": kind, "plan": plan, "target": {"label": label}, "limits": {"force": force}}
    headers = {"Authorization": f"Bearer {token_file.read_text('utf-8').strip()}"}
    try:
        with httpx2.Client(base_url=server, headers=headers, timeout=TIMEOUT) as http:
            requested = _queued(http, body)
            end = _followed(http, requested) if wait else requested
    except httpx2.HTTPError as error:
        raise _refused(f"{server} cannot be reached: {type(error).__name__}") from None
    typer.echo(json.dumps(end) if format == "json" else summary(end))
    if wait and end["state"] != State.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)


def _queued(http: httpx2.Client, body: Json) -> Json:
    # With the key a repeated request makes no second probe.
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    reply = http.post("/probes", json=body, headers=headers)
    if not reply.is_success:
        raise _problem(reply)
    answer: Json = reply.json()
    return answer


def _problem(reply: httpx2.Response) -> typer.Exit:
    try:
        problem = reply.json()
        return _refused(f"{problem['title']}: {problem['detail']}")
    except (ValueError, KeyError, TypeError):
        return _refused(f"{reply.url.host} answers {reply.status_code}, and as no service of ours does")


def _followed(http: httpx2.Client, requested: Json) -> Json:
    """Show a probe's progress until it has ended, then return it; a service that restarts is tried again.

    Raises:
        HTTPError: the service was unreachable for longer than ``PATIENCE_SECONDS``.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    current, patient_until = requested, monotonic() + PATIENCE_SECONDS
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(_words(requested), total=None)
        while current["state"] not in ENDED:
            try:
                with http.stream("GET", f"/probes/{requested['id']}/events") as reply:
                    _check(reply)
                    for current in _events(reply.iter_lines()):
                        patient_until = monotonic() + PATIENCE_SECONDS
                        progress.update(task, description=_words(current))
            except httpx2.TransportError:
                if monotonic() > patient_until:
                    raise
            if current["state"] not in ENDED:
                sleep(PAUSE_SECONDS)
    return current


def _check(reply: httpx2.Response) -> None:
    if reply.is_server_error:
        raise httpx2.TransportError(f"it answers {reply.status_code}")
    if not reply.is_success:
        reply.read()
        raise _problem(reply)


def _events(lines: Iterator[str]) -> Iterator[Json]:
    for line in lines:
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


def _words(specified: Json) -> str:
    return f"{specified['id'][:8]} {specified['state']}" + (
        f": {specified['phase']}" if specified["phase"] else ""
    )


def summary(specified: Json) -> str:
    """Return a table of predicted and measured memory, in GiB."""
    result = specified["result"]
    lines = [f"probe {specified['id']}: {specified['state']}"]
    if result is None:
        return lines[0]
    if result["detail"]:
        lines.append(result["detail"])
    if result["measurement"] is not None:
        lines.append(_compared(specified["predicted"], result["measurement"]))
    if result["allocation"]:
        lines.append(_allocated(specified["predicted"], result["allocation"]))
    return "\n".join(lines)


def _compared(predicted: Json, measurement: Json) -> str:
    table = Table("GiB of the fullest rank", "predicted", "between", "measured", box=None)
    specified = [rank for rank in measurement["ranks"] if rank["available_kv"]] or measurement["ranks"]
    fullest = min(specified, key=lambda rank: (rank["available_kv"] or {"bytes": 0})["bytes"])
    for term in TERMS:
        estimate, reading = predicted["memory"][term], fullest[MEASURED_AS.get(term, term)]
        between = f"{gib_text(estimate['low'])} to {gib_text(estimate['high'])}"
        measured = "not known" if reading is None else gib_text(reading["bytes"])
        table.add_row(term, gib_text(estimate["bytes"]), between, measured)
    if (cache := measurement["cache"]) is not None:
        table.add_row("blocks", f"{predicted['kv_cache']['num_blocks']:,}", "", f"{cache['num_blocks']:,}")
    return _drawn(table)


def _allocated(predicted: Json, allocation: Json) -> str:
    """Return a table of planned and allocated memory, and of what no plan computes, in GiB."""
    table = Table("GiB", "predicted", "measured", "error", box=None)
    cache = predicted["kv_cache"]
    planned = {
        "weights": predicted["memory"]["weights"]["bytes"],
        "kv_tensors": cache["num_blocks"] * cache["bytes_per_block"],
    }
    for name, size in planned.items():
        taken = allocation.get(f"{name}_taken_bytes")
        if taken is not None and size:
            table.add_row(name, gib_text(size), gib_text(taken), f"{taken / size - 1:+.3%}")
    for name in UNPLANNED:
        if (size := allocation.get(f"{name}_bytes")) is not None:
            table.add_row(name, "", gib_text(size, 4), "")
    return _drawn(table)


def _drawn(table: Table) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()


def _refused(words: str) -> typer.Exit:
    typer.echo(words, err=True)
    return typer.Exit(ExitCode.BAD_INPUT)
