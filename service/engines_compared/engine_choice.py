"""EngineAsked: one engine of a request, with its release and its own arguments."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from service.advisor.request.plan_request import PlanRequest
from service.engine_plans.engine_plan import EnginePlan
from service.engine_plans.engine_question import EngineDevice, EngineQuestion
from service.engines_compared.checkpoint_weights import elements_of, weights_on_rank
from service.engines_compared.vllm_row import plan_vllm
from service.gpus.gpu_type import GpuType
from service.llama_cpp.builds import Build
from service.llama_cpp.llama_plan import LlamaQuestion, plan_llama_cpp
from service.llama_cpp.llama_source import CheckpointSource
from service.llama_cpp.server_flags import ServerFlags
from service.memory.device import device_total
from service.sglang.releases import PoolRules
from service.sglang.server_args import SglangArgs
from service.sglang.sglang_plan import SglangQuestion, plan_sglang
from service.tensorrt_llm.llm_args import TensorrtArgs
from service.tensorrt_llm.releases import ManagerRules
from service.tensorrt_llm.tensorrt_plan import TensorrtQuestion, plan_tensorrt_llm
from service.units import MIB

RANKS = (1, 2, 4, 8)
"""GPUs that are tried, fewest first, where a request does not say how many there are."""


@dataclass(frozen=True, slots=True)
class VllmAsked:
    """vLLM with the flags of the request."""


@dataclass(frozen=True, slots=True)
class LlamaAsked:
    """llama.cpp."""

    version: str
    build: Build
    flags: ServerFlags
    quantization: str


@dataclass(frozen=True, slots=True)
class SglangAsked:
    """SGLang. `given_ranks`: whether the request says `tp_size`."""

    version: str
    rules: PoolRules
    args: SglangArgs
    given_ranks: bool = False


@dataclass(frozen=True, slots=True)
class TensorrtAsked:
    """TensorRT-LLM. `given_ranks`: whether the request says `tp_size`."""

    version: str
    rules: ManagerRules
    args: TensorrtArgs
    given_ranks: bool = False


EngineAsked: TypeAlias = VllmAsked | LlamaAsked | SglangAsked | TensorrtAsked


@dataclass(frozen=True, slots=True)
class EnginesQuestion:
    """The question that all engines of a request get."""

    request: PlanRequest
    """The model, the GPU types, and vLLM's release and flags."""
    engines: tuple[EngineAsked, ...]
    cache_bytes: int | None = None
    """Bytes of each GPU for the cache; ``None``: what is left of it."""
    request_tokens: int | None = None
    """Tokens of the requests that are counted; ``None``: none are."""


def plan_engine(
    question: EnginesQuestion, engine: EngineAsked, gpu: GpuType, count: int | None
) -> EnginePlan:
    """Return what an engine does with the GPUs that there are, or the fewest on which it starts."""
    sizes = (count,) if count is not None else RANKS
    plans: list[EnginePlan] = []
    for size in sizes:
        plans.append(_on(question, engine, gpu, size))
        if plans[-1].figures is not None or plans[-1].gpus != size:
            return plans[-1]
    return plans[-1]


def _on(question: EnginesQuestion, engine: EngineAsked, gpu: GpuType, count: int) -> EnginePlan:
    if isinstance(engine, VllmAsked):
        return plan_vllm(question.request, gpu, count, question.cache_bytes, question.request_tokens)
    asked = _question(question, gpu, count)
    if isinstance(engine, LlamaAsked):
        source = CheckpointSource(asked, engine.quantization)
        return plan_llama_cpp(LlamaQuestion(asked, source, engine.flags, engine.build, engine.version))
    if isinstance(engine, SglangAsked):
        args = engine.args if engine.given_ranks else replace(engine.args, tp_size=count)
        return plan_sglang(SglangQuestion(asked, args, engine.rules, engine.version))
    tensorrt = engine.args if engine.given_ranks else replace(engine.args, tp_size=count)
    return plan_tensorrt_llm(TensorrtQuestion(asked, tensorrt, engine.rules, engine.version))


def generation_of(gpu: GpuType) -> int | None:
    """Return the major compute capability of a GPU; ``None`` without one."""
    return None if gpu.compute_capability is None else gpu.compute_capability.major


def _question(question: EnginesQuestion, gpu: GpuType, count: int) -> EngineQuestion:
    model, total = question.request.model, device_total(gpu)
    driver = gpu.driver_total_mib or total.bytes // MIB
    return EngineQuestion(
        model=model.architecture,
        model_id=model.id,
        device=EngineDevice(gpu.name, total, driver, count, generation_of(gpu)),
        weights=weights_on_rank(model.architecture, gpu),
        elements=elements_of(model.architecture),
        cache_bytes=question.cache_bytes,
        request_tokens=question.request_tokens,
    )
