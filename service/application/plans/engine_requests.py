"""Reads requests for other engines, and asks them."""

from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from service.application.errors import InputFault, InvalidRequest
from service.application.plans.plan_requests import plan_request, read_plan_body
from service.application.problems.invalid_request import invalid_request
from service.application.schemas.answers.engine_answer import EngineComparisonAnswer, EnginePlanAnswer
from service.application.schemas.requests.engine_body import (
    ANY_BODY,
    ComparisonBody,
    EngineBody,
    LlamaBody,
    LlamaEntry,
    SglangBody,
    SglangEntry,
    TensorrtBody,
    TensorrtEntry,
    VllmEntry,
)
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.engine_plans.engine_plan import LLAMA_CPP, SGLANG, TENSORRT_LLM
from service.engine_plans.engine_releases import UnknownEngineRelease
from service.engines_compared.comparison import EnginesCompared
from service.engines_compared.engine_choice import (
    EngineAsked,
    EnginesQuestion,
    LlamaAsked,
    SglangAsked,
    TensorrtAsked,
    VllmAsked,
)
from service.llama_cpp.builds import UnknownBuild, build_named
from service.sglang.releases import RELEASES as SGLANG_RELEASES
from service.tensorrt_llm.releases import RELEASES as TENSORRT_RELEASES

MOST_ANSWERS = 512
"""Most GPU types times engines of one request."""


def read_any_body(document: object) -> PlanBody | EngineBody:
    """Read the body of a plan, for whichever engine.

    Raises:
        InvalidRequest: values are missing, of the wrong type or out of range.
        UnknownFlag: `serve` names a flag that is not modelled.
    """
    try:
        return ANY_BODY.validate_python(document)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False), PlanBody) from None


async def engines_question(body: EngineBody, services: PlanServices) -> EnginesQuestion:
    """Resolve the names in a request for other engines: model, GPU types, releases.

    Raises:
        InvalidRequest: there is neither a model nor a config, or the request is too large.
        InputFault: a value names what does not exist, or a config cannot be read.
        HubError: the model's config could not be fetched.
    """
    engines = asked_engines(body)
    if len(body.gpus or ()) * len(engines) > MOST_ANSWERS:
        raise InvalidRequest(
            [("/gpus", f"are too many: at most {MOST_ANSWERS} answers, of GPU types and engines")]
        )
    request = await plan_request(_for_vllm(body), services)
    workload = request.workload
    tokens = None if workload is None else workload.prompt_tokens + workload.output_tokens
    return EnginesQuestion(replace(request, workload=None), engines, body.cache_bytes, tokens)


def engines_answer(compared: EnginesCompared, body: EngineBody) -> EngineComparisonAnswer | EnginePlanAnswer:
    """Return the answers of engines as a document: of one alone, or of several side by side."""
    if isinstance(body, ComparisonBody):
        return EngineComparisonAnswer.of(compared)
    return EnginePlanAnswer.of(compared)


def _for_vllm(body: EngineBody) -> PlanBody:
    """Return the body whose model, GPU types and vLLM's own flags are those of a request."""
    shared = body.model_dump(exclude_none=True, include={"model", "revision", "config", "gpus", "workload"})
    document: dict[str, Any] = {**shared, "search": False}
    if isinstance(body, ComparisonBody):
        document |= {"engine": body.engine, "serve": body.serve}
        if body.free_memory_bytes is not None:
            document["free_memory_bytes"] = body.free_memory_bytes
    return read_plan_body(document)


def asked_engines(body: EngineBody) -> tuple[EngineAsked, ...]:
    """Return the engines of a request with their releases and arguments.

    Raises:
        InputFault: an engine has no such release.
    """
    if isinstance(body, ComparisonBody):
        return tuple(_entry(each, f"/engines/{index}/version") for index, each in enumerate(body.engines))
    if isinstance(body, LlamaBody):
        entry: Any = LlamaEntry(name=LLAMA_CPP, version=body.engine.version, serve=body.serve)
    elif isinstance(body, SglangBody):
        entry = SglangEntry(name=SGLANG, version=body.engine.version, serve=body.serve)
    elif isinstance(body, TensorrtBody):
        entry = TensorrtEntry(name=TENSORRT_LLM, version=body.engine.version, serve=body.serve)
    else:
        raise TypeError(type(body))
    return (_entry(entry, "/engine/version"),)


def _entry(entry: VllmEntry | LlamaEntry | SglangEntry | TensorrtEntry, pointer: str) -> EngineAsked:
    try:
        if isinstance(entry, VllmEntry):
            return VllmAsked()
        if isinstance(entry, LlamaEntry):
            name, build = build_named(entry.version)
            return LlamaAsked(name, build, entry.serve.flags(), entry.serve.quant.upper())
        if isinstance(entry, SglangEntry):
            version, rules = SGLANG_RELEASES.named(entry.version)
            return SglangAsked(version, rules, entry.serve.args(), entry.serve.tp_size is not None)
        version, manager = TENSORRT_RELEASES.named(entry.version)
        return TensorrtAsked(version, manager, entry.serve.args(), entry.serve.tp_size is not None)
    except (UnknownBuild, UnknownEngineRelease) as error:
        raise InputFault(pointer, error) from error
