"""Answers about other engines, and of several side by side."""

from typing import Literal, Self

from pydantic import Field

from service.advisor.candidates.verdict import Verdict
from service.application.schemas.answers.hardware import PlannedGpuAnswer
from service.application.schemas.answers.model import ModelAnswer
from service.application.schemas.base import Output
from service.application.schemas.plain_values import answer_of
from service.application.text.engine_commands import docker_command, kubernetes_manifest
from service.engine_plans.engine_plan import BudgetTerm, CacheFigures, EnginePlan, Unused
from service.engines_compared.comparison import EnginesCompared, GpuComparison, verdict_of
from service.memory.budget_types import Basis, Estimate


class BytesIntervalAnswer(Output):
    """Bytes with their interval."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int = Field(description="The 10th percentile, in bytes")
    high: int = Field(description="The 90th percentile, in bytes")
    basis: Basis = Field(description="Where the value comes from")
    source: str = Field(description="What it was computed, calibrated or assumed from")

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        """Describe an estimate."""
        return cls(
            bytes=estimate.bytes,
            low=estimate.low,
            high=estimate.high,
            basis=estimate.basis,
            source=estimate.source,
        )


class TermAnswer(BytesIntervalAnswer):
    """One term of a GPU's memory."""

    name: str = Field(description="The term, in the engine's own words")

    @classmethod
    def of_term(cls, term: BudgetTerm) -> Self:
        """Describe a term."""
        return cls(name=term.name, **BytesIntervalAnswer.of(term.estimate).model_dump())


class UnusedAnswer(Output):
    """Bytes of the cache that the longest single request does not use."""

    why: str = Field(description="Which part of the cache")
    bytes: int = Field(description="Bytes, on all GPUs together")

    @classmethod
    def of(cls, unused: Unused) -> Self:
        """Describe a part."""
        return cls(why=unused.why, bytes=unused.bytes)


class LengthAnswer(Output):
    """Tokens of the longest single request, with the interval of the memory that is left."""

    tokens: int = Field(description="Tokens, prompt and answer together, with the middle of the budget")
    low: int = Field(
        description="The same tokens with the low end of the budget; 0: the engine does not start with it"
    )
    high: int = Field(description="The same tokens with the high end of the budget")


class EngineRowAnswer(Output):
    """What one engine does on GPUs of one type, in terms that mean the same for all engines."""

    engine: str = Field(description="Name of the engine")
    version: str = Field(description="Its release or build")
    verdict: Verdict = Field(description="Whether it starts, and whether that is certain")
    gpus: int = Field(description="GPUs that it takes")
    longest_request: LengthAnswer | None = Field(
        description="The longest single request; null where it does not start"
    )
    longest_prompt: int | None = Field(
        description="Tokens of the longest prompt that it accepts; null where it does not start"
    )
    requests_at_once: int | None = Field(
        description="Requests of the workload's length that the cache holds at once; null without a workload"
    )
    bytes_per_token: int | None = Field(
        description="Bytes that one more token of a long request takes, on all GPUs together; null where it "
        "does not start"
    )
    cache_bytes: list[int] = Field(description="Bytes that it allocates for its cache on each GPU")
    unused_bytes: int | None = Field(
        description="Bytes of the cache that the longest single request does not use, on all GPUs together; "
        "null where it does not start"
    )
    unused: list[UnusedAnswer] = Field(description="The parts of `unused_bytes`")
    own_tokens: int | None = Field(
        description="The engine's own count of its cache in tokens, which does not compare between engines; "
        "null where it does not start"
    )
    own_tokens_are: str = Field(description="What that count means")
    budget: BytesIntervalAnswer = Field(description="Bytes of the fullest GPU that the cache may take")
    basis: Basis = Field(description="How the sizes of the cache were obtained, whatever the budget's basis")
    error: str | None = Field(description="Why it does not start, in its own words; null where it starts")
    notes: list[str] = Field(description="What else to know about the figures")
    command: str = Field(description="The command that starts it")
    docker: str = Field(description="The same with the engine's own image")

    @classmethod
    def of(cls, plan: EnginePlan) -> Self:
        """Describe an engine's plan."""
        return cls(**_row(plan))


def _row(plan: EnginePlan) -> dict[str, object]:
    figures = plan.figures
    return {
        "engine": plan.engine,
        "version": plan.version,
        "verdict": verdict_of(plan),
        "gpus": plan.gpus,
        "longest_request": None if figures is None else _length(plan, figures),
        "longest_prompt": None if figures is None else figures.longest_prompt,
        "requests_at_once": None if figures is None else figures.requests,
        "bytes_per_token": None if figures is None else figures.bytes_per_token,
        "cache_bytes": [] if figures is None else list(figures.cache_bytes),
        "unused_bytes": None if figures is None else figures.wasted_bytes,
        "unused": [] if figures is None else [UnusedAnswer.of(each) for each in figures.unused],
        "own_tokens": None if figures is None else figures.tokens,
        "own_tokens_are": "" if figures is None else figures.tokens_are,
        "budget": BytesIntervalAnswer.of(plan.budget),
        "basis": plan.basis,
        "error": plan.refusal,
        "notes": list(plan.notes),
        "command": plan.command,
        "docker": docker_command(plan),
    }


def _length(plan: EnginePlan, figures: CacheFigures) -> LengthAnswer:
    low, high = plan.least, plan.most
    return LengthAnswer(
        tokens=figures.longest_request,
        low=0 if low is None else low.longest_request,
        high=figures.longest_request if high is None else high.longest_request,
    )


class EngineGpuAnswer(EngineRowAnswer):
    """What one engine does on GPUs of one type, with its memory and its log lines."""

    gpu: PlannedGpuAnswer = Field(description="The GPU type")
    memory: list[TermAnswer] = Field(
        description="Terms of the fullest GPU's memory, in order; empty where the cache's bytes were given"
    )
    log_lines: list[str] = Field(description="What the engine logs of its cache, in order")
    kubernetes: str = Field(description="A Deployment that starts it, as YAML")

    @classmethod
    def of_gpu(cls, found: GpuComparison) -> Self:
        """Describe the only engine on a GPU type."""
        plan = found.plans[0]
        return cls(
            **_row(plan),
            gpu=PlannedGpuAnswer.model_validate(found.gpu),
            memory=[TermAnswer.of_term(term) for term in plan.terms],
            log_lines=[] if plan.figures is None else list(plan.figures.log_lines),
            kubernetes=kubernetes_manifest(plan),
        )


class EnginePlanAnswer(Output):
    """What an engine beside vLLM would do with a model on each GPU type."""

    kind: Literal["engine"] = Field(default="engine", description="That one engine beside vLLM was asked")
    model: ModelAnswer | None = Field(
        description="The model and where its config comes from; null for a GGUF file"
    )
    plans: list[EngineGpuAnswer] = Field(
        description="The engine on each GPU type, in the order of the request"
    )

    @classmethod
    def of(cls, compared: EnginesCompared) -> Self:
        """Describe the answers of one engine."""
        return cls(
            model=None if compared.model is None else answer_of(ModelAnswer, compared.model),
            plans=[EngineGpuAnswer.of_gpu(each) for each in compared.gpus],
        )


class GpuRowsAnswer(Output):
    """The engines on GPUs of one type, in the order of the request."""

    gpu: PlannedGpuAnswer = Field(description="The GPU type")
    count: int | None = Field(
        description="GPUs that there are; null where the request does not say: each engine then takes the "
        "fewest on which it starts"
    )
    engines: list[EngineRowAnswer] = Field(description="What each engine does")

    @classmethod
    def of(cls, found: GpuComparison) -> Self:
        """Describe a GPU type."""
        return cls(
            gpu=PlannedGpuAnswer.model_validate(found.gpu),
            count=found.count,
            engines=[EngineRowAnswer.of(plan) for plan in found.plans],
        )


class EngineComparisonAnswer(Output):
    """Several engines side by side."""

    kind: Literal["engines"] = Field(default="engines", description="That several engines were asked")
    model: ModelAnswer | None = Field(
        description="The model and where its config comes from; null for a GGUF file"
    )
    request_tokens: int | None = Field(
        description="Tokens of the requests that `requests_at_once` counts; null without a workload"
    )
    cache_bytes: int | None = Field(
        description="Bytes of each GPU for the cache, as given; null where each engine takes what is left"
    )
    gpus: list[GpuRowsAnswer] = Field(description="The engines on each GPU type")

    @classmethod
    def of(cls, compared: EnginesCompared) -> Self:
        """Describe the answers of several engines."""
        return cls(
            model=None if compared.model is None else answer_of(ModelAnswer, compared.model),
            request_tokens=compared.request_tokens,
            cache_bytes=compared.cache_bytes,
            gpus=[GpuRowsAnswer.of(each) for each in compared.gpus],
        )
