"""EnginesCompared: what several engines do with one model, GPU type by GPU type."""

from dataclasses import dataclass

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import Model
from service.engine_plans.engine_plan import EnginePlan
from service.engines_compared.engine_choice import EnginesQuestion, plan_engine
from service.gpus.gpu_type import GpuType


@dataclass(frozen=True, slots=True)
class GpuComparison:
    """The engines on GPUs of one type, in the order of the request."""

    gpu: GpuType
    count: int | None
    """GPUs that there are; ``None``: not said, so each engine takes the fewest on which it starts."""
    plans: tuple[EnginePlan, ...]


@dataclass(frozen=True, slots=True)
class EnginesCompared:
    """The answers of several engines."""

    name: str
    """The model's id, or the path of its file."""
    model: Model | None
    """``None`` for a GGUF file."""
    cache_bytes: int | None
    """Bytes of each GPU for the cache, as given."""
    request_tokens: int | None
    """Tokens of the requests that are counted."""
    gpus: tuple[GpuComparison, ...]


def compare_engines(question: EnginesQuestion) -> EnginesCompared:
    """Ask every engine on every GPU type."""
    request = question.request
    counts = request.counts or (None,) * len(request.gpus)
    return EnginesCompared(
        request.model.id,
        request.model,
        question.cache_bytes,
        question.request_tokens,
        tuple(
            GpuComparison(
                gpu, count, tuple(plan_engine(question, each, gpu, count) for each in question.engines)
            )
            for gpu, count in zip(request.gpus, counts, strict=True)
        ),
    )


def verdict_of(plan: EnginePlan) -> Verdict:
    """Return whether an engine starts: uncertain where the ends of the budget's interval disagree."""
    if not plan.is_modelled:
        return Verdict.UNCERTAIN
    if plan.figures is None:
        return Verdict.REFUSED if plan.most is None else Verdict.UNCERTAIN
    return Verdict.STARTS if plan.least is not None and not plan.is_doubtful else Verdict.UNCERTAIN
