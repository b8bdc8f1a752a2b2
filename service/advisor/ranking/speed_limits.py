"""Whether a candidate is fast enough for the limits of a workload."""

from enum import IntEnum

from service.advisor.candidates.plan_types import Candidate
from service.advisor.request.plan_request import Workload
from service.speed.serving_speed import Between, Speed


class Meets(IntEnum):
    """How sure it is that a limit is met, best first."""

    YES = 0
    """By the whole interval, or there is no limit."""
    LIKELY = 1
    """By the expected figure."""
    UNKNOWN = 2
    """The speed is not known."""
    UNLIKELY = 3
    """By one end of the interval alone."""
    NO = 4


def meets(candidate: Candidate, workload: Workload | None) -> Meets:
    """Return how sure it is that a candidate meets all limits of a workload."""
    if workload is None or not has_limits(workload):
        return Meets.YES
    return Meets.UNKNOWN if candidate.speed is None else _speed_meets(candidate.speed, workload)


def has_limits(workload: Workload) -> bool:
    """Whether a workload says how fast it must be served."""
    limits = (workload.max_tpot_ms, workload.max_ttft_ms, workload.request_rate)
    return any(limit is not None for limit in limits)


def _speed_meets(speed: Speed, workload: Workload) -> Meets:
    found = [Meets.YES]
    if workload.max_tpot_ms is not None:
        found.append(_at_most(speed.tpot_ms, workload.max_tpot_ms))
    if workload.max_ttft_ms is not None:
        found.append(_at_most(speed.ttft_ms, workload.max_ttft_ms))
    if workload.request_rate is not None and speed.saturated:
        rate, served = workload.request_rate, speed.requests_per_second
        found.append(_at_most(Between(-served.high, -served.middle, -served.low), -rate))
    return max(found)


def _at_most(figure: Between, limit: float) -> Meets:
    if figure.high <= limit:
        return Meets.YES
    if figure.middle <= limit:
        return Meets.LIKELY
    return Meets.UNLIKELY if figure.low <= limit else Meets.NO
