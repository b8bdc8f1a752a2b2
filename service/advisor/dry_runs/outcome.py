"""The outcome of a start once its memory budget is known: its cache, its requests and its verdict."""

from dataclasses import dataclass, replace
from typing import Final

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.refusal import Refusal
from service.advisor.candidates.runtime_headroom import beyond_memory, no_room_for_graphs
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.engine_steps import StartedEngine
from service.advisor.dry_runs.free_memory import hardly_free, too_little_free
from service.architecture.model import ModelArchitecture
from service.engine_config.offload_checks import check_groups
from service.engines.engine_rules import EngineRules
from service.engines.refusal import EngineRefusal, Stage
from service.kv_cache.capture import capture_failure
from service.kv_cache.kv_cache import KvCache
from service.memory.budget_types import Basis, Estimate, MemoryBudget
from service.units import gib_text

MEMORY_DECIDES: Final = "Whether it starts depends on memory"
FAILS_IN_CAPTURE: Final = "The engine sets up this cache, then fails when it captures CUDA graphs:"
MAY_FAIL_IN_CAPTURE: Final = (
    "With the least memory that is expected for its cache, the engine fails when it captures CUDA graphs:"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engine does once its memory is known."""

    verdict: Verdict
    error: Refusal | None = None
    cache: KvCache | None = None
    doubts: tuple[str, ...] = ()
    fails: bool = False


def outcome_of(
    started: StartedEngine, budget: MemoryBudget, architecture: ModelArchitecture, rules: EngineRules
) -> Outcome:
    """Return what the engine does with its memory, in its order; ``architecture``: the model as requested."""
    outcome = (
        refused_for_memory(started, budget) or refused_at_setup(started, budget) or sized(started, budget)
    )
    outcome = after_capture(outcome, started, budget)
    outcome = with_quantization_warning(outcome, architecture)
    return with_release_doubt(outcome, rules)


def is_sure_to_fit(started: StartedEngine, budget: MemoryBudget) -> bool:
    """Whether a request of the maximum length fits for sure: such starts differ in their requests alone."""
    return not started.start.engine_config.fit_max_model_len and started.sizing.fits(budget.available_kv.low)


def refused_for_memory(started: StartedEngine, budget: MemoryBudget) -> Outcome | None:
    """Return the refusal of an engine that finds too little free memory, or no room for its weights."""
    engine_config = started.start.engine_config
    refusal = too_little_free(budget, engine_config.rules.capacity, engine_config.gpu_memory_utilization)
    if refusal is not None:
        return Outcome(Verdict.REFUSED, refusal)
    if started.flags.kv_cache_memory_bytes is None and budget.weights.low > budget.total.high:
        return Outcome(Verdict.REFUSED, _weights_do_not_fit(budget))
    return None


def refused_at_setup(started: StartedEngine, budget: MemoryBudget) -> Outcome | None:
    """Return the refusal of an engine that fails when it sets up a cache of any size."""
    start, failure = started.start, started.start.failure_at_setup
    if failure is not None and started.sizing.fits(budget.available_kv.high):
        return Outcome(Verdict.REFUSED, Refusal(failure.type, failure.message, Stage.CACHE_SETUP, detail=""))
    sizes = [group.spec.block_size for group in start.layout.groups]
    try:
        check_groups(started.flags, start.engine_config.rules.batches, sizes)
    except EngineRefusal as refusal:
        return Outcome(Verdict.REFUSED, Refusal.of(refusal))
    return None


def sized(started: StartedEngine, budget: MemoryBudget) -> Outcome:
    """Return the cache that the engine makes of the memory, or the refusal of its startup check.

    The verdict is certain where it is the same at both ends of the interval of the memory.
    """
    sizing, available = started.sizing, budget.available_kv
    if started.start.layout.caches_nothing:
        return _without_cache(started, budget)
    if is_sure_to_fit(started, budget):
        cache = sizing.cache(available.bytes, started.start.engine_config.max_model_len)
        return _with_cache(started, budget, cache, Verdict.STARTS)
    try:
        cache = sizing.size(available.bytes)
    except EngineRefusal as refusal:
        verdict = Verdict.UNCERTAIN if sizing.fits(available.high) else Verdict.REFUSED
        return Outcome(verdict, Refusal.of(refusal), doubts=_depends_on_memory(verdict, budget))
    if started.start.engine_config.fit_max_model_len:
        cache = _with_lengths(cache, started, available)
    fits = available.low == available.bytes or sizing.fits(available.low)
    return _with_cache(started, budget, cache, Verdict.STARTS if fits else Verdict.UNCERTAIN)


def _with_lengths(cache: KvCache, started: StartedEngine, available: Estimate) -> KvCache:
    """Return the cache with the lengths to which the engine fits requests at both ends of the memory."""

    def fitted(num_bytes: int) -> int:
        try:
            return started.sizing.checked_length(num_bytes)
        except EngineRefusal:  # not one block
            return 0

    return replace(cache, max_model_len_low=fitted(available.low), max_model_len_high=fitted(available.high))


def _with_cache(started: StartedEngine, budget: MemoryBudget, cache: KvCache, verdict: Verdict) -> Outcome:
    """Return the outcome of a start that gets a cache; it is certain where a request fits in any case."""
    least = cache.num_blocks
    if verdict is Verdict.STARTS:
        least = started.sizing.num_blocks(budget.available_kv.low)
    doubts = (
        *started.doubts,
        *_capture_doubt(started.start, least),
        *(beyond_memory(cache, budget) or no_room_for_graphs(cache, budget)),
        *hardly_free(budget),
        *_depends_on_memory(verdict, budget),
    )
    return Outcome(Verdict.UNCERTAIN if doubts else verdict, None, cache, doubts=doubts)


def _without_cache(started: StartedEngine, budget: MemoryBudget) -> Outcome:
    """Return the outcome of an encoder: the engine measures nothing and sets up no cache.

    Its weights, CUDA graphs and one batch must fit the memory of the device, whatever share was requested.

    Source: vLLM 0.10.2 to 0.33.0, EngineCore._initialize_kv_caches: no memory is profiled where no layer has
    a cache.
    """
    terms = (budget.weights, budget.activation, budget.non_torch, budget.captured_graphs)
    low, high = sum(term.low for term in terms), sum(term.high for term in terms)
    if low > budget.total.high:
        return Outcome(Verdict.REFUSED, _batch_does_not_fit(low, budget))
    if high <= budget.total.low:
        doubts = (*started.doubts, *hardly_free(budget))
        return Outcome(Verdict.UNCERTAIN if doubts else Verdict.STARTS, doubts=doubts)
    words = (
        f"Weights, CUDA graphs and one batch take {gib_text(low)} to {gib_text(high)} GiB of "
        f"{gib_text(budget.total.bytes)}. A lower --max-num-batched-tokens or --max-model-len takes less."
    )
    return Outcome(Verdict.UNCERTAIN, doubts=(*started.doubts, *hardly_free(budget), words))


def after_capture(outcome: Outcome, started: StartedEngine, budget: MemoryBudget) -> Outcome:
    """Return the outcome of CUDA graph capture and of the first steps, once the cache is set up.

    An engine that cannot capture CUDA graphs does not start. An engine whose attention fails may start with
    --enforce-eager and fail at the first request, so its start stays uncertain. So does the start with a
    cache given in bytes or blocks: there the plan answers what such a cache holds.
    """
    if outcome.verdict is Verdict.REFUSED:
        return outcome
    if started.failures:
        return replace(outcome, verdict=Verdict.UNCERTAIN, fails=True)
    refusal = _capture_refusal(outcome, started, budget)
    if refusal is None:
        return outcome
    override = started.start.engine_config.num_gpu_blocks_override
    if budget.available_kv.basis is Basis.GIVEN or override is not None:
        return replace(outcome, fails=True)
    return Outcome(Verdict.REFUSED, Refusal.of(refusal))


def with_release_doubt(outcome: Outcome, rules: EngineRules) -> Outcome:
    """Return the outcome with the doubt about the release: on a release in doubt no start is certain."""
    if not rules.doubt:
        return outcome
    verdict = Verdict.UNCERTAIN if outcome.verdict is Verdict.STARTS else outcome.verdict
    return replace(outcome, verdict=verdict, doubts=(*rules.doubts, *outcome.doubts))


def with_quantization_warning(outcome: Outcome, architecture: ModelArchitecture) -> Outcome:
    """Return the outcome with a warning where the engine takes quantized weights for unquantized ones."""
    stored = architecture.unnamed_quantization
    if stored is None:
        return outcome
    words = (
        f"The config says that the weights are quantized ({stored}), but its quantization_config has no "
        'quant_method and no producer {"name": "modelopt"}. vLLM then treats the weights as unquantized: it '
        f"reserves memory for weights in {architecture.dtype}, and fails while it loads quantized ones, such "
        "as those of an MLX checkpoint. This copy of the config may lack a part of the original."
    )
    verdict = Verdict.UNCERTAIN if outcome.verdict is Verdict.STARTS else outcome.verdict
    return replace(outcome, verdict=verdict, doubts=(words, *outcome.doubts))


def _capture_refusal(outcome: Outcome, started: StartedEngine, budget: MemoryBudget) -> EngineRefusal | None:
    """Return the engine's refusal to capture CUDA graphs, if even the largest possible cache is too small."""
    start, sizing, available = started.start, started.sizing, budget.available_kv
    most = sizing.num_blocks(available.high)
    if capture_failure(start.layout, start.engine_config, most) is None:
        return None
    expected = most if outcome.cache is None else outcome.cache.num_blocks
    message = capture_failure(start.layout, start.engine_config, expected)
    if message is None:
        return None
    least = sizing.num_blocks(available.low)
    span = f"{most:,}" if least == most else f"between {least:,} and {most:,}"
    return EngineRefusal(
        Stage.RUN,
        message,
        detail=f"{FAILS_IN_CAPTURE} the cache will have {span} blocks, and needs one for each of "
        f"{start.engine_config.max_num_seqs:,} sequences. With --enforce-eager it captures none.",
    )


def _capture_doubt(start: Start, num_blocks: int) -> tuple[str, ...]:
    """Say how capture fails with the smallest possible cache."""
    failure = capture_failure(start.layout, start.engine_config, num_blocks)
    if failure is None:
        return ()
    words = f"{MAY_FAIL_IN_CAPTURE} ValueError: {failure} With --enforce-eager it captures none."
    return (words,)


def _depends_on_memory(verdict: Verdict, budget: MemoryBudget) -> tuple[str, ...]:
    if verdict is not Verdict.UNCERTAIN:
        return ()
    available = budget.available_kv
    words = (
        f"{MEMORY_DECIDES} that only a real start can measure: an estimated "
        f"{gib_text(available.low)} to {gib_text(available.high)} GiB are left for the cache."
    )
    return (words,)


def _batch_does_not_fit(needed: int, budget: MemoryBudget) -> Refusal:
    return Refusal(
        type="OutOfMemoryError",
        message="CUDA out of memory.",
        stage=Stage.MEMORY,
        detail=f"The weights of one rank, its CUDA graphs and one batch take {gib_text(needed)} GiB or more; "
        f"the device has {gib_text(budget.total.high)} GiB or less.",
    )


def _weights_do_not_fit(budget: MemoryBudget) -> Refusal:
    return Refusal(
        type="OutOfMemoryError",
        message="CUDA out of memory.",
        stage=Stage.MEMORY,
        detail=f"The weights of one rank take {gib_text(budget.weights.low)} GiB or more; "
        f"the device has {gib_text(budget.total.high)} GiB or less.",
    )
