"""What a speed and a price mean for a recommendation, in words with numbers."""

from collections.abc import Iterable, Iterator

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.ranking.service_level import Service, service_of
from service.advisor.ranking.speed_limits import Meets, has_limits, meets
from service.advisor.request.plan_request import Workload
from service.speed.prices import Cost
from service.speed.serving_speed import Between, Speed

LIMIT_WORDS = {
    Meets.YES: "It meets the limits of the workload.",
    Meets.LIKELY: "It is expected to meet the limits of the workload; the interval reaches beyond them.",
    Meets.UNKNOWN: "Whether it meets the limits of the workload is not known.",
    Meets.UNLIKELY: "It is not expected to meet the limits of the workload; the interval reaches them.",
    Meets.NO: "It does not meet the limits of the workload.",
}


def number(value: float) -> str:
    """Return a figure with three significant digits."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if "e" in text or value >= 1000 else text  # noqa: PLR2004 - of 3 digits


def between(figure: Between) -> str:
    """Return a figure with its interval."""
    return f"{number(figure.middle)} ({number(figure.low)} to {number(figure.high)})"


def speed_sentence(speed: Speed, wanted: int) -> str:
    """Say how fast a start serves the workload, and what binds it; ``wanted``: requests of the workload."""
    running = speed.running_requests
    requests = "one request runs" if running == 1 else f"{running:,} requests run"
    if running < wanted:
        requests += " on average"
    return (
        f"{between(speed.output_tokens_per_second)} output tokens per second while {requests}, "
        f"{between(speed.tpot_ms)} ms a token; {speed.bound.value} bind{_ending(speed)} it ({speed.basis})."
    )


def _ending(speed: Speed) -> str:
    return "" if speed.bound.value.endswith("s") else "s"


def cost_sentence(cost: Cost) -> str:
    """Say what a million output tokens cost, with the terms of the price."""
    price = cost.price
    terms = ", ".join(filter(None, (price.kind.value.replace("_", " "), price.provider, price.as_of)))
    return (
        f"${between(cost.usd_per_million_output_tokens)} for a million output tokens at "
        f"${price.usd_per_gpu_hour:.2f} for an hour of one GPU ({terms})."
    )


def speed_sentences(candidate: Candidate, workload: Workload) -> Iterator[str]:
    """Yield what is known about the speed and the cost of a candidate, and whether it is fast enough."""
    if candidate.speed is not None:
        yield speed_sentence(candidate.speed, workload.concurrent_requests)
    if has_limits(workload):
        yield LIMIT_WORDS[meets(candidate, workload)]
    if candidate.cost is not None:
        yield cost_sentence(candidate.cost)


def cheapest_sentence(plans: Iterable[GpuPlan], workload: Workload) -> Iterator[str]:
    """Yield on which GPU type the tokens are cheapest, and which others are within its interval."""
    found = [
        (cost, plan)
        for plan in plans
        if (best := plan.recommended) is not None
        and (cost := best.cost) is not None
        and service_of(best, workload) is Service.WHOLE
        and meets(best, workload) <= Meets.LIKELY
    ]
    if len(found) < 2:  # noqa: PLR2004 - there is nothing to compare
        return
    cost, first = min(found, key=lambda each: each[0].usd_per_million_output_tokens.middle)
    tokens = cost.usd_per_million_output_tokens
    alike = sum(each.usd_per_million_output_tokens.low <= tokens.high for each, _ in found) - 1
    types = "GPU type" if alike == 1 else "GPU types"
    others = f"; {alike} more {types} may be as cheap" if alike else ""
    kind = cost.price.kind.value.replace("_", " ")
    yield f"Cheapest tokens: {first.gpu.id}, ${between(tokens)} a million ({kind}){others}."


def compared(one: Speed, other: Speed) -> str:
    """Say how many times the tokens per second of one are those of another, and whether that is certain."""
    rate, least = one.output_tokens_per_second, other.output_tokens_per_second
    alike = " (the intervals overlap)" if rate.overlaps(least) else ""
    return f"{rate.middle / least.middle:.2f} times the tokens per second{alike}"


def faster_sentence(candidates: Iterable[Candidate], best: Candidate) -> Iterator[str]:
    """Yield what the next larger number of GPUs would give, and what its tokens would take."""
    if best.speed is None:
        return
    larger = [
        each
        for each in candidates
        if each.speed is not None
        and each.may_serve
        and each.all_gpus > best.all_gpus
        and each.resolved_kv_cache_dtype == best.resolved_kv_cache_dtype
        and each.flags.quantization == best.flags.quantization
    ]
    if not larger:
        return
    other = min(larger, key=lambda each: each.all_gpus)
    if other.speed is not None:
        ratio = other.speed.output_tokens_per_second.middle / best.speed.output_tokens_per_second.middle
        hours = other.all_gpus / best.all_gpus / ratio
        yield (
            f"{other.all_gpus} GPUs would give {compared(other.speed, best.speed)}, at {hours:.2f} times the "
            "GPU hours for a token."
        )
