"""vLLM's own dry run, in the terms in which engines are compared."""

from collections.abc import Iterator
from dataclasses import replace

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import PlanRequest
from service.engine_plans.engine_plan import VLLM, BudgetTerm, CacheFigures, EnginePlan, Unused
from service.engines.refusal import Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.startup_check import StartupMemory, startup_memories
from service.memory.budget_types import Basis, Estimate

TOKENS_ARE = "tokens that the release logs as GPU KV cache size; what they mean depends on the release"

OWN_LENGTH = (
    "--max-model-len is vLLM's own: other engines are compared with their own length "
    "(-c, --context-length, --max_seq_len), or with the model's"
)


def plan_vllm(
    request: PlanRequest, gpu: GpuType, ranks: int, cache_bytes: int | None, tokens: int | None
) -> EnginePlan:
    """Return vLLM's dry run with these flags on so many GPUs.

    ``cache_bytes``: bytes of each GPU for the cache; ``None``: what is left of it. ``tokens``: length of the
    requests that are counted.
    """
    serve = request.serve
    sharing = ranks // (serve.pipeline_parallel_size * serve.data_parallel_size)
    flags = replace(
        serve,
        tensor_parallel_size=serve.tensor_parallel_size or max(1, sharing),
        kv_cache_dtype=serve.kv_cache_dtype or "auto",
    )
    if cache_bytes is not None:
        flags = replace(flags, kv_cache_memory_bytes=cache_bytes)
    candidate = dry_run(request, flags, request.engine.rules, gpu)
    if flags.max_model_len is None and (shorter := _longest(candidate)):
        candidate = dry_run(request, replace(flags, max_model_len=shorter), request.engine.rules, gpu)
    return _Row(request, gpu, candidate, tokens).plan()


def _longest(candidate: Candidate) -> int:
    """Return the longest request of a start that is refused for the model's own length; 0 for others.

    Other engines shorten their context by themselves.
    """
    start, memory = candidate.start, candidate.memory
    if (
        candidate.error is None
        or candidate.error.stage is not Stage.MEMORY
        or start is None
        or memory is None
    ):
        return 0
    config = start.engine_config
    stages = startup_memories(start.layout, config)
    return min(stage.longest(memory.available_kv.bytes, config.max_model_len) for stage in stages)


class _Row:
    """One candidate of vLLM as a row of the comparison."""

    def __init__(self, request: PlanRequest, gpu: GpuType, candidate: Candidate, tokens: int | None) -> None:
        self.request, self.gpu, self.candidate, self.tokens = request, gpu, candidate, tokens

    def plan(self) -> EnginePlan:
        """Return the plan, with the figures of the lengths that fit."""
        found, memory = self.candidate, self.candidate.memory
        nothing = Estimate(0, 0, 0, Basis.ASSUMED, "not reached")
        budget = nothing if memory is None else memory.available_kv
        terms = () if memory is None else tuple(self._terms())
        started = found.kv_cache is not None or found.start is not None
        uncertain = found.verdict is Verdict.UNCERTAIN and found.error is None
        refusal = None if found.error is None else found.error.message
        return EnginePlan(
            VLLM,
            str(self.request.engine.rules.release),
            found.gpus,
            found.command,
            budget,
            terms,
            self._figures(budget.bytes) if started and refusal is None else None,
            self._figures(budget.low) if started and refusal is None else None,
            self._figures(budget.high) if started and refusal is None else None,
            refusal,
            is_modelled=started or refusal is not None or not uncertain,
            is_doubtful=found.verdict is Verdict.UNCERTAIN,
            notes=found.doubts if self.request.serve.max_model_len is None else (*found.doubts, OWN_LENGTH),
        )

    def _terms(self) -> Iterator[BudgetTerm]:
        memory = self.candidate.memory
        if memory is None:
            return
        for name in ("requested", "weights", "activation", "non_torch", "cuda_graphs"):
            yield BudgetTerm(name, getattr(memory, name))

    def _figures(self, available: int) -> CacheFigures | None:
        found, start = self.candidate, self.candidate.start
        if start is None or found.kv_cache is None:
            return None
        config = start.engine_config
        stages = startup_memories(start.layout, config)
        limit = config.max_model_len
        if self.request.serve.max_model_len is None:
            limit = max(limit, self.request.model.architecture.context.length or 0)
        longest = min(stage.longest(available, limit) for stage in stages)
        if longest <= 0:
            return None
        ranks, cache = found.gpus, found.kv_cache
        stage = max(stages, key=lambda each: each.needed(longest))
        left = max(0, available - stage.needed(longest))
        return CacheFigures(
            tokens=cache.tokens,
            tokens_are=TOKENS_ARE,
            longest_request=longest,
            longest_prompt=longest - 1,
            requests=None if self.tokens is None else self._at_once(self.tokens, longest),
            cache_bytes=(available,) * ranks,
            bytes_per_token=_marginal_bytes(stage, longest) * ranks,
            unused=(Unused("blocks beyond those of the longest request", left * ranks),) if left else (),
            log_lines=cache.log_lines,
        )

    def _at_once(self, tokens: int, longest: int) -> int:
        """Return the requests of a length that fit at once, by a dry run with that length as the maximum."""
        if tokens > longest:
            return 0
        flags = replace(self.candidate.flags, max_model_len=tokens)
        again = dry_run(self.request, flags, self.request.engine.rules, self.gpu)
        return 0 if again.kv_cache is None else int(again.kv_cache.max_concurrency)


def _marginal_bytes(stage: StartupMemory, length: int) -> int:
    """Return the bytes of one more token of a long request on one rank."""
    long, longer = max(1 << 15, length), 2 * max(1 << 15, length)
    return (stage.needed(longer) - stage.needed(long)) // (longer - long)
