"""`dryserve plan`: what the engine would do with a model."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import typer

from service.advisor.plan_types import Plan, Verdict
from service.application.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.schemas.plan import PlanAnswer
from service.application.schemas.plan_body import Format, PlanParameters
from service.application.text.plan_text import plan_text
from service.bootstrap import build_database, build_services
from service.cli.bad_input import exits_on_bad_input, with_config
from service.cli.exit_codes import ExitCode
from service.hub.transfer import hub_http
from service.settings import Settings


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
    with exits_on_bad_input():
        document = with_config(PlanParameters(model=model, **flags).document(), config)
        answer = asyncio.run(_answer(document, Settings()))
    typer.echo(_written(answer, format or ("table" if sys.stdout.isatty() else "json")), nl=False)
    raise typer.Exit(_exit_code(answer))


async def _answer(document: dict[str, Any], settings: Settings) -> Plan:
    database = build_database(settings)
    async with hub_http() as http:
        services = build_services(settings, http, database)
        try:
            await services.probes.learned.refresh()
            request = await plan_request(read_plan_body(document), services)
        finally:
            await services.models.close()
            await database.close()
    return answer_plan_request(request, services)


def _written(answer: Plan, form: Format) -> str:
    return PlanAnswer.of(answer).model_dump_json() + "\n" if form == "json" else plan_text(answer, form)


def _exit_code(answer: Plan) -> ExitCode:
    verdicts = {candidate.verdict for gpu in answer.plans for candidate in gpu.candidates}
    if Verdict.STARTS in verdicts:
        return ExitCode.OK
    return ExitCode.UNCERTAIN if Verdict.UNCERTAIN in verdicts else ExitCode.FAILED
