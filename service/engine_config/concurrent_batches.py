"""How many batches scheduling keeps in flight."""

from typing import assert_never

from service.engine_config.speculation import Speculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import AsyncScheduling
from service.engines.rules.speculation import SpeculationRules


def concurrent_batches(
    flags: ServeFlags,
    rules: EngineRules,
    state_mode: str,
    drafted: Speculation | None,
    *,
    v2_model_runner: bool,
) -> int:
    """Return the batches that scheduling keeps in flight: vLLM 0.32.0, VllmConfig.max_concurrent_batches."""
    stages = flags.pipeline_parallel_size
    overlaps = flags.async_scheduling
    if overlaps is None:
        overlaps = _overlaps(rules.batches.async_scheduling, stages, state_mode) and _drafts_overlap(
            drafted, rules.speculation
        )
    elif overlaps:
        _check_overlap(drafted, rules.speculation)
    if not overlaps:
        return stages
    if stages == 1:
        return 2
    return stages + (1 if v2_model_runner else 0)


def _drafts_overlap(drafted: Speculation | None, rules: SpeculationRules) -> bool:
    return drafted is None or (drafted.padded and drafted.method in rules.async_methods)


def _check_overlap(drafted: Speculation | None, rules: SpeculationRules) -> None:
    """Refuse requested asynchronous scheduling with a speculative method that does not support it."""
    if drafted is None or (drafted.padded and drafted.method in rules.async_requested_methods):
        return
    words = rules.async_refusal.format(method=drafted.method)
    error = "ValidationError" if words.startswith("VllmConfig") else "ValueError"
    raise EngineRefusal(Stage.CONFIG, words, type=error)


def _overlaps(default: AsyncScheduling, stages: int, state_mode: str) -> bool:
    match default:
        case AsyncScheduling.OFF:
            return False
        case AsyncScheduling.UNLESS_PIPELINED:
            return stages == 1
        case AsyncScheduling.UNLESS_STATES_ARE_CACHED:
            return state_mode == "none"
        case AsyncScheduling.ON:
            return True
    assert_never(default)
