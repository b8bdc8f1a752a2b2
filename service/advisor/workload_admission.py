"""How many requests of a workload are let in at once, and what the next one waits for."""

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

from service.advisor.engine_start import Start
from service.advisor.plan_request import Workload
from service.advisor.plan_types import Admission, Waiting
from service.engines.engine_rules import EngineRules
from service.kv_cache.admission import RequestAdmission, admit, most_draft_blocks
from service.kv_cache.kv_cache import KvCache
from service.kv_cache.specs import WINDOWED_KINDS


def admission_of(start: Start, cache: KvCache, workload: Workload) -> Admission:
    """Return what the release's scheduler makes of a workload, in an idle engine with this cache."""
    prompt, length = workload.prompt_tokens, cache.max_model_len
    request = admit(
        start.layout.groups, start.engine_config, length, min(prompt, length), workload.output_tokens
    )
    free, limit = cache.num_blocks - 1, start.engine_config.max_num_seqs
    readable = prompt < length
    at_once = min(request.at_once(free), limit) if readable else 0
    to_the_end = min(request.to_the_end(free), limit) if readable else 0
    waiting = _waits_for(workload, at_once, limit, readable=readable)
    windowed = [
        counted
        for group, counted in zip(start.layout.groups, request.groups, strict=True)
        if group.spec.kind in WINDOWED_KINDS
    ]
    return Admission(
        prompt_tokens=prompt,
        groups=request.groups,
        blocks=request.blocks,
        whole_prompt_blocks=request.whole_prompt_blocks,
        sliding_window_blocks=sum(group.blocks for group in windowed),
        whole_sliding_window_blocks=sum(group.whole_prompt_blocks for group in windowed),
        peak_prefill_blocks=request.peak_prefill_blocks,
        blocks_after_prefill=request.blocks_after_prefill,
        peak_decode_blocks=request.peak_decode_blocks,
        free_blocks=free,
        admitted_at_once=at_once,
        admitted_by_whole_prompts=min(request.at_once_uncapped(free), limit) if readable else 0,
        completed_without_preemption=to_the_end,
        waits_for=waiting,
        explanation=" ".join(
            (
                _needs(request, prompt, free),
                _why(request, workload, at_once, free, waiting),
                *_put_off(workload, at_once, to_the_end),
            )
        ),
        hazards=(*_hazards(start.engine_config.rules, request), *_draft_tokens(start)),
    )


def _waits_for(workload: Workload, at_once: int, limit: int, *, readable: bool) -> Waiting:
    if not readable:
        return Waiting.MAX_MODEL_LEN
    if at_once >= workload.concurrent_requests:
        return Waiting.NOTHING
    return Waiting.MAX_NUM_SEQS if at_once == limit else Waiting.BLOCKS


def _needs(request: RequestAdmission, prompt: int, free: int) -> str:
    alike = Counter((group.blocks, group.kind) for group in request.groups)
    groups = ", ".join(
        f"{f'{times} x ' if times > 1 else ''}{blocks:,} {kind}" for (blocks, kind), times in alike.items()
    )
    return (
        f"A prompt of {prompt:,} tokens must find {request.blocks:,} of {free:,} blocks free ({groups}); "
        f"it holds {request.peak_prefill_blocks:,} at most while it is read, "
        f"{request.blocks_after_prefill:,} once it has been, "
        f"up to {request.peak_decode_blocks:,} while it is answered."
    )


def _why(request: RequestAdmission, workload: Workload, at_once: int, free: int, waiting: Waiting) -> str:
    wanted = workload.concurrent_requests
    left = max(0, free - at_once * request.blocks_after_prefill)
    match waiting:
        case Waiting.MAX_MODEL_LEN:
            return "It is refused: max_model_len leaves no room for an answer."
        case Waiting.NOTHING:
            return f"All {wanted:,} that are wanted run at once; {at_once:,} would."
        case Waiting.MAX_NUM_SEQS:
            return f"{at_once:,} of {wanted:,} run at once: max_num_seqs allows no more."
        case Waiting.BLOCKS if at_once == 0:
            return f"It is never let in: 0 of {wanted:,} run, and the engine waits without an error."
        case Waiting.BLOCKS:
            return (
                f"{at_once:,} of {wanted:,} run at once; the next one finds {left:,} blocks free and waits."
            )
    assert_never(waiting)


def _put_off(workload: Workload, at_once: int, to_the_end: int) -> Iterator[str]:
    """Say that answers outgrow the cache, where they do."""
    running = min(at_once, workload.concurrent_requests)
    if to_the_end < running:
        yield (
            f"Only {to_the_end:,} of these {running:,} can stay until they are answered: while answers grow, "
            "the engine runs out of blocks, puts requests off (preemption) and computes them anew later."
        )


def _hazards(rules: EngineRules, request: RequestAdmission) -> Iterator[str]:
    """Yield what goes wrong with such requests once they have been let in."""
    if rules.admission.bounds_steps and request.blocks < request.whole_prompt_blocks:
        yield (
            f"vLLM {rules.release} counts no blocks of a window beyond its bound, at any step: such a prompt "
            "takes more uncounted, and where the pool is full the engine ends with ValueError: Cannot get 1 "
            "free blocks from the pool. vLLM 0.20.2 mends it."
        )
    if request.states_left_behind:
        yield (
            f"vLLM {rules.release} leaves {request.states_left_behind:,} states of such a prompt in the pool "
            "until the request ends, one for each step that reads several blocks: --no-async-scheduling "
            "avoids it, vLLM 0.30.0 mends it."
        )


def _draft_tokens(start: Start) -> Iterator[str]:
    """Yield what the counts leave out where tokens are guessed ahead."""
    engine_config = start.engine_config
    draft_tokens, ranks = engine_config.speculative_tokens, engine_config.decode_context_parallel_size
    more = most_draft_blocks(start.layout.groups, draft_tokens, ranks)
    if more:
        yield (
            f"Tokens guessed ahead are not counted here: with {draft_tokens} of them a "
            f"request holds up to {more:,} more block{'s' if more > 1 else ''}."
        )
