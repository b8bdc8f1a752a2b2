"""How many requests of a workload are admitted at once, and what the next one waits for."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from packaging.version import Version

from service.advisor.candidates.admission import Admission, Waiting
from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.engine_steps import Admit, StartedEngine
from service.advisor.request.plan_request import Workload
from service.changed import changed
from service.engines.rules.admission import AdmissionRules
from service.kv_cache.admission import GroupAdmission, RequestAdmission, admit
from service.kv_cache.kv_cache import KvCache
from service.kv_cache.specs import WINDOWED_KINDS
from service.units import ceil_div


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a workload that one engine serves, where several have caches of their own."""

    requests: int
    """Of the whole workload."""
    engines: int
    """Data parallel ranks of all replicas."""

    @property
    def of_each(self) -> int:
        """Requests that the engine with most of them gets."""
        return ceil_div(self.requests, self.engines)

    @property
    def sentences(self) -> tuple[str, ...]:
        """How the requests are shared out; nothing where one engine has them all."""
        if self.engines == 1:
            return ()
        most = "" if self.requests % self.engines == 0 else "up to "
        words = (
            f"Each of the {self.engines:,} engines (data parallel ranks, replicas) has a cache of its own. "
            f"Shared out evenly, each gets {most}{self.of_each:,} of the {self.requests:,} requests; "
            "where one gets more than fits, requests wait."
        )
        return (words,)


def with_admission(candidate: Candidate, started: StartedEngine, workload: Workload | None) -> Candidate:
    """Return a candidate with the requests of the workload that are admitted, if it has a cache."""
    if candidate.kv_cache is None or workload is None:
        return candidate
    admission = admission_of(started.start, candidate.kv_cache, workload, started.admit, candidate.engines)
    return changed(candidate, admission=admission, doubts=(*candidate.doubts, *admission.hazards))


def replicated(candidate: Candidate, replicas: int, workload: Workload | None) -> Candidate:
    """Return a candidate of which there are several replicas, each with a part of the workload."""
    candidate = changed(candidate, replicas=replicas)
    if candidate.admission is None or candidate.kv_cache is None or workload is None:
        return candidate
    if candidate.start is None:
        return candidate
    admission = admission_of(candidate.start, candidate.kv_cache, workload, engines=candidate.engines)
    return changed(candidate, admission=admission)


def admission_of(
    start: Start, cache: KvCache, workload: Workload, admitted: Admit | None = None, engines: int = 1
) -> Admission:
    """Return how the release's scheduler admits a workload, in an idle engine with this cache.

    ``admitted`` returns what a request of this start takes; without it, that is calculated. ``engines``:
    caches of their own among which the requests are shared out.
    """
    engine_config, prompt, length = start.engine_config, workload.prompt_tokens, cache.max_model_len
    admitted = admitted or partial(admit, start.layout.groups, engine_config)
    request = admitted(length, min(prompt, length), workload.output_tokens)
    free = cache.num_blocks - 1
    # A prompt of the maximum length is refused, because it leaves no room for an answer.
    readable = prompt < length or (prompt == length and start.architecture.pooling is not None)
    limit = engine_config.max_num_seqs if readable else 0
    at_once, completed = min(request.at_once(free), limit), min(request.to_the_end(free), limit)
    share = Share(workload.concurrent_requests, engines)
    waiting = _waits_for(share, at_once, engine_config.max_num_seqs, readable=readable)
    windowed = _windowed(start, request)
    sentences = (
        _needs(request, prompt, free),
        *share.sentences,
        _why(request, share, at_once, free, waiting),
        *_preempted(share, at_once, completed),
    )
    return Admission(
        prompt_tokens=prompt,
        output_tokens=workload.output_tokens,
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
        admitted_by_whole_prompts=min(request.at_once_uncapped(free), limit),
        completed_without_preemption=completed,
        unheld_blocks=_unheld(request, min(at_once, share.of_each), free),
        waits_for=waiting,
        explanation=" ".join(sentences),
        hazards=(*_hazards(engine_config.rules.admission, engine_config.release, request),),
    )


def _windowed(start: Start, request: RequestAdmission) -> tuple[GroupAdmission, ...]:
    """Return the groups of sliding windows."""
    return tuple(
        counted
        for group, counted in zip(start.layout.groups, request.groups, strict=True)
        if group.spec.kind in WINDOWED_KINDS
    )


def _unheld(request: RequestAdmission, running: int, free: int) -> int:
    """Return the blocks that are left while each running request holds its most."""
    return max(0, free - running * max(request.peak_prefill_blocks, request.peak_decode_blocks))


def _waits_for(share: Share, at_once: int, limit: int, *, readable: bool) -> Waiting:
    if not readable:
        return Waiting.MAX_MODEL_LEN
    if at_once >= share.of_each:
        return Waiting.NOTHING
    return Waiting.MAX_NUM_SEQS if at_once == limit else Waiting.BLOCKS


def _needs(request: RequestAdmission, prompt: int, free: int) -> str:
    alike = Counter((group.blocks, group.kind) for group in request.groups)
    groups = ", ".join(
        f"{f'{times} x ' if times > 1 else ''}{blocks:,} {kind}" for (blocks, kind), times in alike.items()
    )
    return (
        f"A prompt of {prompt:,} tokens is admitted if {request.blocks:,} blocks are free ({groups}); "
        f"an idle engine has {free:,}. {_held(request)}"
    )


def _held(request: RequestAdmission) -> str:
    """Return the blocks that a request holds at most, and where that differs, in each part of its life."""
    prefill, decode = request.peak_prefill_blocks, request.peak_decode_blocks
    if prefill <= decode:
        return f"The request holds at most {decode:,} blocks, at the end of its answer."
    return (
        f"The request holds at most {prefill:,} blocks, while its prompt is computed, and at most {decode:,} "
        "while its answer is generated."
    )


def _why(request: RequestAdmission, share: Share, at_once: int, free: int, waiting: Waiting) -> str:
    wanted, each = share.of_each, " on each" if share.engines > 1 else ""
    left = max(0, free - at_once * request.blocks_after_prefill)
    match waiting:
        case Waiting.MAX_MODEL_LEN:
            return "The engine refuses it: a prompt of max_model_len tokens leaves no room for an answer."
        case Waiting.NOTHING:
            all_wanted = "The request runs" if wanted == 1 else f"All {wanted:,} requests run at once"
            return f"{all_wanted}{each}; up to {at_once:,} could run at once."
        case Waiting.MAX_NUM_SEQS:
            return f"{at_once:,} of {wanted:,} requests run at once{each}: max_num_seqs allows no more."
        case Waiting.BLOCKS if at_once == 0:
            return (
                f"It is never admitted: 0 of {wanted:,} requests run, and the engine waits without an error."
            )
        case Waiting.BLOCKS:
            return (
                f"{at_once:,} of {wanted:,} requests run at once{each}; the next one finds {left:,} free "
                "blocks and waits."
            )
    assert_never(waiting)


def _preempted(share: Share, at_once: int, completed: int) -> Iterator[str]:
    """Say how many requests are preempted while their answers grow."""
    running = min(at_once, share.of_each)
    if completed < running:
        yield (
            f"Only {completed:,} of these {running:,} finish without preemption: while the answers grow, "
            "the engine runs out of blocks, preempts requests and computes them again later."
        )


def _hazards(rules: AdmissionRules, release: Version, request: RequestAdmission) -> Iterator[str]:
    """Yield what goes wrong with such requests after they are admitted."""
    if rules.bounds_steps and request.blocks < request.whole_prompt_blocks:
        yield (
            f"vLLM {release} limits the blocks that it counts for a sliding window, in every step. "
            "Such a prompt takes more blocks than are counted, and if the pool is full, the engine ends with "
            "ValueError: Cannot get 1 free blocks from the pool. vLLM 0.20.2 fixes this."
        )
    if request.states_left_behind:
        yield (
            f"vLLM {release} leaves {request.states_left_behind:,} states of such a prompt in the pool "
            "until the request ends, one for each step that reads several blocks. --no-async-scheduling "
            "avoids this; vLLM 0.30.0 fixes it."
        )
