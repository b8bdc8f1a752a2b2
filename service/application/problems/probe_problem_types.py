"""Problem types of probes, by the exceptions that they describe."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from service.application.errors import NotProbeable
from service.application.problems.problem_type import ProblemType
from service.probes.lifecycle import LeaseLost, ResultConflict
from service.store.errors import JobNotFound, KeyReused, QueueFull, SchemaMismatch, StoreUnavailable

PROBE_TYPE_BY_ERROR: Final[Mapping[type[Exception], ProblemType]] = {
    JobNotFound: ProblemType(
        "probe-not-found", HTTPStatus.NOT_FOUND, "No such probe", "GET /probes lists the latest ones."
    ),
    NotProbeable: ProblemType(
        "not-probeable",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "A probe cannot measure this",
        "The engine would fail before it allocates memory, or would need files that a probe does not "
        "download; `detail` says which.",
    ),
    KeyReused: ProblemType(
        "idempotency-key-reused",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The Idempotency-Key belongs to another request",
        "A key belongs to one request for ever: repeat that request, or use a new key.",
    ),
    QueueFull: ProblemType(
        "queue-full",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many probes wait",
        "No more are accepted until workers have taken some; `Retry-After` says when to repeat the request. "
        "DRYSERVE_PROBE_QUEUE_LIMIT sets how many may wait.",
    ),
    LeaseLost: ProblemType(
        "lease-lost",
        HTTPStatus.CONFLICT,
        "The lease is lost",
        "It ended, or another worker has the job by now. Stop the probe and take another job.",
    ),
    ResultConflict: ProblemType(
        "result-conflict",
        HTTPStatus.CONFLICT,
        "The probe ended with another result",
        "The first result is stored; only the same result may be sent again.",
    ),
    SchemaMismatch: ProblemType(
        "schema-mismatch",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The tables of the database do not suit this version",
        "Probes and calibrations need tables of another revision. `dryserve database check` says which the "
        "database has, and `dryserve database upgrade` upgrades older ones. Plans need no database.",
    ),
    StoreUnavailable: ProblemType(
        "store-unavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The database cannot be used now",
        "Probes and calibrations need it, plans do not. Repeat the request later.",
    ),
}
