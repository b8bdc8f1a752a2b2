"""Jobs of probes: made from an operator's request, followed, cancelled, ended by a worker's result."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.tensors import planned_tensors
from service.application.errors import InputFault, InvalidRequest, NotProbeable
from service.application.job_events import POLL_SECONDS
from service.application.plans.plan_requests import answer_plan_request, plan_request
from service.application.probes.speed_probes import planned_times, speed_points, with_points
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.answers.candidate import CandidateAnswer
from service.application.schemas.members import Writing
from service.application.schemas.parts import Parts
from service.application.schemas.plain_values import answer_of
from service.application.schemas.probes.lease import STATES, ResultInput
from service.application.schemas.probes.probe import ProbeBody, QueuedFor
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import Probes, Services
from service.architecture.model_files import is_params
from service.architecture.reading import with_modelopt_file
from service.calibration.measurement import (
    MeasuredModel,
    Measurement,
    MeasurementOutcome,
    Result,
    TimedPoint,
    digest,
)
from service.engines.releases import UnknownRelease, find_release
from service.gpus.gpu_type import GpuType
from service.probes.job_spec import (
    CONTEXT_BYTES,
    NOT_PROBED,
    Alloc,
    Engine,
    Inventory,
    JobSpec,
    ProbeLimits,
    Question,
    Target,
)
from service.probes.job_state import State
from service.probes.lifecycle import Job, JobEnding
from service.serialization import MEASUREMENT, RESULT, written
from service.store.token import Token

MAX_RESULT_BYTES: Final = 512 << 10
"""JSON of one result; a list holds up to 200 of them, and a result of a thousand ranks has 400 kB."""


async def queue_probe(body: ProbeBody, key: str | None, requester: Token, services: Services) -> Job:
    """Queue the job that a body asks for; a key that was used before returns the job that it made.

    ``requester``: the token of whoever asks; the job names it.

    Raises:
        InvalidRequest, InputFault, HubError: as for ``spec_of``.
        KeyReused: the key was used for another body.
        QueueFull: too many jobs wait.
        StoreUnavailable: the database cannot be used.
    """
    spec = await spec_of(body, services)
    spec = replace(spec, question=replace(spec.question, requester=requester.name))
    job, new = await services.probes.jobs.add(spec, key, digest(body.model_dump(mode="json")))
    if new:
        services.probes.job_events.notify()
    return job


def waiting_for(job: Job, probes: Probes) -> QueuedFor | None:
    """Return how many workers could take a job that waits; None for a job that does not wait."""
    if job.state is not State.QUEUED:
        return None
    workers = probes.workers
    last = workers.last_able(job.spec)
    since = workers.since if last is None else last.last_seen
    return QueuedFor(len(workers.able(job.spec)), since, never=last is None)


async def cancel_probe(probe_id: str, probes: Probes) -> Job:
    """Cancel a queued job at once; its worker learns it from the answer to its next heartbeat.

    Raises:
        JobNotFound: there is no such job.
        StoreUnavailable: the database cannot be used.
    """
    job = await probes.jobs.cancel(probe_id)
    probes.job_events.notify()
    return job


async def follow_probe(job: Job, probes: Probes) -> AsyncIterator[Job]:
    """Yield a job now and after each change, until it has ended or the service shuts down.

    Raises:
        JobNotFound: the job was removed meanwhile.
        StoreUnavailable: the database cannot be used.
    """
    seen = None
    while True:
        waiting = waiting_for(job, probes)
        able = None if waiting is None else waiting.able
        if (current := (job.state, job.phase, job.fence, job.cancel_requested, able)) != seen:
            seen = current
            yield job
        if job.ended or probes.job_events.closed:
            return
        await probes.job_events.wait(POLL_SECONDS)
        job = await probes.jobs.get(job.id)


async def spec_of(body: ProbeBody, services: Services) -> JobSpec:
    """Return the job that a body asks for.

    Raises:
        InvalidRequest: a plan is missing, or has not exactly one GPU.
        InputFault: a value of the plan is at fault, or it cannot be measured.
        HubError: the model's config could not be had.
    """
    limits = ProbeLimits(**body.limits.model_dump())
    if body.kind == "inventory":
        return JobSpec(Inventory(), Target(**body.target.model_dump(), gpus=0), limits)
    if body.plan is None or body.plan.gpus is None or len(body.plan.gpus) != 1:
        raise InvalidRequest([("/plan/gpus", "must name exactly one GPU")])
    _check(body.plan)
    requested = _resolved(body.plan)
    try:
        request = await plan_request(requested, services)
        planned = await run_cpu_bound(lambda: answer_plan_request(request, services))
    except InputFault as fault:
        raise fault.moved("/plan{}".format) from fault
    candidate = planned.plans[0].candidates[0]
    predicted = _predicted(candidate)
    config = await startable_config(requested.config, requested.model, requested.revision, services)
    if config is None:
        raise InputFault("/plan/model", NotProbeable("only models with a config.json can be started"))
    engine = _engine(
        candidate,
        MeasuredModel(request.model.id, config, request.model.checkpoint_bytes),
        requested.serve.model_dump(exclude_none=True),
        planned.engine.version,
    )
    is_engine = body.kind in {"engine", "speed"}
    if body.kind == "speed":
        points = speed_points(candidate)
        engine = with_points(engine, candidate, points)
        predicted["steps"] = list(planned_times(candidate, request.gpus[0], points))
    target = Target(
        **{**body.target.model_dump(), "gpu_name": _gpu_name(body, request.gpus[0].name)},
        engine_release=engine.release if is_engine else None,
        gpus=engine.ranks if is_engine else 1,
    )
    work = engine if is_engine else _alloc(candidate, request.gpus[0])
    question = Question(
        model=request.model.id,
        revision=requested.revision,
        gpu_id=request.gpus[0].id,
        engine_release=planned.engine.version,
        flags=body.plan.serve.model_dump(mode="json", exclude_none=True),
    )
    return JobSpec(work, target, limits, predicted, question)


def _check(plan: PlanBody) -> None:
    if plan.command is not None:
        # A job is stored and read by others, and a command can hold secrets.
        raise InputFault(
            "/plan/command", NotProbeable("a probe takes the model and the flags, not a command")
        )
    for name in sorted(NOT_PROBED):
        if getattr(plan.serve, name) is not None:
            raise InputFault(f"/plan/serve/{name}", NotProbeable(f"a probe cannot take {name}"))
    if (plan.serve.data_parallel_size or 1) > 1:
        words = "a probe starts one replica; its ranks are those of the others too"
        raise InputFault("/plan/serve/data_parallel_size", NotProbeable(words))
    try:
        # A plan for a newer version is one of another release, which a probe must not measure in its place.
        find_release(plan.engine.version or next(reversed(plan.engine.versions), None))
    except UnknownRelease as error:
        raise InputFault("/plan/engine/version", error) from error
    if plan.engine.patches:
        raise InputFault("/plan/engine/patches", NotProbeable("a patch is not installed anywhere"))


def _resolved(plan: PlanBody) -> PlanBody:
    """Return the plan with one candidate where it would try several: one rank, cache dtype `auto`."""
    serve = plan.serve.model_copy(
        update={
            "tensor_parallel_size": plan.serve.tensor_parallel_size or 1,
            "kv_cache_dtype": plan.serve.kv_cache_dtype or "auto",
        }
    )
    return plan.model_copy(update={"serve": serve})


async def startable_config(
    config: dict[str, Any] | None, model: str | None, revision: str | None, services: Services
) -> dict[str, Any] | None:
    """Return the config.json that a model is started from; ``None`` where it has none.

    Raises:
        HubError: it could not be had.
    """
    if config is None:
        fetched = await services.models.resolve(str(model), revision)
        config = dict(with_modelopt_file(fetched.config, fetched.quantization_config))
    return None if not config or is_params(config) else config


def _gpu_name(body: ProbeBody, planned: str) -> str | None:
    """Return the name that the GPU must have: the plan's, unless the caller names a GPU or a worker."""
    target = body.target
    return target.gpu_name or (None if target.gpu_uuid or target.label else planned)


def _predicted(candidate: Candidate) -> dict[str, Any]:
    if candidate.memory is None or candidate.kv_cache is None:
        words = candidate.error.message if candidate.error else "; ".join(candidate.warnings)
        raise InputFault("/plan", NotProbeable(f"the plan does not start: {words}"))
    writing = Writing(Parts(memory=True, cache=True))
    answer = answer_of(CandidateAnswer, candidate, writing)
    predicted = answer.model_dump(mode="json", include={"memory", "kv_cache", "block_size"})
    texts = writing.texts.by_id()
    memory = predicted["memory"]
    for term in (*memory.values(), *memory["host"].values()):
        if term is not memory["host"]:
            term["source"] = texts[term["source"]]
    return predicted


def _engine(candidate: Candidate, model: MeasuredModel, flags: dict[str, Any], release: str | None) -> Engine:
    if candidate.kv_cache is None or candidate.memory is None:
        raise ValueError("a candidate without a cache is not probed")
    # The least cache that releases accept: one request of the maximum length, and the null block.
    blocks = sum(group.blocks_per_request for group in candidate.kv_cache.groups) + 2
    memory = candidate.memory
    terms = (memory.weights, memory.activation, memory.non_torch, memory.cuda_graphs)
    cache_bytes = blocks * candidate.kv_cache.largest_bytes_per_block
    return Engine(
        model=model,
        flags=flags,
        release=str(release),
        tensor_parallel_size=candidate.tensor_parallel_size,
        pipeline_parallel_size=candidate.pipeline_parallel_size,
        blocks=blocks,
        bytes=sum(term.high for term in terms) + cache_bytes + CONTEXT_BYTES,
    )


def _alloc(candidate: Candidate, gpu: GpuType) -> Alloc:
    tensors = planned_tensors(candidate, gpu)
    return Alloc(tensors.weights, tensors.cache)


def ending_of(job: Job, node: str, given: ResultInput, reporter: str, now: float) -> JobEnding:
    """Return how a job ended, by what its worker handed in.

    ``reporter``: id of the token that the result came with.
    ``now``: seconds since the epoch, by the service's own clock.

    Raises:
        InvalidRequest: a measurement is missing, or came where none was asked for; the result is too large.
    """
    if len(given.model_dump_json()) > MAX_RESULT_BYTES:
        raise InvalidRequest([("/result", f"must have at most {MAX_RESULT_BYTES:,} bytes")])
    outcome = MeasurementOutcome(given.outcome)
    measurement = _measurement(job, node, given, reporter, now)
    result = Result(
        outcome=outcome,
        detail=given.detail,
        measurement=measurement,
        inventory=tuple(given.inventory),
        allocation=given.allocation,
        steps=tuple(TimedPoint(**each.model_dump()) for each in given.steps),
        log_excerpt=given.log_excerpt,
    )
    return JobEnding(STATES[outcome], written(RESULT, result), digest(given.model_dump(mode="json")))


def _measurement(job: Job, node: str, given: ResultInput, reporter: str, now: float) -> Measurement | None:
    work = job.spec.work
    wanted = MeasurementOutcome(given.outcome) is MeasurementOutcome.MEASURED and isinstance(work, Engine)
    if wanted is (given.measurement is None):
        words = "must be there for an engine probe that measured, and for no other result"
        raise InvalidRequest([("/result/measurement", words)])
    if given.measurement is None or not isinstance(work, Engine):
        return None
    # The job says what was started, the service's clock says when: a worker could say anything.
    known = {
        "node": node,
        "measured_at": now,
        "release": work.release,
        "flags": work.flags,
        "model": work.model,
        "reporter": reporter,
    }
    return MEASUREMENT.validate_python({**given.measurement.model_dump(), **known})
