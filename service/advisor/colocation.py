"""Several engines on one GPU, started one after another: each finds what the earlier ones left free.

The engine's own rule: when it starts, it refuses if less memory is free on the device than its
``--gpu-memory-utilization`` of the total, whatever the memory is used for.
Source: vLLM 0.19.0 and 0.33.0, v1/worker/utils.py request_memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import PlanRequest
from service.gpus.gpu_type import GpuType
from service.memory.budget_types import Basis, Estimate, MemoryBudget
from service.memory.constants import constants_at
from service.memory.interval import around, from_range, total, worst_basis
from service.units import MIB, gib_text

PlanOne: TypeAlias = Callable[[PlanRequest], Candidate]
"""Plans one start on one GPU type, with the engine's defaults for what is left out."""

LATE_BYTES: Final = 512 * MIB
"""At most what CUDA loads after the engine measured its memory, beside the context. Assumed from one start
on a card of 22 GiB: nvidia-smi showed 15.48 GiB, 1.04 GiB more than its log explains, context included."""
ONE_AFTER_ANOTHER: Final = (
    "Start each engine when the one before it is ready: an engine measures the free memory while it starts, "
    "and fails if another process frees memory meanwhile."
)
"""Source: vLLM 0.19.0, utils/mem_utils.py memory_profiling; gpu_worker.py: "Error in memory profiling"."""


@dataclass(frozen=True, slots=True)
class SharedStart:
    """One engine of several."""

    request: PlanRequest
    """For one GPU type, without search."""
    devices: tuple[str, ...] = ()
    """GPUs that it sees, in their order; empty for all, counted from 0."""
    pool: str = ""
    """What stands before their names where a scheduler gives the start GPUs of its own."""

    def devices_of(self, gpus: int) -> tuple[str, ...]:
        """Return the GPUs that it takes: the first of those that it sees."""
        names = self.devices[:gpus] if self.devices else tuple(map(str, range(gpus)))
        return tuple(f"{self.pool}{name}" for name in names)


@dataclass(frozen=True, slots=True)
class SharedEngine:
    """One engine of several, planned in its turn."""

    request: PlanRequest
    candidate: Candidate
    """With the middle of what is free; its verdict holds for all of what may be free."""
    devices: tuple[str, ...]
    """GPUs that it takes."""
    beside: tuple[int, ...]
    """Indices of the engines that hold memory of its GPUs before it."""
    free: Estimate | None
    """Bytes that it finds free on the fullest of its GPUs; ``None`` where its memory is not planned."""
    held: Estimate | None
    """Bytes of each GPU that it holds once it is ready: at most what a step at full length leaves it with;
    ``None`` where it does not start."""


@dataclass(frozen=True, slots=True)
class Colocation:
    """Several engines on the same GPUs."""

    gpu: GpuType
    engines: tuple[SharedEngine, ...]
    remedy: str = ""
    """Shares with which all of them start, where one finds too little memory beside others."""

    @property
    def verdict(self) -> Verdict:
        """Whether all of them start."""
        verdicts = {each.candidate.verdict for each in self.engines}
        order = (Verdict.REFUSED, Verdict.UNCERTAIN)
        return next((each for each in order if each in verdicts), Verdict.STARTS)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What can go wrong between the engines."""
        shares = any(each.beside for each in self.engines)
        remedy = (self.remedy,) if self.remedy else ()
        return (*remedy, *((ONE_AFTER_ANOTHER,) if shares else ()), *_overcommitted(self.engines))


def colocated(starts: Sequence[SharedStart], plan: PlanOne) -> Colocation:
    """Plan engines in their order, each with what those before it left free.

    Every request is for the same GPU type. An engine that does not start holds nothing.
    """
    engines: list[SharedEngine] = []
    for start in starts:
        engines.append(_planned(start, engines, plan))
    return Colocation(starts[0].request.gpus[0], tuple(engines))


def overfull(engines: Sequence[SharedEngine]) -> Iterator[tuple[str, int, int]]:
    """Yield GPUs that may run out of memory under load: what the engines hold at most, and what there is."""
    for device in dict.fromkeys(each for engine in engines for each in engine.devices):
        held = [engine.held for engine in engines if device in engine.devices and engine.held is not None]
        memory = next((each.candidate.memory for each in engines if device in each.devices), None)
        most = sum(each.high for each in held)
        if len(held) > 1 and memory is not None and most > memory.total.bytes:
            yield device, most, memory.total.bytes


def _overcommitted(engines: Sequence[SharedEngine]) -> Iterator[str]:
    """Yield which GPUs may run out of memory under load, though every engine starts."""
    for device, most, total_bytes in overfull(engines):
        yield (
            f"GPU {device}: at full load the engines hold up to {gib_text(most)} of "
            f"{gib_text(total_bytes)} GiB, so one of them may run out of memory. A lower "
            "--gpu-memory-utilization leaves more."
        )


def _planned(start: SharedStart, earlier: Sequence[SharedEngine], plan: PlanOne) -> SharedEngine:
    request = start.request
    alone = plan(request)
    devices = start.devices_of(alone.gpus)
    beside = tuple(
        index
        for index, each in enumerate(earlier)
        if each.held is not None and not {*devices}.isdisjoint(each.devices)
    )
    free = None if alone.memory is None else alone.memory.free
    if beside and free is not None:
        free = _least_free(free, devices, earlier)
        alone = _judged(request, free, plan)
    return SharedEngine(request, alone, devices, beside, free, _held(alone))


def _least_free(free: Estimate, devices: tuple[str, ...], earlier: Sequence[SharedEngine]) -> Estimate:
    """Return what is free on that of several GPUs on which the earlier engines hold the most."""
    held_on = (
        total(
            [each.held for each in earlier if each.held is not None and device in each.devices],
            "engines that started before",
        )
        for device in devices
        if any(each.held is not None and device in each.devices for each in earlier)
    )
    most = max(held_on, key=lambda each: each.bytes)
    source = f"{free.source}; less what the engines before it hold"
    low, high = max(0, free.low - most.high), max(0, free.high - most.low)
    return around(max(0, free.bytes - most.bytes), low, high, worst_basis((free, most)), source)


def _judged(request: PlanRequest, free: Estimate, plan: PlanOne) -> Candidate:
    """Return the start with the middle of what is free; uncertain where the bounds give another verdict."""
    sizes = dict.fromkeys((free.bytes, free.low, free.high))
    found = {size: plan(replace(request, free_memory_bytes=size)) for size in sizes}
    verdicts = {each.verdict for each in found.values()}
    middle = _with_sure_fixes(found[free.bytes], found[free.low])
    if len(verdicts) == 1:
        return middle
    memory = middle.memory
    requested = "" if memory is None else f", and it requests {gib_text(memory.requested.bytes)} GiB"
    doubt = (
        f"Whether it starts depends on what the engines before it hold: {gib_text(free.low)} to "
        f"{gib_text(free.high)} GiB are free{requested}."
    )
    return replace(middle, verdict=Verdict.UNCERTAIN, doubts=(*middle.doubts, doubt))


def _with_sure_fixes(middle: Candidate, least: Candidate) -> Candidate:
    """Return a refused start with the fixes that hold with the least free; its own others are uncertain."""
    if middle.error is None:
        return middle
    sure = () if least.error is None else least.error.fixes
    changes = {fix.change for fix in sure}
    others = (
        replace(fix, verdict=Verdict.UNCERTAIN) for fix in middle.error.fixes if fix.change not in changes
    )
    return replace(middle, error=replace(middle.error, fixes=(*sure, *others)))


def _held(candidate: Candidate) -> Estimate | None:
    """Return what a started engine holds of each of its GPUs; ``None`` where it does not start.

    A cache that the engine sizes fills the requested share, less the activations: those come back when
    requests run, and PyTorch keeps them. CUDA graphs that the release does not set memory aside for come on
    top, and so does the CUDA context, which the engine does not count.
    """
    memory, cache = candidate.memory, candidate.kv_cache
    if candidate.verdict is Verdict.REFUSED or memory is None or cache is None:
        return None
    device = constants_at(candidate.rules.release).device
    ranks = device.context_mib.several if candidate.gpus > 1 else device.context_mib.one
    context = from_range(ranks, Basis.CALIBRATED, device.sources["context_mib"])
    stored = cache.num_blocks * cache.largest_bytes_per_block
    if memory.available_kv.basis is Basis.GIVEN or candidate.flags.num_gpu_blocks_override is not None:
        return _with_given_cache(memory, context, stored)
    beyond = max(0, memory.captured_graphs.bytes - memory.cuda_graphs.bytes)
    most_beyond = max(0, memory.captured_graphs.high - memory.cuda_graphs.low)
    ready = memory.requested.bytes - memory.activation.bytes - memory.cuda_graphs.bytes
    ready += memory.captured_graphs.bytes
    least = memory.requested.low - memory.activation.high - memory.cuda_graphs.high
    least += memory.captured_graphs.low
    return around(
        context.bytes + ready,
        context.low + max(0, min(least, ready)),
        context.high + LATE_BYTES + max(memory.requested.high + most_beyond, ready + beyond),
        Basis.CALIBRATED,
        "the requested share, the CUDA context, and graphs beyond the share; less activations before load",
    )


def _with_given_cache(memory: MemoryBudget, context: Estimate, stored: int) -> Estimate:
    terms = (context, memory.weights, memory.non_torch, memory.captured_graphs)
    ready, least, most = (
        sum(getattr(term, bound) for term in terms) + stored for bound in ("bytes", "low", "high")
    )
    source = "weights, the given cache, what libraries take, CUDA graphs and the CUDA context"
    return around(ready, least, most + memory.activation.high + LATE_BYTES, Basis.CALIBRATED, source)
