"""How much of a workload a candidate serves, with all its replicas."""

from enum import IntEnum

from service.advisor.candidates.admission import Waiting
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import Workload


class Service(IntEnum):
    """How much of a workload a candidate serves, best first."""

    WHOLE = 0
    """All its requests run at once, and none is preempted."""
    INTERRUPTED = 1
    """All are admitted, but some are preempted and computed again."""
    PART = 2
    """Some wait to be admitted."""
    NONE = 3


def service_of(candidate: Candidate, workload: Workload | None) -> Service:
    """Return how much of the workload a candidate serves; without a workload, any cache serves it."""
    if candidate.caches_nothing:
        return _encoder_service(candidate, workload)
    if candidate.kv_cache is None:
        return Service.NONE
    if workload is None:
        return Service.WHOLE
    admission, wanted = candidate.admission, workload.concurrent_requests
    if admission is None or not admission.admitted_at_once:
        return Service.NONE
    if admission.admitted_at_once * candidate.engines < wanted:
        return Service.PART
    return Service.WHOLE if completed_of(candidate) >= wanted else Service.INTERRUPTED


def _encoder_service(candidate: Candidate, workload: Workload | None) -> Service:
    """Return how much an encoder serves: every request of the length that it takes, batch by batch."""
    if candidate.start is None or candidate.verdict is Verdict.REFUSED:
        return Service.NONE
    length = candidate.start.engine_config.max_model_len
    return Service.WHOLE if workload is None or workload.prompt_tokens <= length else Service.NONE


def refuses_prompts(candidate: Candidate) -> bool:
    """Return whether the workload's prompts leave no room for an answer in the context."""
    admission = candidate.admission
    return admission is not None and admission.waits_for is Waiting.MAX_MODEL_LEN


def completed_of(candidate: Candidate) -> int:
    """Return the requests of the workload that all replicas together finish without preemption."""
    admission = candidate.admission
    return 0 if admission is None else admission.completed_without_preemption * candidate.engines


def serves(candidate: Candidate, workload: Workload | None) -> bool:
    """Return whether all requests of the workload run at once without preemption."""
    return service_of(candidate, workload) is Service.WHOLE
