"""Says in sentences and counts what a plan found: on how many GPU types it starts, and what it serves."""

from collections.abc import Sequence

from service.advisor.candidates.plan_types import Candidate, Counts, GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.ranking.service_level import Service, completed_of, refuses_prompts, service_of
from service.advisor.request.checkpoint_layouts import named_with_sizes
from service.advisor.request.longer_context import longer_context
from service.advisor.request.plan_request import PlanRequest, Workload
from service.advisor.words.pooling_words import pooling_sentence
from service.advisor.words.speed_words import cheapest_sentence, speed_sentences


def counts_of(plans: Sequence[GpuPlan], workload: Workload | None) -> Counts:
    """Count the GPU types of a plan by their verdicts, and by how their recommended candidates serve."""
    verdicts = [plan.verdict for plan in plans]
    services = [service_of(plan.recommended, workload) for plan in plans if plan.recommended]
    return Counts(
        gpu_types=len(plans),
        start=verdicts.count(Verdict.STARTS),
        uncertain=verdicts.count(Verdict.UNCERTAIN),
        refused=verdicts.count(Verdict.REFUSED),
        serve=None if workload is None else services.count(Service.WHOLE),
        preempt=None if workload is None else services.count(Service.INTERRUPTED),
    )


def reason_as_given(candidate: Candidate, request: PlanRequest) -> tuple[str, ...]:
    """Return in sentences what the engine does with the flags as given, where no other values were tried.

    Quantized checkpoints of the model are named where a refused start asks for one.
    """
    error, workload = candidate.error, request.workload
    if candidate.verdict is Verdict.REFUSED:
        words = f"It does not start: {'' if error is None else error.detail or error.message}"
        if candidate.flags.quantization is None or not request.siblings:
            return (words,)
        return (words, f"Quantized checkpoints: {named_with_sizes(request, request.siblings)}")
    doubt = " Whether it starts is uncertain." if candidate.verdict is Verdict.UNCERTAIN else ""
    served: list[str] = [pooling_sentence(candidate)]
    if workload is not None:
        served += (workload_words(candidate, workload, request), *speed_sentences(candidate, workload))
    return (f"Planned as given; no other values were tried.{doubt}", *filter(None, served))


def workload_words(candidate: Candidate, workload: Workload, request: PlanRequest) -> str:
    """Return in a sentence how many requests of a workload are admitted, and how many are not preempted."""
    admission, wanted = candidate.admission, workload.concurrent_requests
    if candidate.caches_nothing:
        return _encoder_words(candidate, workload)
    if admission is None:
        return "It has no cache for the workload."
    admitted, completed = admission.admitted_at_once * candidate.engines, completed_of(candidate)
    match service_of(candidate, workload):
        case Service.WHOLE:
            return f"It serves the whole workload: all {wanted:,} requests run at once, none is preempted."
        case _ if refuses_prompts(candidate):
            return _too_long(candidate, workload, request)
        case Service.INTERRUPTED:
            return (
                f"{admitted:,} can start together; only {completed:,} can finish without being preempted "
                f"(you want {wanted:,})."
            )
        case _:
            return f"{admitted:,} of the {wanted:,} requests can start together; the others wait."


def _too_long(candidate: Candidate, workload: Workload, request: PlanRequest) -> str:
    """Say in sentences that the workload's prompts do not fit the context, and which flags make it longer."""
    length = 0 if candidate.kv_cache is None else candidate.kv_cache.max_model_len
    needed = workload.prompt_tokens + max(workload.output_tokens, 1)
    longer = longer_context(request.model, candidate.flags, needed, request.engine.rules.lengths)
    return (
        f"The engine refuses these prompts: {workload.prompt_tokens:,} tokens leave no room for an answer in "
        f"the context of {length:,}. {longer}"
    )


def _encoder_words(candidate: Candidate, workload: Workload) -> str:
    """Return in a sentence how an encoder serves a workload: batch by batch, without a cache to wait for."""
    if service_of(candidate, workload) is not Service.WHOLE or candidate.start is None:
        return f"It refuses the workload: a prompt of {workload.prompt_tokens:,} tokens is too long."
    config, wanted = candidate.start.engine_config, workload.concurrent_requests
    fitting = max(1, config.max_num_batched_tokens // workload.prompt_tokens)
    together = min(wanted, config.max_num_seqs, fitting)
    return (
        f"It serves the whole workload: {together:,} of {wanted:,} requests are computed in one step, and no "
        "request waits for a cache. How many prompts a second that gives is not predicted."
    )


def verdict_sentence(request: PlanRequest, plans: tuple[GpuPlan, ...], counts: Counts) -> str:
    """Say on which or how many of the GPU types the model starts, and how much of the workload it serves."""
    workload, (first, *others) = request.workload, plans
    if not others:
        served = (
            f" {workload_words(first.recommended, workload, request)}"
            if first.recommended and workload
            else ""
        )
        return f"{request.model.id} on {first.gpu.id}: {first.verdict.replace('_', ' ')}.{served}"
    served = ""
    if workload is not None:
        more = f"; {counts.preempt} admit all its requests, but preempt some" if counts.preempt else ""
        cheapest = "".join(f" {words}" for words in cheapest_sentence(plans, workload))
        able = counts.start + counts.uncertain
        of_them = f" of the {able} that start or may start" if able else ""
        chosen = [plan.recommended for plan in plans if plan.recommended]
        refusing = next(filter(refuses_prompts, chosen), None)
        if refusing is not None and not counts.serve:
            more = f". {_too_long(refusing, workload, request).removesuffix('.')}"
        served = f" {counts.serve}{of_them} serve the whole workload{more}.{cheapest}"
    return (
        f"{request.model.id} on {counts.gpu_types} GPU types: {counts.start} start, {counts.uncertain} "
        f"uncertain, {counts.refused} do not start.{served}"
    )
