"""`dryserve probe`: request a measurement from a service, and follow it."""

import inspect
import json
import uuid
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import httpx2
import typer
from rich.console import Console
from rich.table import Table

from service.application.schemas.requests.plan_parameters import PlanParameters
from service.application.text.plan_format import Format
from service.cli.bad_input import exits_on_bad_input, with_config
from service.cli.exit_codes import ExitCode
from service.cli.options import ENGINES_DEFAULTS, option, with_options
from service.cli.probe_client import (
    SERVER,
    Json,
    Server,
    StillRunning,
    Timeout,
    answered,
    followed,
    service_at,
)
from service.hub.model_files.fetched_config import CONFIG
from service.probes.job_state import State
from service.units import gib_amount, gib_text

TERMS: Final = ("requested", "weights", "activation", "non_torch", "cuda_graphs", "available_kv")
UNPLANNED: Final = ("context", "library", "nccl", "granularity", "largest")
"""What an allocation probe measures and no plan computes."""
MEASURED_AS: Final = {"cuda_graphs": "graphs_estimated"}
MODEL: Final = typer.Argument(help="Id on the Hub")
ONE_GPU: Final = "GPU type to measure on, exactly one, by id, product name or the driver's name; required"
NOT_MEASURED: Final = (
    *("search", "objective", "include", "compare"),
    *("prompt_tokens", "output_tokens", "concurrent_requests", "request_rate", "shared_prefix_tokens"),
    *("max_tpot_ms", "max_ttft_ms", "price", "price_kind"),
    *("model", "command"),
)
"""What a probe has no use for, since it measures one start, and what its argument says."""


def probe(  # noqa: PLR0913 - one for each option
    *,
    model: str,
    config: Path | None,
    format: Format | None,  # noqa: A002 - the option's own name
    server: Server = SERVER,
    token_file: Annotated[Path, typer.Option(help="File that holds an operator's token.", exists=True)],
    kind: Annotated[Literal["alloc", "engine", "speed"], typer.Option(help="What to measure.")] = "engine",
    label: Annotated[str | None, typer.Option(help="Label of the worker that is to run it.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Use a GPU that other processes use, if the node allows it.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it has ended.")] = False,
    timeout: Timeout = None,
    **flags: Any,  # noqa: ANN401 - checked by PlanParameters
) -> None:
    """Measure on a GPU what a plan for MODEL computes; a worker on a node with that GPU runs it.

    Exits with 0 when it is queued (with --wait: when it has measured), 3 when it did not measure, 4 when it
    had not ended after --timeout, 7 when the service fails, 2 on bad input.
    """
    with exits_on_bad_input():
        folder = Path(model).expanduser() / CONFIG
        config = config or (folder if folder.is_file() else None)
        plan = with_config(PlanParameters(model=model, **flags).document(), config)
    body = {"kind": kind, "plan": plan, "target": {"label": label}, "limits": {"force": force}}
    with service_at(server, token_file) as http:
        requested = _queued(http, body)
        try:
            end = followed(http, requested, timeout) if wait else requested
        except StillRunning as still:
            typer.echo(f"not ended after {timeout:g} s: {still}", err=True)
            raise typer.Exit(ExitCode.UNCERTAIN) from None
    typer.echo(json.dumps(end) if format == "json" else summary(end))
    if wait and end["state"] != State.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)


probe_app: Final = typer.Typer()
probe_app.command()(
    with_options(
        probe,
        PlanParameters,
        Format,
        option("model", str, MODEL, inspect.Parameter.empty),
        without=NOT_MEASURED,
        words={**ENGINES_DEFAULTS, "gpu": ONE_GPU},
    )
)


def _queued(http: httpx2.Client, body: Json) -> Json:
    # With the key a repeated request makes no second probe.
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    queued: Json = answered(http.post("/probes", json=body, headers=headers))
    return queued


def summary(specified: Json) -> str:
    """Return a table of predicted and measured memory, in GiB."""
    result = specified["result"]
    lines = [f"probe {specified['id']}: {specified['state']}"]
    if result is None:
        return "\n".join([*lines, specified["waiting"]]) if specified.get("waiting") else lines[0]
    if result["detail"]:
        lines.append(result["detail"])
    if result["measurement"] is not None:
        lines.append(_compared(specified["predicted"], result["measurement"]))
    if result.get("steps"):
        lines.append(_timed(specified["predicted"], result["steps"]))
    if result["allocation"]:
        lines.append(_allocated(specified["predicted"], result["allocation"]))
    return "\n".join(lines)


def _compared(predicted: Json, measurement: Json) -> str:
    table = Table("GiB of the fullest rank", "predicted", "between", "measured", box=None)
    specified = [rank for rank in measurement["ranks"] if rank["available_kv"]] or measurement["ranks"]
    fullest = min(specified, key=lambda rank: (rank["available_kv"] or {"bytes": 0})["bytes"])
    for term in TERMS:
        estimate, reading = predicted["memory"][term], fullest[MEASURED_AS.get(term, term)]
        between = f"{gib_amount(estimate['low'])} to {gib_amount(estimate['high'])}"
        measured = "not known" if reading is None else gib_text(reading["bytes"])
        table.add_row(term, gib_text(estimate["bytes"]), between, measured)
    if (cache := measurement["cache"]) is not None:
        table.add_row("blocks", f"{predicted['kv_cache']['num_blocks']:,}", "", f"{cache['num_blocks']:,}")
    return _drawn(table)


def _timed(predicted: Json, steps: list[Json]) -> str:
    """Return a table of planned and measured times, of decode steps and of prompts alone."""
    table = Table("requests", "tokens of each", "planned ms", "between", "measured ms", box=None)
    planned = {_point(each): each for each in predicted.get("steps", ())}
    for step in steps:
        batch, context, prefill = _point(step)
        expected = planned.get((batch, context, prefill))
        table.add_row(
            f"{batch:,}" if batch else "prompt alone",
            f"{context or prefill:,}",
            "-" if expected is None else f"{expected['milliseconds']:,.2f}",
            "" if expected is None else f"{expected['low']:,.2f} to {expected['high']:,.2f}",
            f"{step['milliseconds']:,.2f}",
        )
    return _drawn(table)


def _point(step: Json) -> tuple[int, int, int]:
    return step["batch"], step["context"], step["prefill"]


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
