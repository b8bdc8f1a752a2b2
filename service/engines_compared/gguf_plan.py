"""What llama.cpp does with a GGUF file on each GPU type."""

from dataclasses import dataclass

from service.engine_plans.engine_plan import EnginePlan
from service.engine_plans.engine_question import EngineDevice, EngineRoom
from service.engines_compared.comparison import EnginesCompared, GpuComparison
from service.engines_compared.engine_choice import RANKS, LlamaAsked
from service.gpus.gpu_type import GpuType
from service.llama_cpp.llama_plan import LlamaQuestion, plan_llama_cpp
from service.llama_cpp.llama_source import FileSource
from service.memory.device import device_total
from service.units import MIB


@dataclass(frozen=True, slots=True)
class GgufQuestion:
    """A file, the GPU types, and the server's flags."""

    source: FileSource
    server: LlamaAsked
    gpus: tuple[tuple[GpuType, int | None], ...]
    """GPU types, and how many there are of each; ``None``: the fewest that are enough."""
    cache_bytes: int | None = None
    request_tokens: int | None = None


def plan_gguf(question: GgufQuestion) -> EnginesCompared:
    """Return what the server does on each GPU type."""
    found = (GpuComparison(gpu, count, (_on_gpu(question, gpu, count),)) for gpu, count in question.gpus)
    tokens = question.request_tokens
    return EnginesCompared(question.source.name, None, question.cache_bytes, tokens, tuple(found))


def _on_gpu(question: GgufQuestion, gpu: GpuType, count: int | None) -> EnginePlan:
    plan = _with(question, gpu, RANKS[0] if count is None else count)
    for size in RANKS[1:] if count is None else ():
        if plan.figures is not None:
            break
        plan = _with(question, gpu, size)
    return plan


def _with(question: GgufQuestion, gpu: GpuType, count: int) -> EnginePlan:
    total, server = device_total(gpu), question.server
    device = EngineDevice(gpu.name, total, gpu.driver_total_mib or total.bytes // MIB, count)
    room = EngineRoom(device=device, cache_bytes=question.cache_bytes, request_tokens=question.request_tokens)
    return plan_llama_cpp(LlamaQuestion(room, question.source, server.flags, server.build, server.version))
