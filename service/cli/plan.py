"""`dryserve plan`: what the engine would do with a model."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

import typer

from service.advisor.candidates.plan_types import Plan
from service.application.errors import InvalidRequest
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.problems.given_members import read_given
from service.application.schemas.parts import Parts
from service.application.schemas.requests.engine_parameters import OTHERS, EngineParameters, read_flags
from service.application.schemas.requests.plan_body import MAX_COMMAND, PlanBody
from service.application.text.layout import NARROWEST, WIDEST, WIDTH, TextOptions
from service.application.text.plan_format import Format
from service.cli.bad_input import exits_on_bad_input, with_config
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.local_folders import folder_of, is_gguf_file, with_local_models
from service.cli.options import option, with_options
from service.cli.settings_of_host import host_settings
from service.hub.model_files.fetched_config import FetchedConfig
from service.memory.calibration import NOTHING_LEARNED, Calibration
from service.plan_services import build_plan_services
from service.settings import Settings
from service.store.stored_measurements import may_have_measurements

WORDS: Final = typer.Argument(
    metavar="MODEL | -- COMMAND",
    help="Id on the Hub; or, behind `--`, a start of the engine: vllm serve ..., docker run ...",
)
COMMAND_FILE: Final = typer.Option(
    "--command-file",
    metavar="FILE",
    help="File with a start of the engine: a script, a Compose file, a manifest, a file for --config; - "
    "reads standard input.",
)
ANY: Final = typer.Option("--any", help="With several GPU types, one that starts is enough for exit code 0.")
EVERY: Final = typer.Option("--all", help="List every candidate, and every refusal in full.")
SORT: Final = typer.Option(
    "--sort", help="Order of several GPU types: fewest GPUs, most tokens, least memory of one GPU, or name."
)
ONLY: Final = typer.Option(
    "--only", help="List only GPU types on which it starts, or that serve the workload."
)
MORE: Final = "; --all lists them"
PROGRAMS: Final = frozenset({"vllm", "python", "python3", "docker", "podman", "uv", "run"})
"""Programs that start the engine, which may stand in a folder such as `bin/`."""
IN_WORDS: Final = ("model", "command")
"""What the words of `plan`, `check` and `probe` say."""
COMMAND: Final = (
    option("words", list[str] | None, WORDS),
    option("command_file", typer.FileBinaryRead | None, COMMAND_FILE),
)
"""Options that name a command."""


def plan(  # noqa: PLR0913 - one for each option
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
    """Find the best way to serve MODEL on each GPU type. Cache dtypes and GPU counts left out are searched.

    Behind `--` stands a whole command, such as `vllm serve ...`.

    Exits with 0 when it starts on every GPU type that is named (without --gpu: on at least one), 3 when it
    does not start, 4 when that is uncertain, 5 when it starts but does not serve the whole workload, and 2 on
    bad input.
    """
    with exits_on_bad_input():
        document = with_config(_parameters(flags).document(), config)
        document |= _asked(words or [], command_file)
        document = _with_other_engine(document)
        if "engines" in document or "name" in document.get("engine", {}):
            _check_words(document, flags.get("engine_flags"))
            # Most plans are of vLLM and need none of the other engines' modules.
            from service.cli.engines import is_gguf_on_hub, print_engines  # noqa: PLC0415

            given = document.get("model")
            is_gguf = given is not None and (is_gguf_file(given) or is_gguf_on_hub(given))
            local = None if given is None or config or is_gguf else folder_of(given)
            print_engines(document, local, format, TextOptions(width()))
        document, folders = with_local_models(document)
        answer = asyncio.run(_answer(document, host_settings(), folders))
    parts = Parts.of(document.get("include", ()))
    options = TextOptions(width(), every=every, order=sort, only=only, curve=parts.curve, more=MORE)
    finish(answer, format, options, parts, any_type=any_type or not document.get("gpus"))


plan_app: Final = typer.Typer()
plan_app.command()(with_options(plan, EngineParameters, Format, *COMMAND, without=("search", *IN_WORDS)))


def _parameters(flags: Mapping[str, Any]) -> EngineParameters:
    """Read the options that are given; all are checked where one of them is at fault.

    Raises:
        ValidationError: a value is not valid.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    return read_given(EngineParameters, given) or EngineParameters(**given)


def _asked(words: list[str], command_file: BinaryIO | None) -> dict[str, str]:
    """Return the model, the command or both.

    A single word is a model, several are a command; an id on the Hub before them is the model of a command
    that serves a folder.

    Raises:
        InvalidRequest: there is neither, or a command twice.
    """
    asked = {}
    if words and (_is_id(words[0]) if len(words) > 1 else not _is_command(words[0])):
        asked["model"], words = words[0], words[1:]
    if words:
        asked["command"] = words[0] if len(words) == 1 else shlex.join(words)
    if command_file is not None:
        if "command" in asked:
            raise InvalidRequest([("/command", "a command is given twice: as words and as a file")])
        asked["command"] = command_file.read(4 * MAX_COMMAND + 1).decode("utf-8", "replace")
    return asked


def _with_other_engine(document: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a command that starts another engine; any other body as it is.

    Raises:
        InvalidRequest: such a command names no model.
    """
    text = document.get("command", "")
    if not text or "vllm" in text or "engines" in document or "name" in document.get("engine", {}):
        return document
    # Most commands start vLLM.
    from service.launch_command.other_engines import other_start  # noqa: PLC0415

    start = other_start(text)
    if start is None:
        return document
    model = document.get("model", start.model)
    if not model:
        raise InvalidRequest([("/command", f"starts {start.engine} and does not name its model")])
    if start.neutral:
        typer.echo(f"Left out, since they change no memory: {', '.join(start.neutral)}", err=True)
    body = {key: document[key] for key in OTHERS if key in document}
    flags = read_flags(shlex.join(start.flags))
    given = document.get("engine", {}).get("version", start.version)
    engine = {"name": start.engine} | ({"version": given} if given else {})
    return body | {"model": model, "engine": engine, "serve": flags}


def _check_words(document: dict[str, Any], flags: str | None) -> None:
    """Refuse words beside another engine, which are most often its flags without quotes.

    Raises:
        InvalidRequest: there are some.
    """
    if "command" in document:
        quoted = shlex.quote(" ".join(filter(None, (flags, document["command"]))))
        raise InvalidRequest([("/serve", f"takes all flags as one word: --engine-flags {quoted}")])


def _is_id(word: str) -> bool:
    """Whether the first of several words is an id on the Hub, and not a program: `organisation/name`."""
    organisation, slash, name = word.partition("/")
    return bool(organisation.strip(".~") and slash and name) and "/" not in name and name not in PROGRAMS


def _is_command(word: str) -> bool:
    """Whether a single word is a command in quotes: a model's id has no space in it."""
    return "vllm" in word and len(word.split()) > 1


def finish(answer: Plan, form: Format | None, options: TextOptions, parts: Parts, *, any_type: bool) -> None:
    """Print an answer, and exit by it. Comments on commands go to standard error.

    Raises:
        typer.Exit: always, with the code of the answer.
    """
    form = form or ("table" if sys.stdout.isatty() else "json")
    if form == "json":
        from service.application.plans.plan_writing import written_plan  # noqa: PLC0415 - people read tables

        typer.echo(written_plan(answer, parts))
    elif form == "table":
        from service.application.text.plan_text import plan_text  # noqa: PLC0415 - programs read JSON

        typer.echo(plan_text(answer, form, options), nl=False)
    else:
        from service.application.text.commands import COMMANDS  # noqa: PLC0415 - as above

        written = COMMANDS[form](answer)
        typer.echo(written.comments, err=True, nl=False)
        typer.echo(written.commands, nl=False)
        if not written.commands:
            raise typer.Exit(max(exit_code(answer, any_type=any_type), ExitCode.FAILED))
    raise typer.Exit(exit_code(answer, any_type=any_type))


def width() -> int:
    """Return the characters of a line: those of the terminal, or COLUMNS; a fixed number elsewhere."""
    columns = shutil.get_terminal_size((WIDTH, 0)).columns
    return min(max(NARROWEST, columns), WIDEST)


async def _answer(document: dict[str, Any], settings: Settings, local: Sequence[FetchedConfig]) -> Plan:
    calibration = await _calibration(settings)
    async with hub_client() as http:
        services = build_plan_services(settings, http, lambda: calibration)
        if local:
            services = replace(services, models=services.models.with_local(*local))
        try:
            body = read_given(PlanBody, document) or read_plan_body(document)
            request = await plan_request(body, services)
        finally:
            await services.models.close()
    return answer_plan_request(request, services)


async def _calibration(settings: Settings) -> Calibration:
    """Return what this host's database teaches; without a measurement, its libraries are not imported."""
    file = settings.database_file
    if file is not None and not may_have_measurements(file):
        return NOTHING_LEARNED
    from service.logs import configure_service_logs  # noqa: PLC0415
    from service.probe_services import read_calibration  # noqa: PLC0415

    configure_service_logs()
    return await read_calibration(settings)


def exit_code(answer: Plan, *, any_type: bool) -> ExitCode:
    """Return the exit code of an answer: every GPU type counts, or with ``any_type`` the best one."""
    counts = answer.counts
    if any_type:
        if not counts.start:
            return ExitCode.UNCERTAIN if counts.uncertain else ExitCode.FAILED
        return ExitCode.NOT_SERVED if counts.serve == 0 else ExitCode.OK
    if counts.refused or counts.uncertain:
        return ExitCode.FAILED if counts.refused else ExitCode.UNCERTAIN
    served = counts.serve is None or counts.serve == counts.gpu_types
    return ExitCode.OK if served else ExitCode.NOT_SERVED
