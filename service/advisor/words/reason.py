"""Why a candidate is recommended, or why none is, in words with numbers."""

from collections.abc import Iterable, Iterator
from math import floor
from textwrap import shorten

from service.advisor.candidates.advice import LIMITS, STEPS
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.steps_of_advice import (
    Asked,
    has_other_cache,
    is_fp8,
    length_of,
    step_of,
    uses_fallback,
)
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.ranking.service_level import Service, completed_of, refuses_prompts, service_of
from service.advisor.ranking.speed_limits import meets
from service.advisor.request.checkpoint_layouts import named_with_sizes
from service.advisor.request.plan_request import Objective, PlanRequest, Workload
from service.advisor.words.pooling_words import pooling_sentence
from service.advisor.words.rank_words import other_ranks, requests_held
from service.advisor.words.speed_words import between, compared, faster_sentence, speed_sentences
from service.engines.flag_values import AUTO_LENGTH
from service.gpus.nvlink import NvlinkDomain

FINE_BITS = 8
"""A cache with fewer bits per element is not offered as the denser one."""
SPOKEN_WITH_A_VOWEL = ("fp", "nv", "mx", "int", "octave", "ultra")
"""Beginnings of the names of dtypes that take the article "an"."""
MOST_MESSAGE, MOST_IN_SURVEY = 240, 100
"""Characters of a refusal that are repeated: the whole of it stands with the refused candidate."""
WEIGHED = "; with a workload (--prompt-tokens) the plan weighs that against what it loses"


def reason(
    candidates: tuple[Candidate, ...], asked: Asked, request: PlanRequest, count: int | None
) -> tuple[str, ...]:
    """Return in sentences why the first candidate is recommended, or why none is."""
    best = candidates[0]
    if best.verdict is Verdict.REFUSED:
        near = nearest_refused(candidates) or best
        error, method = near.error, near.flags.quantization
        added = "" if method == request.serve.quantization else f" (nearest: with --quantization {method})"
        most = MOST_IN_SURVEY if request.is_survey else MOST_MESSAGE
        said = "" if error is None else shorten(error.detail or error.message, most, placeholder=" ...")
        words = f"No candidate starts{added}: {said}"
        return (words,) if request.is_survey else (words, *_siblings(request))
    if not best.may_serve:
        return (f"No candidate is recommended: {best.doubts[0]}",)
    purpose = _purpose(best, asked)
    if request.is_survey:
        return (purpose,)
    first = " ".join((purpose, *_capacity(best, asked)))
    return (first, *_more(candidates, asked, request, count))


def _more(
    candidates: tuple[Candidate, ...], asked: Asked, request: PlanRequest, count: int | None
) -> Iterator[str]:
    """Yield what a survey leaves out: what its figures tell, and what else could be done."""
    best = candidates[0]
    if best.quality.loss:
        yield f"Published effect on quality: {best.quality.effect}."
    yield from _no_coarser(candidates, best, asked, request)
    yield from _fewer(candidates, best, asked)
    if best.verdict is Verdict.UNCERTAIN:
        yield "Whether it starts is uncertain."
    yield from (
        *_exchange(candidates, best, asked, count),
        *_replicas(best, count),
        *_quantized(candidates, best, request),
        *filter(None, ("" if best.caches_nothing else pooling_sentence(best),)),
        *_unusual(candidates, best, asked),
        *_latent(best),
        *other_ranks(candidates, best),
        *_denser(candidates, best, asked),
        *(() if asked.workload is None else speed_sentences(best, asked.workload)),
        *faster_sentence(candidates, best),
    )


def _purpose(best: Candidate, asked: Asked) -> str:
    cache = _cache(best)
    served = "" if asked.workload is None else _served(best, asked.workload)
    if best.caches_nothing:
        return f"{_gpus(best)}{served or ' is enough' * (best.gpus == 1)}. {pooling_sentence(best)}"
    match asked.objective:
        case Objective.TOKENS:
            return f"The most tokens of what {_starts(best, asked)}: {cache}."
        case Objective.ACCURACY:
            return f"The least lossy cache of what {_starts(best, asked)}: {cache}."
        case Objective.COST:
            return f"The cheapest output tokens of what {_starts(best, asked)}: {_gpus(best)}, {cache}."
        case Objective.BALANCED:
            words = _step_words(best, asked)
            way = words.format(length=length_of(best), cache=cache, fits=_fits(best))
            return f"{_gpus(best)}{served}: {way}."


def _fits(best: Candidate) -> str:
    """Return which length is the longest: with `auto` the engine chooses it from what it measures."""
    chosen = best.flags.max_model_len == AUTO_LENGTH
    return "that is expected to fit" if chosen else "that is sure to fit, rounded down to a multiple of 1,024"


def _capacity(best: Candidate, asked: Asked) -> Iterator[str]:
    """Yield how much the cache holds, where the reason is the step and not the cache."""
    if asked.objective is Objective.BALANCED and not best.caches_nothing:
        yield _holds(best, names_length="{length" in _step_words(best, asked))


def _step_words(best: Candidate, asked: Asked) -> str:
    """Return the words of the candidate's step: stages are named only where each takes a whole node."""
    step, flags = STEPS[step_of(best, asked)], best.flags
    chosen = flags.pipeline_parallel_size > asked.specified.pipeline_parallel_size
    staged = chosen and best.gpus == flags.pipeline_parallel_size * LIMITS.node
    return step.words if staged else step.words_without_stages or step.words


def _starts(best: Candidate, asked: Asked) -> str:
    """Return what the recommended candidate does, for the objectives that compare all that do so."""
    workload = asked.workload
    if workload is None:
        return "starts"
    if service_of(best, workload) is Service.WHOLE:
        return "serves the workload"
    return f"starts{_served(best, workload)}"


def _gpus(candidate: Candidate, *, starts_sentence: bool = True) -> str:
    if candidate.gpus > 1:
        return f"{candidate.gpus} GPUs"
    return "One GPU" if starts_sentence else "one GPU"


def _holds(candidate: Candidate, *, names_length: bool) -> str:
    """Say how many requests of the maximum length the cache holds, and that length unless it was named."""
    cache = candidate.kv_cache
    if cache is None and candidate.error is not None:
        return "The memory that is expected does not hold one such request."
    if cache is None:
        return "How much the cache holds is not modelled."
    ranks = candidate.flags.data_parallel_size
    held = requests_held(cache.max_concurrency, ranks)
    each = f", {floor(cache.max_concurrency)} on each data parallel rank" if ranks > 1 else ""
    if names_length:
        return f"It holds {held} such requests{each}."
    return f"It holds {held} requests of {cache.max_model_len:,} tokens{each}."


def _cache(best: Candidate) -> str:
    dtype = best.resolved_kv_cache_dtype or best.kv_cache_dtype
    if best.start is not None and best.start.is_published:
        return f"the {dtype} cache that the checkpoint asks for"
    return "a lossless cache" if best.quality.loss == 0 else f"{_article(dtype)} {dtype} cache"


def _article(dtype: str) -> str:
    """Return the article that a dtype's name takes when it is read aloud: an fp8 cache, a bfloat16 cache."""
    return "an" if dtype.startswith(SPOKEN_WITH_A_VOWEL) else "a"


def _served(best: Candidate, workload: Workload) -> str:
    service, wanted = service_of(best, workload), workload.concurrent_requests
    if service is Service.WHOLE:
        return " serves the workload" if best.gpus == 1 else " serve the workload"
    if service is Service.INTERRUPTED:
        return (
            f", although none serves the whole workload without preemption (all {wanted:,} requests are "
            f"admitted, {completed_of(best):,} finish without preemption)"
        )
    if refuses_prompts(best):
        return f", although the engine refuses prompts of {workload.prompt_tokens:,} tokens"
    return (
        f", although none serves the whole workload ({completed_of(best):,} of {wanted:,} requests finish "
        "without preemption)"
    )


def _no_coarser(
    candidates: Iterable[Candidate], best: Candidate, asked: Asked, request: PlanRequest
) -> Iterator[str]:
    """Say why an fp8 cache is taken although one without loss serves as much, and how to get that one."""
    if asked.specified.kv_cache_dtype is not None or not asked.prefers_fp8 or not is_fp8(best):
        return
    alike = (
        each
        for each in candidates
        if each.quality.loss == 0
        and each.verdict is best.verdict
        and _ranks(each) == _ranks(best)
        and service_of(each, asked.workload) is service_of(best, asked.workload)
        and length_of(each) == length_of(best)
    )
    other = next(alike, None)
    if other is None:
        return
    if request.model.makers_cache_dtype == "fp8":
        why = "the makers of the checkpoint ask for an fp8 cache"
    else:
        why = (
            "the linear layers of this checkpoint compute with 8 bits or fewer on this GPU, so an fp8 cache "
            "is no coarser"
        )
    faster = ""
    if other.speed is not None and best.speed is not None:
        faster = f", and it gives {compared(best.speed, other.speed)}"
    yield (
        f"A {other.resolved_kv_cache_dtype} cache (--kv-cache-dtype {other.kv_cache_dtype}) would serve as "
        f"many: {why}{faster}."
    )


def _ranks(candidate: Candidate) -> tuple[int, int, int, bool]:
    """Return how a start is spread over GPUs."""
    flags = candidate.flags
    sizes = (flags.tensor_parallel_size or 1, flags.pipeline_parallel_size, flags.data_parallel_size)
    return (*sizes, flags.enable_expert_parallel)


def _fewer(candidates: Iterable[Candidate], best: Candidate, asked: Asked) -> Iterator[str]:
    """Say what the best candidate on fewer GPUs would do, and why it is not taken."""
    if asked.objective is not Objective.BALANCED or asked.specified.tensor_parallel_size is not None:
        return
    smaller = (
        each
        for each in candidates
        if each.gpus < best.gpus
        and each.may_serve
        and each.flags.quantization == asked.specified.quantization
        and not has_other_cache(each, asked)
    )
    other = next(smaller, None)
    if other is None:
        return
    workload = asked.workload
    if workload is not None and service_of(other, workload) is not service_of(best, workload):
        yield (
            f"{_gpus(other)} would finish only {completed_of(other):,} of {workload.concurrent_requests:,} "
            "requests without preemption."
        )
    elif meets(other, workload) > meets(best, workload) and other.speed is not None:
        yield f"{_gpus(other)} would take {between(other.speed.tpot_ms)} ms a token."
    elif other.verdict is Verdict.UNCERTAIN:
        yield f"Whether {_gpus(other, starts_sentence=False)} would start is uncertain."
    elif other.kv_cache is not None:
        held = requests_held(other.kv_cache.max_concurrency, other.flags.data_parallel_size)
        yield (
            f"{_gpus(other)} would hold only {held} requests of {other.kv_cache.max_model_len:,} tokens, "
            f"with {_cache(other)}."
        )


def _exchange(
    candidates: Iterable[Candidate], best: Candidate, asked: Asked, count: int | None
) -> Iterator[str]:
    """Say that ranks exchange at every layer, where that counts against ranks that NVLink does not join."""
    if count is not None or asked.specified.tensor_parallel_size is not None:
        return
    gpus = best.tensor_parallel_size
    if best.flags.quantization != asked.specified.quantization:
        plain = (each for each in candidates if each.flags.quantization == asked.specified.quantization)
        gpus = min((each.gpus for each in plain if each.may_serve), default=0)
    if asked.joined < gpus <= asked.node:
        own = gpus == best.tensor_parallel_size
        ranks = f"Its {gpus} ranks" if own else f"16-bit weights would take {gpus} ranks, which"
        yield f"{ranks} exchange at every layer, and {_joined(asked.nvlink)}."


def _joined(nvlink: NvlinkDomain | None) -> str:
    """Say how few GPUs NVLink joins."""
    if nvlink is None:
        return "GPUs of this type are not known to have NVLink"
    if nvlink.gpus == 1:
        return "GPUs of this type have no NVLink"
    if nvlink.joined > 1:
        return f"NVLink joins only {nvlink.gpus} of them"
    return f"NVLink takes {nvlink.words}, which is bought apart (--nvlink-bridge says that it is there)"


def _replicas(best: Candidate, count: int | None) -> Iterator[str]:
    """Say how a known number of GPUs is used."""
    if count is None or best.kv_cache is None:
        return
    if best.replicas > 1:
        held = requests_held(best.kv_cache.max_concurrency, best.engines)
        yield (
            f"{count} GPUs take {best.replicas} replicas, which hold {held} such requests and "
            f"{best.all_tokens or 0:,} tokens together: smaller replicas exchange less between GPUs."
        )
    if best.all_gpus < count:
        yield f"{count - best.all_gpus} of the {count} GPUs stay free."


def _quantized(candidates: Iterable[Candidate], best: Candidate, request: PlanRequest) -> Iterator[str]:
    """Say that quantized weights need fewer GPUs, and which checkpoints have them."""
    specified = request.serve.quantization
    smaller = (
        each
        for each in candidates
        if each.flags.quantization != specified and each.gpus < best.gpus and each.may_serve
    )
    first = next(smaller, None)
    if first is not None and best.flags.quantization == specified:
        length = length_of(first)
        shorter = f", with a context of {length:,} tokens" if length < length_of(best) else ""
        yield (
            f"With --quantization {first.flags.quantization} (weights rounded while they load) "
            f"{_gpus(first, starts_sentence=False)} would do{shorter}."
        )
    if best.flags.quantization != specified and request.siblings:
        yield (
            "Each start reads the 16-bit weights and rounds them; a checkpoint that is quantized takes "
            "less to store and to load."
        )
    if first is not None or best.flags.quantization != specified:
        yield from _siblings(request)


def _siblings(request: PlanRequest) -> Iterator[str]:
    """Name checkpoints of the same model with quantized weights."""
    if request.siblings:
        yield f"Quantized checkpoints: {named_with_sizes(request, request.siblings)}"


def _unusual(candidates: Iterable[Candidate], best: Candidate, asked: Asked) -> Iterator[str]:
    """Say that an unusual cache would serve what no other does so well, and what is published against it."""
    if asked.objective is not Objective.BALANCED or has_other_cache(best, asked):
        return
    usual: set[tuple[int, Service]] = set()
    unusual: list[Candidate] = []
    for each in candidates:
        if not each.may_serve or length_of(each) != asked.full_length:
            continue
        if has_other_cache(each, asked):
            unusual.append(each)
        else:
            usual.add((each.gpus, service_of(each, asked.workload)))
    for other in unusual:
        service = service_of(other, asked.workload)
        if any(gpus <= other.gpus and served <= service for gpus, served in usual):
            continue
        dtype = other.resolved_kv_cache_dtype or other.kv_cache_dtype
        yield (
            f"{_article(dtype).capitalize()} {dtype} cache would hold the full length on "
            f"{_gpus(other, starts_sentence=False)}, with losses."
        )
        return


def _latent(best: Candidate) -> Iterator[str]:
    """Say that tensor parallel ranks of multi-head latent attention (MLA) store the same cache."""
    if best.start is None or not best.start.architecture.is_mla:
        return
    ranks = best.tensor_parallel_size // best.flags.decode_context_parallel_size
    if ranks > 1:
        yield (
            f"MLA: each of the {ranks} tensor parallel ranks stores the whole cache; data parallel attention "
            "with expert parallelism divides it."
        )


def _denser(candidates: Iterable[Candidate], best: Candidate, asked: Asked) -> Iterator[str]:
    """Say how much more an fp8 cache would hold on the same GPUs."""
    cache = best.kv_cache
    if cache is None or not cache.max_concurrency or is_fp8(best):
        return
    flags = best.flags
    for other in candidates:
        if (
            other.may_serve
            and other.kv_cache is not None
            and is_fp8(other)
            and not (uses_fallback(other) and not uses_fallback(best))
            and other.flags.tensor_parallel_size == flags.tensor_parallel_size
            and other.flags.pipeline_parallel_size == flags.pipeline_parallel_size
            and other.flags.data_parallel_size == flags.data_parallel_size
            and other.quality.bits >= FINE_BITS
            and other.kv_cache.max_concurrency > cache.max_concurrency
            and other.kv_cache.max_model_len == cache.max_model_len
        ):
            ratio = other.kv_cache.max_concurrency / cache.max_concurrency
            first = asked.workload is None and asked.objective is Objective.BALANCED
            why = WEIGHED if first else ""
            faster = ""
            if other.speed is not None and best.speed is not None:
                faster = f" and give {compared(other.speed, best.speed)}"
            yield (
                f"{_article(other.kv_cache_dtype).capitalize()} {other.kv_cache_dtype} cache "
                f"(--kv-cache-dtype {other.kv_cache_dtype}) would hold {ratio:.2f} times as many "
                f"requests{faster}{why}."
            )
            return
