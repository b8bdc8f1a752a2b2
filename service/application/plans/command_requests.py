"""Turns a command in the body of a request into the model, the release and the flags of that body."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from service.application.errors import InputFault, InvalidRequest, LocalModel, RefusedCommand
from service.application.models.local_models import local_model
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.requests.gpu_choice import CountedGpu
from service.application.schemas.requests.plan_body import PlanBody
from service.engine_config.parallel_checks import count_refusal
from service.engines.releases import UnknownRelease, resolve_release
from service.gpus.catalog import AmbiguousGpu, GpuCatalog, UnknownGpu
from service.gpus.gpu_count import MOST
from service.hub.bundled.snapshot import BundledSnapshot
from service.launch_command.command_reading import CommandReading
from service.launch_command.launch import UnreadableCommand
from service.nearest_names import quoted

POINTER: Final = "/command"
SHARED: Final = "-SHARED"
"""What NVIDIA's GPU feature discovery appends to the product of a GPU that is shared in time; its resources
count shares and not GPUs. Source: k8s-device-plugin 02f65cc, internal/lm/resource.go productLabel."""
NAME_THE_GPU: Final = "Every modelled type is planned; use --gpu (`gpus` in a body) to name yours."
DEFAULTS: Final[Mapping[str, Any]] = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"}
"""What the engine takes for flags that a plan searches where they are left out."""
_CACHED: Final = re.compile(r"models--([A-Za-z0-9_.-]+?)--([A-Za-z0-9_.-]+?)(?:/|$)")
"""A folder of the Hub's cache. Source: huggingface_hub, file_download.repo_folder_name."""
_FOLDER: Final = re.compile(r"[/.~]|[A-Za-z]:[\\/]|s3://|gs://|pvc://|oci://|file://")


def without_command(body: PlanBody, at_hand: BundledSnapshot) -> tuple[PlanBody, CommandReading | None]:
    """Return a body whose fields hold what a command says, and the command as it was read.

    What a field beside the command says wins over the command.

    Raises:
        InputFault: the command cannot be read, or serves a folder of another machine.
        RefusedCommand: the release's own parser refuses it.
        InvalidRequest: a value in it is out of range, or it names no model.
    """
    if body.command is None:
        return body, None
    from service.launch_command.read_commands import read_command  # noqa: PLC0415 - many readers of many forms

    try:
        reading = read_command(
            body.command, body.engine.version or next(reversed(body.engine.versions), None)
        )
        if body.engine.version is None and not body.engine.versions:
            resolve_release(reading.launch.release.version)
    except (UnreadableCommand, UnknownRelease) as error:
        raise InputFault(POINTER, error) from error
    return with_reading(body, reading, at_hand), reading


def with_reading(body: PlanBody, reading: CommandReading, at_hand: BundledSnapshot) -> PlanBody:
    """Return a body whose fields hold what a command says that was read.

    Raises:
        InputFault: it serves a folder of another machine.
        RefusedCommand: the release's own parser refuses it.
        InvalidRequest: a value in it is out of range, or it names no model.
    """
    if reading.unknown or reading.faults:
        raise RefusedCommand(reading)
    changed: dict[str, Any] = {"command": None, "serve": _serve(body, reading)}
    if body.model is None and body.config is None:
        changed["model"] = _model(reading, at_hand)
    elif body.model is None:
        changed["model"] = reading.launch.model
    revision = reading.launch.flag("revision")
    if body.revision is None and revision is not None and isinstance(revision.value, str):
        changed["revision"] = revision.value
    if body.engine.version is None and not body.engine.versions:
        changed["engine"] = body.engine.model_copy(update={"version": _version(reading)})
    return body.model_copy(update=changed)


def with_gpu_of_command(
    body: PlanBody, reading: CommandReading, catalog: GpuCatalog
) -> tuple[PlanBody, CommandReading]:
    """Return a body that names the GPU type the text asks a scheduler for, and the command with a note on it.

    GPUs of the body win. A name that is not known, or means several types, is only noted.
    """
    placement = reading.launch.placement
    name = placement.gpu_name
    if body.gpus is not None or not name:
        return body, reading
    try:
        gpu = catalog.named(name.removesuffix(SHARED))
    except (AmbiguousGpu, UnknownGpu) as error:
        return body, _noted(
            reading, f"The text asks for the GPU type {quoted(name)}: {error}. {NAME_THE_GPU}"
        )
    if not gpu.modelled:
        words = f"The text asks for the GPU type {quoted(name)}, which is not modelled. {NAME_THE_GPU}"
        return body, _noted(reading, words)
    each = placement.gpus_per_node
    count = None if each is None else each * (placement.nodes or 1)
    if name.endswith(SHARED) or (count is not None and not 1 <= count <= MOST):
        count = None
    if count_refusal(body.serve.flags(), count) is not None:
        count = None  # a doubt of the reading says so: Ray may join more nodes than the text names
    number = "" if count is None else f"{count} x "
    changed = body.model_copy(update={"gpus": [CountedGpu(id=gpu.id, count=count)]})
    words = f"Planned for {number}{gpu.id}, since the text asks for {quoted(name)} and no GPU is named."
    return changed, _noted(reading, words)


def _noted(reading: CommandReading, note: str) -> CommandReading:
    return replace(reading, notes=(*reading.notes, note))


def at_its_place(fault: InputFault, body: PlanBody) -> InputFault:
    """Return a fault that points to the command, if the value at fault comes from there."""
    return fault.moved(lambda pointer: POINTER if _is_of_command(pointer, body) else pointer)


def _is_of_command(pointer: str, body: PlanBody) -> bool:
    """Whether a value comes from the command of a body."""
    section, _, name = pointer.strip("/").partition("/")
    field = name.partition("/")[0]
    return body.command is not None and (
        (section == "serve" and getattr(body.serve, field, None) is None)
        or (pointer == "/engine/version" and body.engine.version is None)
    )


def _version(reading: CommandReading) -> str | None:
    """Return the release that the text names, or the one that was taken because of its flags."""
    return reading.launch.release.version or str(reading.release)


def _serve(body: PlanBody, reading: CommandReading) -> ServeInput:
    given = body.serve.model_dump(exclude_none=True)
    try:
        read = ServeInput.model_validate(reading.flags.serve)
    except ValidationError as error:
        places = [
            (POINTER, f"{_flag(each['loc'])}: {each['msg']}") for each in error.errors(include_url=False)
        ]
        raise InvalidRequest(places) from None
    return ServeInput.model_validate({**DEFAULTS, **read.model_dump(exclude_none=True), **given})


def _flag(place: tuple[int | str, ...]) -> str:
    head, *keys = (str(part) for part in place if not isinstance(part, int))
    return ".".join((f"--{head.replace('_', '-')}", *keys[:1]))


def _model(reading: CommandReading, at_hand: BundledSnapshot) -> str:
    model = reading.launch.model
    if model is None:
        unresolved = reading.launch.unresolved
        why = (
            f"its value is in {unresolved[0]}, which the text does not give"
            if unresolved
            else "it names none"
        )
        raise InvalidRequest([(POINTER, f"the command does not say its model: {why}; name it in `model`")])
    cached = _CACHED.search(model)
    if cached is not None:
        return f"{cached[1]}/{cached[2]}"
    if _FOLDER.match(model):
        raise InputFault(POINTER, LocalModel(model, local_model(model, None, at_hand)))
    return model
