"""Compares the values of a log with the plan, one by one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from service.explanation.comparison import (
    HALF_DIGIT,
    Interval,
    compare,
    compare_words,
    not_compared,
)
from service.explanation.explanation_types import Finding
from service.explanation.planned_start import PlannedStart, available_gib
from service.explanation.speed_findings import speed_findings
from service.kv_cache.kv_cache import KvCache
from service.memory.budget_types import Estimate, MemoryBudget
from service.startup_log.log import LogReading, StartupLog, read_log
from service.units import gib_amount

FIRST_PRINTS: Final[Mapping[str, float]] = {"total_gib": 0.012, "requested_gib": 0.011}
"""GiB by which drivers of one GPU type differ, beside the digits of the log."""
LOADING: Final = (-0.01, 0.02)
"""Share of the weights by which loading differs from them: rests of segments that no tensor keeps, buffers
for steps of another length, tables, the allocator's rounding.
"""
CAPTURED: Final = (-0.5, 4.0)
"""Share of the estimate that captured graphs took in logs: from less than none (memory was freed) to 3.6."""
OWN_DIGITS: Final = 0.001
"""Share of a total that is given as one of the caller's own GPU: it is the log's own number."""
UNSIZED: Final[Mapping[str, str]] = {
    "enable_lora": "adapters take memory beside the weights",
    "lora_modules": "adapters take memory beside the weights",
}
"""Flags with which the memory after loading is not that of the weights alone."""
HALF: Final = 0.5
"""Half of a whole number's last digit."""
OF_BUDGET: Final[Mapping[str, Callable[[MemoryBudget], Estimate]]] = {
    "total_gib": lambda budget: budget.total,
    "requested_gib": lambda budget: budget.requested,
    "model_loading_gib": lambda budget: budget.weights,
    "peak_activation_gib": lambda budget: budget.activation,
    "non_torch_gib": lambda budget: budget.non_torch,
    "cuda_graph_estimate_gib": lambda budget: budget.cuda_graphs,
    "cuda_graph_gib": lambda budget: budget.captured_graphs,
    "available_kv_gib": lambda budget: budget.available_kv,
}
"""Terms of the budget by their names in the log."""
WORDS: Final[Mapping[str, str]] = {
    "total_gib": "the device's total memory as CUDA reports it",
    "requested_gib": "total x --gpu-memory-utilization",
    "model_loading_gib": "the weights of one rank, calculated layer by layer",
    "peak_activation_gib": "an estimate: activations of the profile run are not calculated exactly",
    "non_torch_gib": "an estimate: memory that NCCL and kernels take outside of the allocator",
    "cuda_graph_estimate_gib": "an estimate: memory that the release reserves for CUDA graphs",
    "cuda_graph_gib": "an estimate: memory that CUDA graphs take after capture",
    "available_kv_gib": "an estimate: the requested memory less weights, activations, non-torch and graphs",
}
WITHOUT_GPU: Final = frozenset({"model_loading_gib"})
"""Terms that do not depend on the GPU type."""
BESIDE_WEIGHTS: Final = frozenset({"model_loading_gib", "available_kv_gib"})
"""The weights, and the term that is what they and others leave."""
NOT_THIS_RELEASE: Final = "the release as published does not read this checkpoint: the build is another"
OF_CACHE: Final[Mapping[str, tuple[str, float]]] = {
    "kv_cache_tokens": ("tokens", HALF),
    "max_concurrency": ("max_concurrency", HALF_DIGIT),
    "num_gpu_blocks": ("num_blocks", HALF),
}
"""Figures of the cache by their names in the log, with half of the last printed digit."""
OF_SERVING: Final = ("max_model_len", "max_num_batched_tokens", "max_num_seqs")
FACTS_OF_FAILURE: Final = ("kv_needed_gib", "est_max_model_len")


def findings(log: StartupLog, run: PlannedStart) -> tuple[Finding, ...]:
    """Return the comparison of every value that both log and plan contain, by line of the log."""
    found = (
        *_architecture(log, run),
        *_resolved(log, run),
        *_budget(log, run),
        *_cache(log, run),
        *_shape(log, run),
        *_refusal(log, run),
        *speed_findings(log, run),
    )
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.name)))


def _reading(log: StartupLog, name: str) -> Iterator[LogReading]:
    reading = log.named.get(name)
    if reading is not None:
        yield reading


def _architecture(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    for reading in _reading(log, "architecture"):
        planned = run.request.model.architecture.class_name
        yield compare_words(reading, planned, "the config's class", same=reading.value == planned)
    for reading in _reading(log, "attention_backend"):
        planned_backends = run.free.attention_backends
        if planned_backends and not run.gpu_specified:
            yield not_compared(reading, "the GPU type is not known: give `gpu`")
        elif planned_backends:
            yield compare_words(
                reading,
                ", ".join(planned_backends),
                "the first backend, in the release's order, that supports this model, cache and GPU",
                same=reading.value in planned_backends,
            )


def _resolved(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    if run.start is None:
        return
    for name in OF_SERVING:
        for reading in _reading(log, name):
            value = float(getattr(run.start.engine_config, name))
            why = "given" if getattr(run.request.serve, name) is not None else "the release's default"
            yield compare(reading, Interval(value, value, value, exact=True), why, HALF)


def _without_budget(run: PlannedStart) -> str:
    """Return why a plan has no figures of memory."""
    if run.doubt:
        return f"the plan is of {run.doubt} and does not get as far as the memory"
    return "the planned start fails before memory is known"


def _budget(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    budget = run.free.memory
    for name, term in OF_BUDGET.items():
        for reading in _reading(log, name):
            if budget is None:
                yield not_compared(reading, _without_budget(run))
            elif name not in WITHOUT_GPU and not run.gpu_specified:
                yield not_compared(reading, "the GPU type is not known: give `gpu`")
            elif run.request.serve.pipeline_parallel_size > 1:
                yield not_compared(reading, "the log does not say to which pipeline stage this belongs")
            elif name == "available_kv_gib" and run.request.serve.kv_cache_memory_bytes is not None:
                yield not_compared(reading, "--kv-cache-memory-bytes sets it")
            elif name == "cuda_graph_estimate_gib" and not term(budget).high:
                yield not_compared(reading, "the release measures it and reserves nothing for it by default")
            elif name == "cuda_graph_gib" and float(reading.value) < 0:
                yield not_compared(reading, "the free memory grew while graphs were captured")
            elif (why := _unsized(log, run, name)) is not None:
                yield not_compared(reading, why)
            else:
                yield compare(reading, _allowed(name, Interval.of(term(budget))), WORDS[name])


def _unsized(log: StartupLog, run: PlannedStart, name: str) -> str | None:
    """Return why the weights of a start, or what they leave, are not those of the plan."""
    if name in BESIDE_WEIGHTS and run.start is not None and run.start.unread_weights:
        return NOT_THIS_RELEASE
    unsized = UNSIZED.items() if name == "model_loading_gib" else ()
    return next((why for flag, why in unsized if flag in log.unmodelled), None)


def _allowed(name: str, planned: Interval) -> Interval:
    """Return the interval that a logged term may have: the estimate, and what the log counts beside it."""
    if name == "model_loading_gib":
        below, beyond = (share * planned.value for share in LOADING)
        return replace(planned, low=planned.low + below, high=planned.high + beyond, exact=False)
    if name == "cuda_graph_gib":
        low, high = (share * planned.value for share in CAPTURED)
        return replace(planned, low=min(planned.low, low), high=max(planned.high, high), exact=False)
    if name in FIRST_PRINTS:
        slack = FIRST_PRINTS[name] + OWN_DIGITS * planned.value
        return replace(planned, low=planned.low - slack, high=planned.high + slack)
    return planned


def _cache(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    gib = available_gib(log)
    for name, (field, slack) in OF_CACHE.items():
        for reading in _reading(log, name):
            planned = run.interval(field)
            if name == "max_concurrency" and not run.gpu_specified and _by_batch(run):
                yield not_compared(
                    reading, "it follows from --max-num-batched-tokens, whose default the GPU decides"
                )
            elif planned is not None:
                yield compare(reading, planned, f"from the logged {gib:.2f} GiB", slack)
            elif gib is not None:
                words = (
                    run.judged.error.message
                    if run.judged.error
                    else "the logged memory is that of one pipeline stage"
                )
                yield not_compared(reading, f"the plan has no cache with the logged {gib:.2f} GiB: {words}")
            elif run.free.kv_cache is not None and run.free.memory is not None and run.gpu_specified:
                value = float(getattr(run.free.kv_cache, field))
                yield _from_estimate(reading, value, run.free.memory.available_kv, slack)
            else:
                yield not_compared(
                    reading, "the log does not contain the memory from which this figure follows"
                )


def _by_batch(run: PlannedStart) -> bool:
    """Whether the concurrency follows from the batch, as with sliding windows, and the batch is not given."""
    cache = run.judged.kv_cache
    kinds = {group.kind for group in cache.groups} if cache is not None else set()
    return run.request.serve.max_num_batched_tokens is None and len(kinds) > 1


def _from_estimate(reading: LogReading, value: float, available: Estimate, slack: float) -> Finding:
    """Return the comparison with the budget's interval, to whose memory the figure is proportional."""
    low, high = (value * max(0, size) / available.bytes for size in (available.low, available.high))
    why = f"from an estimate of {gib_amount(available.low)} to {gib_amount(available.high)} GiB"
    return compare(reading, Interval(low, value, high, exact=False), why, slack)


def _shape(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    cache = run.judged.kv_cache or run.free.kv_cache
    for reading in _reading(log, "attention_block_size"):
        size = _attention_block(cache) or run.free.block_size
        if size is not None:
            value = float(size)
            why = "the smallest block whose page holds a recurrent layer's state"
            yield compare(reading, Interval(value, value, value, exact=True), why, HALF)
    for reading in _reading(log, "mamba_pad_pct"):
        percent = None if cache is None else _padding(cache)
        if percent is not None:
            why = "a recurrent layer's state is padded to the attention layers' page"
            yield compare(reading, Interval(percent, percent, percent, exact=True), why)


def _attention_block(cache: KvCache | None) -> int | None:
    """Return the block size of attention layers beside recurrent ones, whose page it fills."""
    if cache is None or not any(group.kind == "mamba" for group in cache.groups):
        return None
    return next((group.block_size for group in cache.groups if group.kind != "mamba"), None)


def _padding(cache: KvCache) -> float | None:
    for group in cache.groups:
        if group.kind == "mamba" and group.unpadded_page_size_bytes:
            return 100 * (group.page_size_bytes / group.unpadded_page_size_bytes - 1)
    return None


def _refusal(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    """Yield the comparison of the numbers in the logged refusal with those in the planned one."""
    error = run.judged.error
    if error is None:
        return
    planned = read_log(f"{error.type}: {error.message}").named
    for name in FACTS_OF_FAILURE:
        for reading in _reading(log, name):
            if name not in planned or not isinstance(planned[name].value, float):
                continue
            value = float(planned[name].value)
            slack = HALF_DIGIT if name.endswith("_gib") else _rounding(run)
            yield compare(
                reading, Interval(value, value, value, exact=True), "in the message of the refusal", slack
            )


def _rounding(run: PlannedStart) -> float:
    """Return the tokens by which an estimated length can differ within the digits of the logged memory."""
    lengths = [
        float(specified.value)
        for candidate in run.pinned or ()
        if candidate.error is not None
        for specified in [
            read_log(f"{candidate.error.type}: {candidate.error.message}").named.get("est_max_model_len")
        ]
        if specified is not None and isinstance(specified.value, float)
    ]
    return max(lengths) - min(lengths) + HALF if lengths else HALF
