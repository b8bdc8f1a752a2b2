"""Several engines on one GPU: from the body of a request to their plans."""

from dataclasses import replace
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.colocation import Colocation, SharedStart, colocated
from service.advisor.joint_shares import with_joint_shares
from service.advisor.request.plan_request import PlanRequest
from service.application.errors import InputFault, InvalidRequest
from service.application.plans.command_requests import with_reading
from service.application.plans.plan_requests import answer_plan_request, plan_request
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.colocation import MAX_ENGINES, ColocationBody
from service.application.schemas.requests.plan_body import EngineInput, PlanBody
from service.application.services import PlanServices
from service.engines.releases import UnknownRelease, resolve_release
from service.launch_command.command_reading import CommandReading
from service.launch_command.launch import LaunchForm, UnreadableCommand

POINTER: Final = "/command"
SCHEDULED: Final = frozenset(
    {LaunchForm.KUBERNETES, LaunchForm.KSERVE, LaunchForm.HELM_VALUES, LaunchForm.RAY_SERVE}
)
"""Forms in which a scheduler gives every start GPUs of its own."""


async def colocation_request(body: ColocationBody, services: PlanServices) -> tuple[SharedStart, ...]:
    """Resolve the names in a body: the model, release and flags of every engine.

    Raises:
        InvalidRequest: there are no engines, or they are given twice.
        InputFault: a value names what does not exist; its pointer tells the engine.
        HubError: a model's config could not be fetched.
    """
    if (body.command is None) == (body.engines is None):
        raise InvalidRequest([("", "give either `command` or `engines`")])
    if body.command is not None:
        return await _of_command(body, body.command, services)
    starts = []
    for index, engine in enumerate(body.engines or ()):
        if engine.gpus is not None:
            raise InvalidRequest([(f"/engines/{index}/gpus", "the GPU is named once, in `gpu`")])
        try:
            request = await plan_request(_on_gpu(engine, body), services)
        except InputFault as fault:
            raise fault.moved(f"/engines/{index}{{}}".format) from fault.cause
        devices = () if request.command is None else request.command.launch.placement.devices
        starts.append(SharedStart(request, devices))
    return tuple(starts)


def answer_colocation(starts: tuple[SharedStart, ...], services: PlanServices) -> Colocation:
    """Plan the engines in their order: at most four plans of one start for each, and for each set of shares.

    Raises:
        InputFault: a flag names an attention backend that the release does not have.
    """

    def plan(request: PlanRequest) -> Candidate:
        return answer_plan_request(request, services).plans[0].candidates[0]

    return with_joint_shares(starts, colocated(starts, plan), plan)


async def _of_command(body: ColocationBody, command: str, services: PlanServices) -> tuple[SharedStart, ...]:
    from service.launch_command.read_commands import read_commands  # noqa: PLC0415 - many readers of many forms

    try:
        readings = await run_cpu_bound(lambda: read_commands(command, body.version))
        for each in readings:
            resolve_release(body.version or each.launch.release.version)
    except (UnreadableCommand, UnknownRelease) as error:
        raise InputFault(POINTER, error) from error
    if len(readings) > MAX_ENGINES:
        words = f"starts the engine {len(readings)} times: at most {MAX_ENGINES} are planned"
        raise InvalidRequest([(POINTER, words)])
    alone = len(readings) == 1
    starts = [await _of_reading(body, each, index, services) for index, each in enumerate(readings)]
    return tuple(replace(each, pool="") if alone else each for each in starts)


async def _of_reading(
    body: ColocationBody, reading: CommandReading, index: int, services: PlanServices
) -> SharedStart:
    base = PlanBody(engine=EngineInput(version=body.version), search=False)
    try:
        filled = with_reading(base, reading, services.snapshot)
        request = await plan_request(_on_gpu(filled, body), services)
    except InputFault as fault:
        raise fault.moved(lambda _: POINTER) from fault.cause
    pool = f"start {index + 1}, GPU " if reading.launch.form in SCHEDULED else ""
    return SharedStart(replace(request, command=reading), reading.launch.placement.devices, pool)


def _on_gpu(body: PlanBody, shared: ColocationBody) -> PlanBody:
    return body.model_copy(update={"gpus": [shared.gpu], "search": False})
