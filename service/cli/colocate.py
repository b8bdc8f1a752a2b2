"""`dryserve colocate`: several engines on the same GPUs."""

import asyncio
import sys
from typing import Annotated, Any, Final, Literal

import typer

from service.advisor.candidates.verdict import Verdict
from service.advisor.colocation import Colocation
from service.application.plans.colocation_requests import answer_colocation, colocation_request
from service.application.schemas.colocation import ColocationAnswer, ColocationBody
from service.application.schemas.requests.plan_body import MAX_COMMAND
from service.application.schemas.requests.renamed import gpu_choices
from service.application.text.colocation import render_colocation
from service.cli.bad_input import exits_on_bad_input
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.plan import width
from service.cli.settings_of_host import host_settings
from service.plan_services import build_plan_services
from service.settings import Settings

CODES: Final = {
    Verdict.STARTS: ExitCode.OK,
    Verdict.UNCERTAIN: ExitCode.UNCERTAIN,
    Verdict.REFUSED: ExitCode.FAILED,
}

colocate_app: Final = typer.Typer()


@colocate_app.command()
def colocate(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            help="Starts of the engine in their order: a script, a Compose file; - reads standard input."
        ),
    ],
    gpu: Annotated[str, typer.Option(help="The GPU type, as of `plan`.")],
    engine_version: Annotated[
        str | None, typer.Option(help="Release to plan; left out: what each image says, or the newest.")
    ] = None,
    format: Annotated[  # noqa: A002 - the option's own name
        Literal["json", "table"] | None,
        typer.Option(help="Left out: a table on a terminal, JSON elsewhere."),
    ] = None,
) -> None:
    """Plan the engines in FILE on the same GPUs, each with the memory that those before it left free.

    Exits with 0 when all start, 3 when one does not, 4 when that is uncertain, and 2 on bad input.
    """
    with exits_on_bad_input():
        text = file.read(4 * MAX_COMMAND + 1).decode("utf-8", "replace")
        document: dict[str, Any] = {"gpu": gpu_choices([gpu])[0], "command": text, "version": engine_version}
        shared = asyncio.run(_answer(ColocationBody.model_validate(document), host_settings()))
    form = format or ("table" if sys.stdout.isatty() else "json")
    if form == "table":
        typer.echo(render_colocation(shared, width()), nl=False)
    else:
        typer.echo(ColocationAnswer.of(shared).model_dump_json())
    raise typer.Exit(CODES[shared.verdict])


async def _answer(body: ColocationBody, settings: Settings) -> Colocation:
    async with hub_client() as http:
        services = build_plan_services(settings, http)
        try:
            starts = await colocation_request(body, services)
        finally:
            await services.models.close()
    return answer_colocation(starts, services)
