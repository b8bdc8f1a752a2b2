"""Changes that save memory together: those that cost least first, and no more of them than a context needs.

An expert who lacks memory adds one change after another: an fp8 cache, smaller batches, fewer images and
videos in a prompt. What does not make the context longer is left out again.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from service.advisor.candidates.advice import FALLBACK_BACKENDS, LIMITS
from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.fixes.captured_sequences import captured_sequences
from service.advisor.fixes.fix_attempt import LENGTH_STEP, FixAttempt, longest_length, sure
from service.advisor.fixes.media_limits import media_limits
from service.advisor.request.plan_request import PlanRequest
from service.engine_config.cache_dtype import canonical
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType

SMALL_BATCH: Final = 2048
LEAST_PERCENT: Final = 110
"""Percent of a context that one more change must make of it. Chosen by us: estimates err by some percent."""
DENSER: Final = "fp8"

Addition: TypeAlias = Callable[[FixAttempt, EngineSteps, GpuType], Iterator[FixAttempt]]
"""Yields a start with one more change in the ways that it can be made; nothing where it changes nothing."""


def combined(
    request: PlanRequest, first: FixAttempt, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield a start with as few more changes as make its context fit for sure, untried.

    Where nothing makes the whole context fit, with a shorter one: the longest, unless a person who gave no
    length gets what one GPU should keep with fewer changes. ``first``: what is changed in any case; where
    that is nothing, a shorter context alone is known. ``request``, ``steps``: of its model.
    """
    started = steps.start(first.flags, gpu)
    if isinstance(started, FailedStart):
        return
    whole = started.start.engine_config.max_model_len
    needs_whole = request.serve.max_model_len is not None or not first.words
    enough = whole if needs_whole else min(whole, LIMITS.tokens)

    def longest(attempt: FixAttempt) -> int:
        return longest_length(request, attempt.flags, steps, gpu, sure)

    kept, length = [first], longest(first)
    for addition in ADDITIONS:
        if length >= enough:
            break
        for more in addition(kept[-1], steps, gpu):
            reached = longest(more)
            if reached * 100 >= length * LEAST_PERCENT and reached >= LENGTH_STEP:
                kept, length = [*kept, more], reached
                break
    if length >= whole:
        fewest = _fewest(kept, lambda attempt: longest(attempt) >= whole, steps, gpu)
        yield _captured(request, fewest, steps, gpu)
    elif length >= LENGTH_STEP and kept[-1].words:
        shortened = _shortened(kept[-1], length // LENGTH_STEP * LENGTH_STEP)
        yield _captured(request, shortened, steps, gpu)


def _captured(request: PlanRequest, attempt: FixAttempt, steps: EngineSteps, gpu: GpuType) -> FixAttempt:
    """Return a start with as many sequences as have a recurrent state each, where CUDA graphs need more."""
    seqs = captured_sequences(request, attempt.flags, steps, gpu)
    if not seqs:
        return attempt
    return _added(attempt, f"--max-num-seqs {seqs}", replace(attempt.flags, max_num_seqs=seqs))


def _fewest(
    kept: list[FixAttempt], is_enough: Callable[[FixAttempt], bool], steps: EngineSteps, gpu: GpuType
) -> FixAttempt:
    """Return the last change alone where it is enough without those before it, else all of them."""
    first, last = kept[0], kept[-1]
    if len(kept) > len((first, last)):
        for addition in reversed(ADDITIONS):
            alone = next((each for each in addition(first, steps, gpu) if is_enough(each)), None)
            if alone is not None:
                return alone
    return last


def _shortened(attempt: FixAttempt, length: int) -> FixAttempt:
    words = f"{attempt.words} --max-model-len {length}".lstrip()
    return replace(attempt, words=words, flags=attempt.flags.of_length(length))


def _added(attempt: FixAttempt, words: str, flags: ServeFlags) -> FixAttempt:
    return replace(attempt, words=f"{attempt.words} {words}".lstrip(), flags=flags)


def denser_cache(attempt: FixAttempt, steps: EngineSteps, gpu: GpuType) -> Iterator[FixAttempt]:
    """Yield an fp8 cache, where this GPU type has a backend for it that is no slower."""
    flags, before = attempt.flags, steps.start(attempt.flags, gpu)
    if flags.kv_cache_dtype not in {None, "auto"} or DENSER not in attempt.rules.dtypes.accepted:
        return
    changed = replace(flags, kv_cache_dtype=DENSER)
    after = steps.start(changed, gpu)
    if isinstance(before, FailedStart) or isinstance(after, FailedStart) or after.failures:
        return
    if canonical(before.stored_format) == canonical(DENSER) or (_is_slow(after) and not _is_slow(before)):
        return
    yield _added(attempt, f"--kv-cache-dtype {DENSER}", changed)


def _is_slow(started: StartedEngine) -> bool:
    return bool(started.backends) and started.backends[0] in FALLBACK_BACKENDS


def smaller_batches(attempt: FixAttempt, steps: EngineSteps, gpu: GpuType) -> Iterator[FixAttempt]:
    """Yield steps of fewer tokens, where the start has larger ones."""
    started = steps.start(attempt.flags, gpu)
    if (
        not isinstance(started, FailedStart)
        and started.start.engine_config.max_num_batched_tokens > SMALL_BATCH
    ):
        changed = replace(attempt.flags, max_num_batched_tokens=SMALL_BATCH)
        yield _added(attempt, f"--max-num-batched-tokens {SMALL_BATCH}", changed)


def fewer_media(attempt: FixAttempt, steps: EngineSteps, gpu: GpuType) -> Iterator[FixAttempt]:
    """Yield prompts without videos, then with one image too."""
    del gpu
    for limit in media_limits(steps.model, attempt.flags, attempt.rules):
        yield _added(attempt, limit.words, limit.flags)


ADDITIONS: Final[tuple[Addition, ...]] = (denser_cache, smaller_batches, fewer_media)
"""In the order in which an expert tries them: what loses least first, and what takes something away last."""
