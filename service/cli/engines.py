"""`dryserve plan --engine` and `--compare-engines`: what other engines would do with a model."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import typer

from service.advisor.candidates.verdict import Verdict
from service.application.errors import InvalidRequest
from service.application.plans.any_engine import answer_of_engines, any_question
from service.application.plans.engine_requests import engines_answer, read_any_body
from service.application.plans.gguf_requests import question_of, read_model
from service.application.schemas.requests.engine_body import EngineBody, LlamaBody
from service.application.text.engines_table import engines_text
from service.application.text.layout import TextOptions
from service.application.text.plan_format import Format
from service.application.text.words import printable
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.local_folders import is_gguf_file
from service.cli.settings_of_host import host_settings
from service.engines_compared.comparison import EnginesCompared, verdict_of
from service.engines_compared.gguf_plan import plan_gguf
from service.gpus.catalog import gpu_catalog
from service.hub.formats.gguf import MOST_HEADER_BYTES, HeaderTruncated, InvalidHeader, read_gguf_header
from service.hub.model_files.fetched_config import FetchedConfig
from service.hub.model_files.gguf_name import GgufName
from service.llama_cpp.llama_source import FileSource
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
    compared = _ask_of_file(body) if _is_file(body) else asyncio.run(_ask(body, local))
    form = form or ("table" if sys.stdout.isatty() else "json")
    if form == "json":
        typer.echo(engines_answer(compared, body).model_dump_json())
    else:
        if form != "table":
            typer.echo(_comments(compared), err=True, nl=False)
        typer.echo(engines_text(compared, form, options), nl=False)
    raise typer.Exit(_exit_code(compared))


def _comments(compared: EnginesCompared) -> str:
    """Return what to know of the commands, as lines that a shell does not run."""
    plans = (plan for gpu in compared.gpus for plan in gpu.plans)
    notes = dict.fromkeys(f"{plan.engine}: {note}" for plan in plans for note in plan.notes)
    return "".join(f"# {printable(note)}\n" for note in notes)


def is_gguf_on_hub(model: str) -> bool:
    """Whether a text names GGUF weights on the Hub: a quantization or a file of a repository."""
    return GgufName.of(model) is not None and not Path(model).expanduser().exists()


def _is_file(body: EngineBody) -> bool:
    return isinstance(body, LlamaBody) and body.model is not None and is_gguf_file(body.model)


def _ask_of_file(body: EngineBody) -> EnginesCompared:
    """Plan a GGUF file by its header.

    Raises:
        InputFault: the file cannot be read, or a GPU type is not known.
    """
    path = Path(body.model or "").expanduser()
    try:
        with path.open("rb") as file:
            header = read_gguf_header(file.read(MOST_HEADER_BYTES))
    except (HeaderTruncated, InvalidHeader) as error:
        raise InvalidRequest(
            [("/model", f"cannot be planned: {str(error) or 'it ends within its header'}")]
        ) from error
    source = FileSource(read_model(header), str(path), ("-m", str(path)))
    return plan_gguf(question_of(body, source, gpu_catalog()))


async def _ask(body: EngineBody, local: FetchedConfig | None) -> EnginesCompared:
    async with hub_client() as http:
        services = build_plan_services(host_settings(), http)
        if local is not None:
            services = replace(services, models=services.models.with_local(local))
        try:
            question = await any_question(body, services)
        finally:
            await services.models.close()
    return answer_of_engines(question)


def _exit_code(compared: EnginesCompared) -> ExitCode:
    verdicts = {verdict_of(plan) for gpu in compared.gpus for plan in gpu.plans}
    if Verdict.REFUSED in verdicts:
        return ExitCode.FAILED
    return ExitCode.UNCERTAIN if Verdict.UNCERTAIN in verdicts else ExitCode.OK
