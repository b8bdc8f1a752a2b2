"""Writes a plan as JSON straight from the core's values.

``PlanAnswer`` says which members an answer has, and ``PlanAnswer.of`` how each is found. Building its models
for every answer takes longer than the plan of one candidate, so the same members are collected here as plain
values, in the order of the schema. Parts that few answers have are written by the models. A test compares the
bytes.
"""

from collections import Counter
from functools import lru_cache
from typing import Any, Final

import orjson

from service.advisor.concurrency_curve import concurrency_curve
from service.advisor.fixes import nearest_refused
from service.advisor.plan_request import Model
from service.advisor.plan_types import Admission, Candidate, GpuPlan, Plan, Verdict
from service.application.schemas.admission import AdmissionBlocksAnswer
from service.application.schemas.architecture import ArchitectureAnswer
from service.application.schemas.base import Output
from service.application.schemas.candidate import CurvePointAnswer, LeverAnswer, QualityAnswer
from service.application.schemas.command import CommandAnswer, FlagsAnswer
from service.application.schemas.hardware import GpuAnswer, PlannedGpuAnswer
from service.application.schemas.kv_cache import GroupAnswer, PrefixReuseAnswer, WasteAnswer
from service.application.schemas.memory import HOST_TERMS, EvidenceAnswer
from service.application.schemas.parts import PLAIN, Parts, Texts
from service.application.schemas.plain_values import plain
from service.application.schemas.plan import EngineAnswer, GpuCountAnswer, PlanAnswer
from service.application.schemas.refusal import ErrorAnswer
from service.application.schemas.speed import CostAnswer, SpeedAnswer
from service.application.schemas.upgrade import UpgradeAnswer
from service.architecture.model import ModelArchitecture
from service.kv_cache.kv_cache import KvCache
from service.memory.budget_types import Estimate, MemoryBudget, WeightsEstimate

ARCHITECTURES: Final = 64
"""Architectures whose JSON is stored."""
_READ_TERMS: Final = (
    "total",
    "requested",
    "activation",
    "non_torch",
    "cuda_graphs",
    "captured_graphs",
    "weights",
    "available_kv",
    "adapters",
)
_WRITTEN_TERMS: Final = (
    "total",
    "requested",
    "weights",
    "activation",
    "non_torch",
    "cuda_graphs",
    "captured_graphs",
    "available_kv",
    "adapters",
)


def written_plan(plan: Plan, parts: Parts = PLAIN) -> bytes:
    """Return the JSON of a plan, one GPU type at a time: other threads run between two of them."""
    sources = Texts("s")
    try:
        gpus = [orjson.Fragment(orjson.dumps(_gpu(gpu, parts, sources))) for gpu in plan.plans]
        return orjson.dumps(_around(plan, gpus, sources))
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return PlanAnswer.of(plan, parts).model_dump_json().encode()


def _model_json(document: Output) -> orjson.Fragment:
    return orjson.Fragment(document.model_dump_json())


def _around(plan: Plan, gpus: list[orjson.Fragment], sources: Texts) -> dict[str, Any]:
    refusal, command = plan.refusal, plan.command
    return {
        "verdict": plan.verdict,
        "outcome": _model_json(GpuCountAnswer.of(plan.counts)),
        "common_refusal": None if refusal is None else plain(ErrorAnswer, refusal),
        "model": _model(plan.model),
        "engine": plain(EngineAnswer, plan.engine),
        "command": None if command is None else _model_json(CommandAnswer.of(command)),
        "flags": None if command is None else _model_json(FlagsAnswer.of(command)),
        "plans": gpus,
        "upgrades": [plain(UpgradeAnswer, step) for step in plan.upgrades],
        "sources": sources.by_id(),
    }


def _model(model: Model) -> dict[str, Any]:
    return {
        "id": model.id,
        "revision": model.revision,
        "source": model.source,
        "architecture": orjson.Fragment(_architecture(model.architecture)),
        "checkpoint_bytes": model.checkpoint_bytes,
        "note": model.note,
        "stale": model.stale,
    }


@lru_cache(maxsize=ARCHITECTURES)
def _architecture(architecture: ModelArchitecture) -> str:
    return ArchitectureAnswer.of(architecture).model_dump_json()


def _gpu(plan: GpuPlan, parts: Parts, sources: Texts) -> dict[str, Any]:
    best, tried = plan.recommended, Counter(each.verdict for each in plan.candidates)
    near = None if best is not None else nearest_refused(plan.candidates) or plan.candidates[0]
    values: dict[str, Any] = {
        "gpu": plain(PlannedGpuAnswer, plan.gpu),
        **({} if plan.count is None else {"count": plan.count}),
        "verdict": plan.verdict,
        "recommended": None if best is None else _candidate(best, parts, sources),
        "nearest_refused": None if near is None else _candidate(near, parts, sources),
        "reason": plan.reason,
        "step": plan.step,
        "tried": {
            verdict.value: tried[verdict] for verdict in (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)
        },
    }
    if parts.candidates:
        values["candidates"] = [_candidate(each, parts, sources) for each in plan.candidates]
    if parts.levers:
        values["levers"] = [plain(LeverAnswer, each) for each in plan.levers]
    if parts.gpu:
        values["gpu_type"] = plain(GpuAnswer, plan.gpu)
    return values


def _candidate(candidate: Candidate, parts: Parts, sources: Texts) -> dict[str, Any]:
    cache, memory, admission = candidate.kv_cache, candidate.memory, candidate.admission
    error, notes = candidate.error, candidate.notes
    values = {
        "verdict": candidate.verdict,
        "starts": cache is not None,
        "gpus": candidate.gpus,
        **({"replicas": candidate.replicas} if candidate.replicas > 1 else {}),
        "tensor_parallel_size": candidate.tensor_parallel_size,
        "pipeline_parallel_size": candidate.pipeline_parallel_size,
        "data_parallel_size": candidate.data_parallel_size,
        **({"enable_expert_parallel": True} if candidate.enable_expert_parallel else {}),
        **_of_all_engines(candidate),
        "kv_cache_dtype": candidate.kv_cache_dtype,
        "resolved_kv_cache_dtype": candidate.resolved_kv_cache_dtype,
        "block_size": candidate.block_size,
        "attention_backend": next(iter(candidate.attention_backends), None),
        "command": candidate.command,
        "error": None if error is None else plain(ErrorAnswer, error),
        "memory": None if memory is None else _memory(memory, parts, sources),
        "kv_cache": None if cache is None else _cache(cache, parts),
        "admission": None if admission is None else _admission(admission, parts),
        **({} if candidate.speed is None else {"speed": plain(SpeedAnswer, candidate.speed)}),
        **({} if candidate.cost is None else {"cost": plain(CostAnswer, candidate.cost)}),
        "warnings": [words for words in candidate.warnings if words not in notes],
    }
    if parts.cache:
        values |= _cache_part(candidate)
    if parts.curve and (curve := concurrency_curve(candidate)):
        values["curve"] = [plain(CurvePointAnswer, point) for point in curve]
    return values


def _of_all_engines(candidate: Candidate) -> dict[str, Any]:
    tokens, requests = candidate.all_tokens, candidate.all_requests
    if candidate.engines == 1 or tokens is None or requests is None:
        return {}
    return {"all_tokens": tokens, "all_requests": float(requests)}


def _cache_part(candidate: Candidate) -> dict[str, Any]:
    waste, reuse = candidate.waste, candidate.prefix_reuse
    values: dict[str, Any] = {} if reuse is None else {"prefix_reuse": plain(PrefixReuseAnswer, reuse)}
    values["notes"] = candidate.notes
    values["attention_backends"] = candidate.attention_backends
    values["quality"] = plain(QualityAnswer, candidate.quality)
    return values if waste is None else {**values, "waste": plain(WasteAnswer, waste)}


def _memory(budget: MemoryBudget, parts: Parts, sources: Texts) -> dict[str, Any]:
    if not parts.memory:
        available = budget.available_kv
        return {
            "total": {"bytes": budget.total.bytes},
            "requested": {"bytes": budget.requested.bytes},
            "weights": {"bytes": budget.weights.bytes},
            "activation": {"bytes": budget.activation.bytes},
            "non_torch": {"bytes": budget.non_torch.bytes},
            "cuda_graphs": {"bytes": budget.cuda_graphs.bytes},
            "captured_graphs": {"bytes": budget.captured_graphs.bytes},
            "available_kv": {"bytes": available.bytes, "low": available.low, "high": available.high},
        }
    # The ids of texts follow the order in which ``MemoryAnswer.of`` reads the terms.
    found = {term: _estimate(getattr(budget, term), sources) for term in _READ_TERMS}
    host = {term: _estimate(getattr(budget.host, term), sources) for term in HOST_TERMS}
    return {**{term: found[term] for term in _WRITTEN_TERMS}, "host": host}


def _estimate(estimate: Estimate, sources: Texts) -> dict[str, Any]:
    values: dict[str, Any] = {
        "bytes": estimate.bytes,
        "low": estimate.low,
        "high": estimate.high,
        "basis": estimate.basis,
        "source": sources.id_of(estimate.source),
    }
    if estimate.evidence is not None:
        values["evidence"] = plain(EvidenceAnswer, estimate.evidence)
    if isinstance(estimate, WeightsEstimate):
        values["parameter_bytes"] = estimate.parameter_bytes
    return values


def _cache(cache: KvCache, parts: Parts) -> dict[str, Any]:
    values: dict[str, Any] = {
        "available_bytes": cache.available_bytes,
        "num_blocks": cache.num_blocks,
        "bytes_per_block": cache.bytes_per_block,
        "tokens": cache.tokens,
        "max_concurrency": float(cache.max_concurrency),
        "max_model_len": cache.max_model_len,
        "estimated_max_model_len": cache.estimated_max_model_len,
    }
    if parts.cache:
        values["log_lines"] = cache.log_lines
        values["groups"] = [plain(GroupAnswer, group) for group in cache.groups]
    return values


def _admission(admission: Admission, parts: Parts) -> dict[str, Any]:
    values: dict[str, Any] = {
        "admitted_at_once": admission.admitted_at_once,
        "completed_without_preemption": admission.completed_without_preemption,
        "waits_for": admission.waits_for,
    }
    if parts.cache:
        values["explanation"] = admission.explanation
        values["blocks"] = plain(AdmissionBlocksAnswer, admission)
    return values
