"""Levers: single changes to a candidate, with gain and cost, each found by a dry run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from service.advisor.checkpoint_layouts import MOST_NAMED, online_quality, stored_so
from service.advisor.dry_run import PlainSteps, dry_run
from service.advisor.engine_start import Start
from service.advisor.engine_steps import EngineSteps
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Candidate, Lever
from service.engine_config.cache_dtype import canonical
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import (
    PATCHES,
    RELEASES,
    UnavailableFlag,
    check_flags,
    rules_for,
    with_patch,
)
from service.gpus.gpu_type import GpuType

COSTS: Final = {
    "max_num_batched_tokens": "prompts are prefilled in other steps: smaller ones delay the first token",
    "max_num_seqs": "fewer requests run at the same time",
    "gpu_memory_utilization": "less memory is left for other processes and for unexpected allocations",
    "max_model_len": "longer requests are refused",
    "tensor_parallel_size": "another number of GPUs, and communication between them",
    "async_scheduling": "the GPU waits for the scheduler between steps: fewer tokens per second",
    "enable_prefix_caching": "a prefix that several prompts share is computed for each of them",
    "enforce_eager": "no CUDA graphs: slower steps, most of all with small batches",
    "block_size": "prefixes are cached in units of another size; fewer attention backends may support it",
    "language_model_only": "no images, video or audio in requests",
}
"""What a change of a flag costs. The cost of a cache dtype is in ``engines/cache_quality.toml``."""
CACHING_COST: Final = "every full block is hashed; recurrent layers, if there are any, store more states"
BATCHES: Final = (2048, 4096, 8192)
LEAST_GAIN: Final = 0.005
"""Requests of the maximum length: less is printed as 0.00."""
UTILIZATION: Final = 0.95
BLOCKS: Final = (16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class LeverChange:
    """One change, as flags, as another engine or as another checkpoint of the model."""

    flag: str | None
    value: Any = None
    version: str | None = None
    patch: str | None = None
    checkpoint: str | None = None


def levers(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> tuple[Lever, ...]:
    """Return the changes that have an effect, by the quality that they are published to lose, none first.

    Of changes that lose as much the one comes first with which most requests of the workload finish without
    preemption, then that which admits most, then that with the highest concurrency at one maximum length.

    ``best`` is a candidate of this request on this GPU type. Without a cache it has no levers.
    """
    start = best.start
    if best.kv_cache is None or start is None:
        return ()
    found = (_lever(change, request, best, steps, gpu) for change in _changes(request, start, best))
    length = best.kv_cache.max_model_len
    gaining = (lever for lever in found if lever is not None and _gains(lever, length))
    return tuple(_one_of_each_format(sorted(gaining, key=lambda lever: _order(lever, length))))


def _gains(lever: Lever, length: int) -> bool:
    """Whether a change lets more requests through, or makes room that two decimals show."""
    requests = (lever.completed_without_preemption or 0, lever.admitted_at_once or 0)
    return max(requests) > 0 or _concurrency(lever, length) >= LEAST_GAIN


def _concurrency(lever: Lever, length: int) -> float:
    """Return the requests of one length that a change adds.

    A shorter maximum length divides the same cache by less: what it adds is what its cache holds more.
    """
    return lever.tokens / length if lever.flag == "max_model_len" else lever.max_concurrency


def _one_of_each_format(levers: Iterable[Lever]) -> Iterator[Lever]:
    """Yield levers without other names of a cache dtype that was named before."""
    stored = set()
    for lever in levers:
        if lever.flag == "kv_cache_dtype":
            name = canonical(str(lever.value))
            if name in stored:
                continue
            stored.add(name)
        yield lever


def _order(lever: Lever, length: int) -> tuple[float, ...]:
    return (
        lever.loss,
        -(lever.completed_without_preemption or 0),
        -(lever.admitted_at_once or 0),
        -_concurrency(lever, length),
        -lever.available_bytes,
    )


def _lever(
    change: LeverChange, request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType
) -> Lever | None:
    flags, rules = best.flags, steps.rules
    if change.checkpoint is not None:
        return _checkpoint_lever(change.checkpoint, request, best, rules, gpu)
    if change.flag is not None:
        flags = replace(best.flags, **{change.flag: change.value})
    elif change.patch is not None:
        rules = with_patch(rules, change.patch)
    else:
        rules = rules_for(RELEASES[-1], request.engine.patches)
    try:
        check_flags(flags, rules.release)
    except UnavailableFlag:
        return None
    after = dry_run(request, flags, rules, gpu, steps.under(rules))
    if not after.may_serve or after.kv_cache is None or after.start is None:
        return None
    if change.flag == "kv_cache_dtype" and after.start.names_other_floats:
        return None
    return _noticed(_effect(change, best, after))


def _checkpoint_lever(
    checkpoint: str, request: PlanRequest, best: Candidate, rules: EngineRules, gpu: GpuType
) -> Lever | None:
    """Return what the weights of another checkpoint give, in the layout that its name stands for."""
    found = stored_so(request.model, checkpoint)
    if found is None:
        return None
    model, layout = found
    after = dry_run(replace(request, model=model), best.flags, rules, gpu, PlainSteps(model, rules))
    if not after.may_serve or after.kv_cache is None:
        return None
    loss, effect, source = layout.quality.loss, layout.quality.effect, layout.quality.source
    cost = (
        f"published effect on quality: {effect} ({source}); planned from the layout that its name stands for"
    )
    lever = _effect(LeverChange(None, checkpoint=checkpoint), best, after)
    return _noticed(replace(lever, loss=lever.loss + loss, cost=cost))


def _noticed(lever: Lever) -> Lever | None:
    """Return a lever that changes a figure."""
    figures = (lever.tokens, lever.available_bytes, lever.max_concurrency, lever.estimated_max_model_len)
    requests = (lever.admitted_at_once, lever.completed_without_preemption)
    return lever if any((*figures, *requests)) else None


def _effect(change: LeverChange, before: Candidate, after: Candidate) -> Lever:
    one, other = before.kv_cache, after.kv_cache
    if one is None or other is None:
        raise ValueError("a lever compares two caches")
    admitted = completed = None
    if before.admission is not None and after.admission is not None:
        admitted = after.admission.admitted_at_once - before.admission.admitted_at_once
        completed = (
            after.admission.completed_without_preemption - before.admission.completed_without_preemption
        )
    return Lever(
        change=_words(change),
        flag=change.flag,
        value=change.value,
        version=change.version,
        patch=change.patch,
        checkpoint=change.checkpoint,
        verdict=after.verdict,
        tokens=other.tokens - one.tokens,
        available_bytes=other.available_bytes - one.available_bytes,
        max_concurrency=other.max_concurrency - one.max_concurrency,
        estimated_max_model_len=other.estimated_max_model_len - one.estimated_max_model_len,
        admitted_at_once=admitted,
        completed_without_preemption=completed,
        loss=max(0, after.quality.loss - before.quality.loss)
        + (online_quality().loss if change.flag == "quantization" else 0),
        cost=_cost(change, after),
    )


def _words(change: LeverChange) -> str:
    if change.flag is not None:
        option = change.flag.replace("_", "-")
        if isinstance(change.value, bool):
            return f"--{option}" if change.value else f"--no-{option}"
        return f"--{option} {change.value}"
    if change.checkpoint is not None:
        return f"checkpoint {change.checkpoint}"
    if change.patch is not None:
        return f"patch {change.patch} ({PATCHES[change.patch].status})"
    return f"vLLM {change.version}"


def _cost(change: LeverChange, after: Candidate) -> str:
    if change.flag == "kv_cache_dtype":
        quality = after.quality
        return f"published effect on quality: {quality.effect} ({quality.source})"
    if change.flag == "quantization":
        weights = online_quality()
        return (
            f"published effect on quality: {weights.effect} ({weights.source}); the start still reads the "
            "16-bit weights"
        )
    if change.flag == "enable_prefix_caching" and change.value:
        return CACHING_COST
    if change.flag is not None:
        return COSTS[change.flag]
    if change.patch is not None:
        return "the engine must be built from source, with a change that is in no release"
    return "another release: other defaults, and its other changes"


def _changes(request: PlanRequest, start: Start, best: Candidate) -> Iterator[LeverChange]:
    """Yield the changes that are worth a dry run, given the configuration of the start."""
    yield from _batch_changes(request, start)
    yield from _memory_changes(request, start, best)
    yield from _weight_changes(request, best)
    for dtype in start.engine_config.rules.dtypes.accepted:
        if dtype != best.kv_cache_dtype:
            yield LeverChange("kv_cache_dtype", dtype)
    for size in (best.tensor_parallel_size // 2, best.tensor_parallel_size * 2):
        if size:
            yield LeverChange("tensor_parallel_size", size)
    yield from _switches(start, best.flags)
    for block in BLOCKS:
        if block != best.block_size:
            yield LeverChange("block_size", block)
    if start.engine_config.release != RELEASES[-1]:
        yield LeverChange(None, version=str(RELEASES[-1]))
    for patch in PATCHES:
        if patch not in request.engine.patches:
            yield LeverChange(None, patch=patch)


def _batch_changes(request: PlanRequest, start: Start) -> Iterator[LeverChange]:
    engine_config, workload = start.engine_config, request.workload
    batch, seqs, length = (
        engine_config.max_num_batched_tokens,
        engine_config.max_num_seqs,
        engine_config.max_model_len,
    )
    for tokens in sorted({*BATCHES, batch // 2, batch * 2} - {batch}):
        yield LeverChange("max_num_batched_tokens", tokens)
    wanted = {seqs // 2, *(() if workload is None else (workload.concurrent_requests,))}
    for number in sorted(wanted - {0, seqs}):
        yield LeverChange("max_num_seqs", number)
    needed = () if workload is None else (workload.prompt_tokens + workload.output_tokens,)
    for tokens in sorted({length // 2, *needed}):
        if 0 < tokens < length:
            yield LeverChange("max_model_len", tokens)


def _memory_changes(request: PlanRequest, start: Start, best: Candidate) -> Iterator[LeverChange]:
    given = best.flags.kv_cache_memory_bytes is not None or best.flags.num_gpu_blocks_override is not None
    if not given and start.engine_config.gpu_memory_utilization < UTILIZATION:
        yield LeverChange("gpu_memory_utilization", UTILIZATION)
    if request.model.architecture.media.towers and not best.flags.language_model_only:
        yield LeverChange("language_model_only", value=True)


def _weight_changes(request: PlanRequest, best: Candidate) -> Iterator[LeverChange]:
    """Yield quantized weights: made while they load, and those of published checkpoints."""
    if not request.model.architecture.stores_16_bits or best.flags.quantization is not None:
        return
    yield LeverChange("quantization", best.rules.checkpoints.online_fp8)
    for checkpoint in request.siblings[:MOST_NAMED]:
        yield LeverChange(None, checkpoint=checkpoint)


def _switches(start: Start, flags: ServeFlags) -> Iterator[LeverChange]:
    engine_config = start.engine_config
    if engine_config.concurrent_batches > engine_config.pipeline_parallel_size:
        yield LeverChange("async_scheduling", value=False)
    yield LeverChange("enable_prefix_caching", value=not engine_config.enable_prefix_caching)
    if not flags.enforce_eager:
        yield LeverChange("enforce_eager", value=True)
