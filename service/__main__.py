"""The command line: `dryserve` plan, explain, models, serve and openapi."""

import asyncio
import inspect
import sys
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer
from pydantic import ValidationError

from service import __version__
from service.advisor.plan_types import Plan, Verdict
from service.api.openapi import openapi_yaml
from service.api.problems.handlers import handled_errors, problem_of
from service.application.log_evidence import Sender, store_log
from service.application.log_requests import log_request
from service.application.plan_requests import (
    answer_plan_request,
    invalid_request,
    plan_request,
    read_plan_body,
)
from service.application.schemas.explanation import ExplainBody, ExplainParameters, ExplanationAnswer
from service.application.schemas.plan import PlanAnswer
from service.application.schemas.question import Format, PlanParameters
from service.application.text.commands import COMMANDS
from service.application.text.explanation import render_explanation
from service.application.text.table import render_plan
from service.architecture.config import parse_config
from service.bootstrap import build_app, build_database, build_services
from service.calibration.from_logs import StoredLog
from service.cli import manifest, measurements, models, probe, serve, tokens, worker
from service.cli.options import option, with_options
from service.explanation.explanation_types import Explanation
from service.hub.transfer import hub_http
from service.logs import configure_logs
from service.settings import Settings
from service.startup_log.log import StartupLog, read_log

Drawn: TypeAlias = Literal["json", "table"]
"""What an explanation can be written as."""
MAX_LOG_BYTES: Final = 64 << 20
"""Read of a log's file: a start is at its beginning, and what follows is traffic."""
HERE: Final = "logs"
"""Witness of the logs that are kept at the command line."""
LOG: Final = typer.Argument(help="What the engine printed; - reads standard input.", metavar="FILE")


class Exit(IntEnum):
    """Exit codes of `dryserve plan`."""

    STARTS = 0
    BAD_INPUT = 2
    DOES_NOT_START = 3
    UNCERTAIN = 4


cli = typer.Typer(
    name="dryserve",
    help="Dry-run `vllm serve`: what the engine would do on each GPU type, without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@cli.callback(invoke_without_command=True)
def version(*, show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Dry-run `vllm serve`: what the engine would do on each GPU type, without a GPU."""
    if show:
        typer.echo(__version__)
        raise typer.Exit
    # Off standard output, which belongs to answers; what runs on sets its own level.
    configure_logs("error")


@cli.command()
def openapi() -> None:
    """Print the OpenAPI document as YAML."""
    typer.echo(openapi_yaml(build_app(Settings())), nl=False)


def plan(
    *,
    model: str,
    config: Path | None,
    format: Format | None,  # noqa: A002 - the option's own name
    **flags: Any,  # noqa: ANN401 - checked by PlanParameters
) -> None:
    """Say what the engine would do with MODEL.

    Exits with 0 when it starts, 3 when it does not, 4 when that is uncertain, 2 on bad input.
    """
    try:
        document = PlanParameters(model=model, **flags).document()
        if config is not None:
            document["config"] = dict(parse_config(config.read_bytes()).fields)
        answer = asyncio.run(_answer(document, Settings()))
    except ValidationError as error:
        raise _refused(invalid_request(error.errors(include_url=False))) from None
    except OSError as error:
        raise _refused(error) from None
    except handled_errors() as error:
        raise _refused(error) from None
    typer.echo(_written(answer, format or ("table" if sys.stdout.isatty() else "json")), nl=False)
    raise typer.Exit(_exit_code(answer))


async def _answer(document: dict[str, Any], settings: Settings) -> Plan:
    database = build_database(settings)
    async with hub_http() as http:
        services = build_services(settings, http, database)
        try:
            await services.probes.learned.refresh()
            question = await plan_request(read_plan_body(document), services)
        finally:
            await services.models.close()
            await database.close()
    return answer_plan_request(question, services)


def _refused(error: Exception) -> typer.Exit:
    problem = problem_of(error, "")
    typer.echo(f"{problem.title}: {problem.detail}", err=True)
    if problem.nearest:
        typer.echo(f"Nearest: {', '.join(problem.nearest)}", err=True)
    return typer.Exit(Exit.BAD_INPUT)


def _written(answer: Plan, form: Format) -> str:
    match form:
        case "table":
            return render_plan(answer)
        case "json":
            return PlanAnswer.of(answer).model_dump_json() + "\n"
        case "command" | "docker" | "kubernetes":
            return COMMANDS[form](answer)


def _exit_code(answer: Plan) -> Exit:
    verdicts = {candidate.verdict for gpu in answer.plans for candidate in gpu.candidates}
    if Verdict.STARTS in verdicts:
        return Exit.STARTS
    return Exit.UNCERTAIN if Verdict.UNCERTAIN in verdicts else Exit.DOES_NOT_START


def explain(
    *,
    file: typer.FileBinaryRead,
    config: Path | None,
    format: Drawn | None,  # noqa: A002 - the option's own name
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep its figures in this host's database, for later plans.")
    ] = False,
    **flags: Any,  # noqa: ANN401 - checked by ExplainParameters
) -> None:
    """Explain the startup log in FILE: what agrees with the plan, what differs, why it failed.

    Exits with 0 when it is explained, 2 on bad input.
    """
    try:
        document = ExplainParameters(**flags).document()
        if config is not None:
            document["config"] = dict(parse_config(config.read_bytes()).fields)
        body = ExplainBody.model_validate(document)
        log = read_log(file.read(MAX_LOG_BYTES).decode("utf-8", "replace"))
        explanation, kept = asyncio.run(_explanation(log, body, Settings(), keep=keep))
    except ValidationError as error:
        raise _refused(invalid_request(error.errors(include_url=False))) from None
    except OSError as error:
        raise _refused(error) from None
    except handled_errors() as error:
        raise _refused(error) from None
    table = format == "table" or (format is None and sys.stdout.isatty())
    answer = ExplanationAnswer.of(explanation, kept)
    typer.echo(render_explanation(explanation, kept) if table else answer.model_dump_json() + "\n", nl=False)


async def _explanation(
    log: StartupLog, body: ExplainBody, settings: Settings, *, keep: bool
) -> tuple[Explanation, StoredLog | None]:
    database = build_database(settings)
    try:
        async with hub_http() as http:
            services = build_services(settings, http, database)
            explanation = (await log_request(log, body, services)).explain(log)
            return explanation, await store_log(
                explanation, body, services, sender=Sender(HERE)
            ) if keep else None
    finally:
        await database.close()


cli.command()(serve.serve)
cli.command()(with_options(plan, PlanParameters, Format))
cli.command()(with_options(probe.probe, PlanParameters, Format))
cli.command()(
    with_options(
        explain, ExplainParameters, Drawn, option("file", typer.FileBinaryRead, LOG, inspect.Parameter.empty)
    )
)
cli.add_typer(models.cli)
cli.command()(worker.worker)
cli.command()(manifest.manifest)
cli.add_typer(tokens.cli)
cli.add_typer(measurements.cli)


def main() -> None:
    """Run the command line."""
    cli()


if __name__ == "__main__":
    main()
