"""`dryserve plan --engine` and `--compare-engines`: what other engines would do with a model."""

import asyncio
import sys
from dataclasses import replace
from typing import Any, NoReturn

import typer

from service.advisor.plan_types import Verdict
from service.application.engine_requests import engines_answer, engines_question, read_any_body
from service.application.schemas.engine_body import EngineBody
from service.application.schemas.plan_body import Format
from service.application.text.engines_table import engines_text
from service.application.text.layout import TextOptions
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.settings_of_host import host_settings
from service.engines_compared.comparison import EnginesCompared, compare_engines, verdict_of
from service.hub.fetched_config import FetchedConfig
from service.plan_services import build_plan_services


def print_engines(
    document: dict[str, Any], local: FetchedConfig | None, form: Format | None, options: TextOptions
) -> NoReturn:
    """Print what engines do, and exit by it.

    Raises:
        typer.Exit: always: 0 where every engine starts, 4 where that is uncertain, 3 where one does not.
    """
    body = read_any_body(document)
    if not isinstance(body, EngineBody):
        raise TypeError(type(body))
    compared = asyncio.run(_ask(body, local))
    form = form or ("table" if sys.stdout.isatty() else "json")
    if form == "json":
        typer.echo(engines_answer(compared, body).model_dump_json())
    else:
        typer.echo(engines_text(compared, form, options), nl=False)
    raise typer.Exit(_exit_code(compared))


async def _ask(body: EngineBody, local: FetchedConfig | None) -> EnginesCompared:
    async with hub_client() as http:
        services = build_plan_services(host_settings(), http)
        if local is not None:
            services = replace(services, models=services.models.with_local(local))
        try:
            question = await engines_question(body, services)
        finally:
            await services.models.close()
    return compare_engines(question)


def _exit_code(compared: EnginesCompared) -> ExitCode:
    verdicts = {verdict_of(plan) for gpu in compared.gpus for plan in gpu.plans}
    if Verdict.REFUSED in verdicts:
        return ExitCode.FAILED
    return ExitCode.UNCERTAIN if Verdict.UNCERTAIN in verdicts else ExitCode.OK
