"""Resolves a request for a plan: its model, release, GPU types and flags; and plans it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, cast

from pydantic import ValidationError

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.checkpoint_layouts import least_lossy_first
from service.advisor.request.plan_request import (
    EngineChoice,
    MeasuredTpot,
    Model,
    Objective,
    PlanRequest,
    Workload,
)
from service.advisor.request.siblings import siblings_of
from service.application.catalogs.model_catalog import quantized_model
from service.application.errors import InputFault, InvalidRequest, faults_together
from service.application.models.requested_draft import with_draft
from service.application.models.requested_model import requested_model
from service.application.plans.chosen_gpus import ChosenGpus, chosen_gpus, known_gpu
from service.application.plans.command_requests import at_its_place, with_gpu_of_command, without_command
from service.application.problems.flag_faults import flag_faults
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.backends.backend_rules import UnknownBackend
from service.engines.flags import ServeFlags
from service.engines.releases import (
    PATCHES,
    ResolvedRelease,
    UnknownPatch,
    UnknownRelease,
    resolve_release,
    rules_for,
)
from service.hub.bundled.published_checkpoints import published_checkpoints_of
from service.hub.bundled.snapshot import BundledSnapshot
from service.speed.prices import Price, PriceKind, PriceList

MAX_COMPARED: Final = 640
"""Most GPU types times releases of one request: every known type, for eight releases."""
MAX_DETAILED_GPUS: Final = 80
"""Most GPU types of one request with details or levers: every known type."""


def read_plan_body(document: object) -> PlanBody:
    """Read the body of a plan.

    Raises:
        InvalidRequest: values are missing, of the wrong type or out of range.
        UnknownFlag: `serve` names a flag that is not modelled.
    """
    try:
        return PlanBody.model_validate(document)
    except ValidationError as error:
        # Most requests are without a fault, and a command reads one.
        from service.application.problems.invalid_request import invalid_request  # noqa: PLC0415

        raise invalid_request(error.errors(include_url=False), PlanBody) from None


async def plan_request(body: PlanBody, services: PlanServices) -> PlanRequest:
    """Resolve the names in a body: its release with its rules, its GPU types, its model.

    Raises:
        InvalidRequest: there is neither a model nor a config, or the request is too large to plan.
        InputFault: a value names what does not exist, or a config cannot be read.
        HubError: the model's config could not be fetched.
    """
    without, command = body, None
    if body.command is not None:
        # A long document takes some tenths of a second.
        without, command = await run_cpu_bound(lambda: without_command(body, services.snapshot))
        if command is not None:
            without, command = with_gpu_of_command(without, command, services.gpus)
    try:
        request = await _plan_request(without, services)
    except InputFault as fault:
        raise at_its_place(fault, body) from fault.cause
    return request if command is None else replace(request, command=command)


async def _plan_request(body: PlanBody, services: PlanServices) -> PlanRequest:
    _check_work(body)
    flags = body.serve.flags()
    engine, (gpus, counts) = _named(body, flags, services)
    target = await requested_model(body, services, engine.rules)
    model = await with_draft(target, body, flags, services)
    workload = _workload(body)
    return PlanRequest(
        model,
        gpus,
        engine,
        flags,
        workload,
        Objective(body.objective),
        body.free_memory_bytes,
        prices=_prices(body, services),
        with_levers="levers" in body.include,
        counts=counts,
        whole_catalog=body.gpus is None,
        search=body.search,
    )


def _named(body: PlanBody, flags: ServeFlags, services: PlanServices) -> tuple[EngineChoice, ChosenGpus]:
    """Resolve the release, the flags and the GPU types of a body.

    Raises:
        InputFault: some do not exist; it names all of them.
    """
    with faults_together() as read:
        engine = read(lambda: _engine(body, flags))
        chosen = read(lambda: chosen_gpus(body.gpus, services.gpus, nvlink_bridge=body.nvlink_bridge))
    return cast("EngineChoice", engine), cast("ChosenGpus", chosen)


def _workload(body: PlanBody) -> Workload | None:
    """Return the workload of a body.

    Raises:
        InvalidRequest: measurements stand beside a search, whose candidates they are not of.
    """
    if body.workload is None:
        return None
    given = body.workload.model_dump()
    measured = tuple(MeasuredTpot(**each) for each in given.pop("measured"))
    if measured and body.search and body.command is None:
        words = "needs `search` to be false: it is measured on one start"
        raise InvalidRequest([("/workload/measured", words)])
    return Workload(**given, measured=measured)


def _prices(body: PlanBody, services: PlanServices) -> PriceList:
    """Return the prices of a body, then those of the service.

    Raises:
        InvalidRequest: the cheapest tokens are asked for, and no tokens are put out.
        InputFault: a price is of a GPU type that the catalog lacks.
    """
    if body.objective == "cost" and (body.workload is None or not body.workload.output_tokens):
        words = "with `output_tokens` is needed where the objective is `cost`"
        raise InvalidRequest([("/workload", words)])
    kind = PriceKind(body.price_kind)
    given = tuple(
        Price(
            gpu=known_gpu(each.gpu, f"/prices/{index}/gpu", services.gpus).id,
            usd_per_gpu_hour=each.usd_per_gpu_hour,
            kind=PriceKind(each.kind or kind),
            provider=each.provider,
            as_of=each.as_of,
            source="given",
        )
        for index, each in enumerate(body.prices)
    )
    return PriceList((given, services.prices), kind)


def answer_plan_request(request: PlanRequest, services: PlanServices) -> Plan:
    """Plan a request: milliseconds to a second of one core.

    Raises:
        InputFault: a flag names an attention backend that the release does not have.
    """
    request = with_siblings(request, services.snapshot)
    try:
        return services.plan(request)
    except UnknownBackend as error:
        commanded = request.command is not None and "attention_backend" in request.command.flags.serve
        raise InputFault("/command" if commanded else "/serve/attention_backend", error) from error


def with_siblings(request: PlanRequest, snapshot: BundledSnapshot) -> PlanRequest:
    """Return a request with the quantized checkpoints of its model that are known.

    The names of the bundled models are read from a file, so not while a request is resolved.
    """
    siblings, bundled = _planned_siblings(request.model.id, snapshot)
    if siblings == request.siblings:
        return request
    unbundled = frozenset(siblings).difference(each.id for each in bundled)
    # Replaced keys of a config hold for the checkpoint as well, whose own config lacks them.
    own = () if request.serve.hf_overrides else bundled
    return replace(request, siblings=siblings, unbundled=unbundled, bundled_siblings=own)


def _check_work(body: PlanBody) -> None:
    """Refuse requests that would take minutes of a core or tens of megabytes of answer."""
    gpus, releases = len(body.gpus or ()), max(1, len(body.engine.versions))
    if gpus * releases > MAX_COMPARED:
        words = f"are {gpus} for {releases} releases: at most {MAX_COMPARED} are planned, of both together"
        raise InvalidRequest([("/gpus", words)])
    if body.include and gpus > MAX_DETAILED_GPUS:
        raise InvalidRequest([("/gpus", f"are {gpus}: `include` goes with at most {MAX_DETAILED_GPUS}")])


def _engine(body: PlanBody, flags: ServeFlags) -> EngineChoice:
    """Resolve the releases and patches that a body names, once, and check the flags against the release."""
    versions = enumerate(body.engine.versions)
    compared = [_release(version, f"/engine/versions/{index}") for index, version in versions]
    if body.engine.version is None and compared:
        release = compared[-1]
    else:
        release = _release(body.engine.version, "/engine/version")
    patches = tuple(body.engine.patches)
    for index, patch in enumerate(patches):
        if patch not in PATCHES:
            raise InputFault(f"/engine/patches/{index}", UnknownPatch(patch))
    _refuse(flag_faults(flags, release.release))
    rules = [rules_for(each, patches) for each in (release, *compared)]
    return EngineChoice(rules[0], patches, body.engine.name, tuple(rules[1:]))


def _release(given: str | None, pointer: str) -> ResolvedRelease:
    try:
        return resolve_release(given)
    except UnknownRelease as error:
        raise InputFault(pointer, error) from error


def _refuse(found: Sequence[InputFault]) -> None:
    """Raise the first of several faults, which names the others too; nothing where there are none."""
    if found:
        raise InputFault(found[0].pointer, found[0].cause, found[1:]) from found[0].cause


@lru_cache(maxsize=256)
def _planned_siblings(model_id: str, snapshot: BundledSnapshot) -> tuple[tuple[str, ...], tuple[Model, ...]]:
    """Return quantized checkpoints of a model: bundled ones that the engine reads so, and published ones.

    Beside their ids stand the models of the bundled ones.
    """
    read = (quantized_model(each, snapshot) for each in siblings_of(model_id, snapshot.ids()))
    bundled = tuple(model for model in read if model is not None)
    ids = dict.fromkeys((*(each.id for each in bundled), *published_checkpoints_of(model_id)))
    return least_lossy_first(model_id, ids), bundled
