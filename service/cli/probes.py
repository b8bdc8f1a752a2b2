"""`dryserve probes`: look at the probes of a service, follow them, cancel them."""

import json
from pathlib import Path
from typing import Annotated, Final

import httpx2
import typer

from service.cli.exit_codes import ExitCode
from service.cli.list_format import AsJson, ListFormat, is_json
from service.cli.probe import summary
from service.cli.probe_client import (
    SERVER,
    Json,
    Server,
    StillRunning,
    Timeout,
    TokenFile,
    answered,
    followed,
    refused,
    service_at,
)
from service.probes.job_state import State

cli: Final = typer.Typer(name="probes", help="Look at probes, or cancel them.", no_args_is_help=True)
ProbeId = Annotated[str, typer.Argument(metavar="ID", help="Id of the probe, or how it begins.")]
WHOLE_ID: Final = 32


@cli.command("list")
def list_probes(  # noqa: PLR0913 - each is an option
    *,
    server: Server = SERVER,
    token_file: TokenFile = None,
    state: Annotated[State | None, typer.Option(help="Only probes in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most probes to list.")] = 20,
    form: ListFormat = None,
    as_json: AsJson = False,
) -> None:
    """List probes, the newest first."""
    query = {"limit": limit, **({} if state is None else {"state": state.value})}
    with service_at(server, token_file) as http:
        found = answered(http.get("/probes", params=query))["probes"]
    if is_json(form, as_json=as_json):
        typer.echo(json.dumps(found))
        return
    for probe in found:
        typer.echo(_line(probe))


@cli.command()
def show(
    probe_id: ProbeId,
    *,
    server: Server = SERVER,
    token_file: TokenFile = None,
    form: ListFormat = None,
    as_json: AsJson = False,
) -> None:
    """Print a probe: what was asked, how it stands, what it measured."""
    with service_at(server, token_file) as http:
        found = answered(http.get(f"/probes/{_whole(http, probe_id)}"))
    typer.echo(json.dumps(found) if is_json(form, as_json=as_json) else _described(found))


@cli.command()
def cancel(
    probe_id: ProbeId,
    *,
    token_file: Annotated[Path, typer.Option(help="File that holds an operator's token.", exists=True)],
    server: Server = SERVER,
) -> None:
    """Cancel a probe: a queued one at once, a running one as soon as its worker hears of it."""
    with service_at(server, token_file) as http:
        found = answered(http.delete(f"/probes/{_whole(http, probe_id)}"))
    ended = found["state"] == State.CANCELLED
    typer.echo(f"{found['id']} {found['state']}" + ("" if ended else ": its worker will stop it"))


@cli.command()
def wait(  # noqa: PLR0913 - each is an option
    probe_id: ProbeId,
    *,
    server: Server = SERVER,
    token_file: TokenFile = None,
    timeout: Timeout = None,
    form: ListFormat = None,
    as_json: AsJson = False,
) -> None:
    """Follow a probe to its end, and print what it measured.

    Exits with 0 when it has measured, 3 when it did not, 4 when it had not ended in time.
    """
    with service_at(server, token_file) as http:
        try:
            end = followed(http, answered(http.get(f"/probes/{_whole(http, probe_id)}")), timeout)
        except StillRunning as still:
            typer.echo(f"not ended after {timeout:g} s: {still}", err=True)
            raise typer.Exit(ExitCode.UNCERTAIN) from None
    typer.echo(json.dumps(end) if is_json(form, as_json=as_json) else _described(end))
    if end["state"] != State.SUCCEEDED:
        raise typer.Exit(ExitCode.FAILED)


def _whole(http: httpx2.Client, probe_id: str) -> str:
    """Return the whole id of a probe of which the beginning is given; only the newest 200 are searched."""
    if len(probe_id) == WHOLE_ID:
        return probe_id
    latest = answered(http.get("/probes", params={"limit": 200}))["probes"]
    found = [each["id"] for each in latest if each["id"].startswith(probe_id)]
    if len(found) == 1:
        return str(found[0])
    if not found:
        raise refused(f"no probe begins with {probe_id!r}; `dryserve probes list` lists them")
    raise refused(f"{len(found)} probes begin with {probe_id!r}: {', '.join(found[:5])}")


def _line(probe: Json) -> str:
    question = probe["question"]
    asked = " ".join(filter(None, (question["model"], "on" if question["gpu"] else "", question["gpu"])))
    parts = (probe["id"], probe["state"], probe["kind"], probe["created"], asked, probe["waiting"])
    return "  ".join(part for part in parts if part)


def _described(probe: Json) -> str:
    question = probe["question"]
    facts = {
        "kind": probe["kind"],
        "model": question["model"],
        "GPU": question["gpu"],
        "vLLM": question["engine_release"],
        "flags": " ".join(f"{name}={value}" for name, value in question["serve"].items()),
        "label": question["label"],
        "asked by": question["requester"],
        "worker": probe["worker"],
        "created": probe["created"],
        "updated": probe["updated"],
        "phase": probe["phase"],
        "waiting": probe["waiting"],
    }
    lines = [f"  {name + ':':10}{value}" for name, value in facts.items() if value]
    first, *rest = summary(probe).split("\n")
    return "\n".join([first, *lines, *rest])
