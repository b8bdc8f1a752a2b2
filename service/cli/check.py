"""`dryserve check`: what the engine would do with exactly the command given."""

from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import typer

from service.application.schemas.requests.engine_parameters import EngineParameters
from service.application.text.plan_format import Format
from service.cli.options import ENGINES_DEFAULTS, with_options
from service.cli.plan import ANY, COMMAND, EVERY, IN_WORDS, ONLY, SORT, plan


def check(  # noqa: PLR0913 - one for each option
    *,
    words: list[str] | None,
    command_file: BinaryIO | None,
    config: Path | None,
    format: Format | None,  # noqa: A002 - the option's own name
    any_type: Annotated[bool, ANY] = False,
    every: Annotated[bool, EVERY] = False,
    sort: Annotated[Literal["gpus", "tokens", "memory", "name"] | None, SORT] = None,
    only: Annotated[Literal["starting", "serving"] | None, ONLY] = None,
    **flags: Any,  # noqa: ANN401 - checked by EngineParameters
) -> None:
    """Dry-run exactly the command given: `vllm serve MODEL` with these flags and the engine's defaults.

    Exits with 0 when it starts on every GPU type that is named (without --gpu: on at least one), 3 when it
    does not start, 4 when that is uncertain, 5 when it starts but does not serve the whole workload, and 2 on
    bad input.
    """
    plan(
        words=words,
        command_file=command_file,
        config=config,
        format=format,
        any_type=any_type,
        every=every,
        sort=sort,
        only=only,
        **{**flags, "search": False},
    )


check_app: Final = typer.Typer()
check_app.command()(
    with_options(
        check,
        EngineParameters,
        Format,
        *COMMAND,
        without=("search", "objective", *IN_WORDS),
        words=ENGINES_DEFAULTS,
    )
)
