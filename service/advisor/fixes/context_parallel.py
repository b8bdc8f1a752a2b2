"""Decode context parallelism: ranks that would store the same keys and values share a request's tokens."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.ranking.service_level import Service, completed_of, service_of
from service.advisor.request.plan_request import PlanRequest
from service.architecture.layers.attention import Attention
from service.architecture.model import ModelArchitecture
from service.changed import changed
from service.engine_config.parallel_checks import check_context_parallel
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.rules.parallelism import ParallelismRules
from service.gpus.gpu_type import GpuType

SIZES: Final = (2, 4, 8, 16)
FLAG: Final = "--decode-context-parallel-size"


def shared_sizes(
    architecture: ModelArchitecture, flags: ServeFlags, rules: ParallelismRules
) -> Iterator[int]:
    """Yield the larger sizes with which ranks share tokens that they would all store, the smallest first.

    Before the engine checks the heads (vLLM 0.10.2 and 0.11.0) it knows this of MLA alone.
    """
    mixer, ranks = architecture.lead_attention, flags.tensor_parallel_size or 1
    if mixer is None or (isinstance(mixer, Attention) and not rules.context_parallel_refusals):
        return
    for size in SIZES:
        if ranks % size or size <= flags.decode_context_parallel_size:
            continue
        try:
            check_context_parallel(architecture, ranks, size, rules)
        except EngineRefusal:
            continue
        yield size


def shared_tokens(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> str:
    """Say how much more of the workload ranks serve that share tokens; empty where a start serves it all.

    The ranks exchange more at every step, so nothing is said where nothing is lacking.
    """
    if request.is_survey or service_of(best, request.workload) in {Service.WHOLE, Service.NONE}:
        return ""
    words, most = "", completed_of(best)
    for size in shared_sizes(request.model.architecture, best.flags, best.rules.parallelism):
        flags = replace(best.flags, decode_context_parallel_size=size)
        after = changed(
            dry_run(request, flags, best.rules, gpu, steps.under(best.rules)), replicas=best.replicas
        )
        if after.may_serve and completed_of(after) > most:
            words, most = _sentence(best, after, size), completed_of(after)
        if service_of(after, request.workload) is Service.WHOLE:
            break
    return words


def _sentence(best: Candidate, after: Candidate, size: int) -> str:
    mixer, ranks = best.model.architecture.lead_attention, best.tensor_parallel_size
    copies = ranks // mixer.num_kv_heads if isinstance(mixer, Attention) else ranks
    return (
        f"Every key and value is stored on {copies} of the {ranks} ranks. With {FLAG} {size} ranks share the "
        f"tokens: {completed_of(after):,} requests run together without preemption, not "
        f"{completed_of(best):,}, but the ranks exchange more at every step."
    )
