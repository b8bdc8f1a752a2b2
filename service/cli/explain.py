"""`dryserve explain`: compare a startup log with its plan."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from service.application.log_evidence import Sender, store_log
from service.application.log_requests import log_request
from service.application.schemas.explanation import ExplainBody, ExplainParameters, ExplanationAnswer
from service.application.text.explanation import render_explanation
from service.bootstrap import build_database, build_services
from service.calibration.from_logs import StoredLog
from service.cli.bad_input import exits_on_bad_input, with_config
from service.explanation.explanation_types import Explanation
from service.hub.transfer import hub_http
from service.settings import Settings
from service.startup_log.log import StartupLog, read_log

ExplanationFormat: TypeAlias = Literal["json", "table"]
"""What an explanation can be written as."""
MAX_LOG_BYTES: Final = 64 << 20
"""Bytes of the file that are read: the start stands at its beginning, what follows are requests."""
REPORTER: Final = "logs"
"""Reporter of the logs that are stored from the command line."""
LOG: Final = typer.Argument(help="What the engine printed; - reads standard input.", metavar="FILE")


def explain(
    *,
    file: typer.FileBinaryRead,
    config: Path | None,
    format: ExplanationFormat | None,  # noqa: A002 - the option's own name
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Store its figures in this host's database, for later plans."),
    ] = False,
    **flags: Any,  # noqa: ANN401 - checked by ExplainParameters
) -> None:
    """Explain the startup log in FILE: what agrees with the plan, what differs, why it failed.

    Exits with 0 when it is explained, 2 on bad input.
    """
    with exits_on_bad_input():
        document = with_config(ExplainParameters(**flags).document(), config)
        body = ExplainBody.model_validate(document)
        log = read_log(file.read(MAX_LOG_BYTES).decode("utf-8", "replace"))
        explanation, stored = asyncio.run(_explanation(log, body, Settings(), keep=keep))
    table = format == "table" or (format is None and sys.stdout.isatty())
    typer.echo(_written(explanation, stored, table=table), nl=False)


def _written(explanation: Explanation, stored: StoredLog | None, *, table: bool) -> str:
    if table:
        return render_explanation(explanation, stored)
    return ExplanationAnswer.of(explanation, stored).model_dump_json() + "\n"


async def _explanation(
    log: StartupLog, body: ExplainBody, settings: Settings, *, keep: bool
) -> tuple[Explanation, StoredLog | None]:
    database = build_database(settings)
    try:
        async with hub_http() as http:
            services = build_services(settings, http, database)
            explanation = (await log_request(log, body, services)).explain(log)
            if not keep:
                return explanation, None
            return explanation, await store_log(explanation, body, services, sender=Sender(REPORTER))
    finally:
        await database.close()
