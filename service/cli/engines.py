"""`dryserve plan --engine` and `--compare-engines`: what other engines would do with a model."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import typer

from service.advisor.plan_types import Verdict
from service.application.engine_requests import (
    asked_engines,
    engines_answer,
    engines_question,
    read_any_body,
)
from service.application.errors import InvalidRequest
from service.application.plan_requests import chosen_gpus
from service.application.schemas.engine_body import EngineBody, LlamaBody
from service.application.schemas.plan_body import Format
from service.application.text.engines_table import engines_text
from service.application.text.layout import TextOptions
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.settings_of_host import host_settings
from service.engines_compared.comparison import EnginesCompared, compare_engines, verdict_of
from service.engines_compared.engine_choice import LlamaAsked
from service.engines_compared.gguf_plan import GgufQuestion, plan_gguf
from service.gpus.catalog import gpu_catalog
from service.hub.fetched_config import FetchedConfig
from service.hub.gguf import MOST_HEADER_BYTES, HeaderTruncated, InvalidHeader, read_gguf_header
from service.llama_cpp.gguf_model import gguf_model
from service.llama_cpp.llama_source import FileSource
from service.llama_cpp.model_layers import NotConverted, UnmodelledLayers
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
        typer.echo(engines_text(compared, form, options), nl=False)
    raise typer.Exit(_exit_code(compared))


def is_gguf_file(model: str) -> bool:
    """Whether a text is the path of a GGUF file of this host."""
    path = Path(model).expanduser()
    return path.suffix.lower() == ".gguf" and path.is_file()


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
        model = gguf_model(header.values, header.tensor_bytes)
    except (HeaderTruncated, InvalidHeader, NotConverted, UnmodelledLayers) as error:
        raise InvalidRequest(
            [("/model", f"cannot be planned: {str(error) or 'it ends within its header'}")]
        ) from error
    gpus, counts = chosen_gpus(body.gpus, gpu_catalog())
    (server,) = asked_engines(body)
    if not isinstance(server, LlamaAsked):
        raise TypeError(type(server))
    pairs = tuple(zip(gpus, counts or (None,) * len(gpus), strict=True))
    work = body.workload
    tokens = None if work is None else work.prompt_tokens + work.output_tokens
    return plan_gguf(GgufQuestion(FileSource(model, str(path)), server, pairs, body.cache_bytes, tokens))


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
