"""The GPU types that a request names, and how many there are of each."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from service.application.errors import GpuNotModelled, InputFault, InvalidRequest, faults_together
from service.application.schemas.requests.gpu_choice import CountedGpu, GpuInput
from service.gpus.catalog import AmbiguousGpu, GpuCatalog, UnknownGpu
from service.gpus.gpu_count import InvalidCount, split_count
from service.gpus.gpu_type import GpuType, InvalidGpu
from service.gpus.own_gpu import own_gpu

ChosenGpus: TypeAlias = tuple[tuple[GpuType, ...], tuple[int | None, ...]]
"""GPU types, and how many there are of each; no numbers where every type is meant."""


def chosen_gpus(
    choices: Sequence[str | CountedGpu | GpuInput] | None, catalog: GpuCatalog, *, nvlink_bridge: bool = False
) -> ChosenGpus:
    """Return the GPU types of a body, and how many there are of each.

    ``nvlink_bridge`` promises the NVLink that is bought apart, for types that take one.

    Raises:
        InvalidRequest: a count cannot be read.
        InputFault: no GPU type of a name is modelled, or a GPU of the caller's own is not valid.
    """
    if choices is None:
        return tuple(_fitted(gpu, nvlink_bridge) for gpu in catalog if gpu.modelled), ()
    with faults_together() as read:
        tried = [
            read(partial(_gpu, choice, f"/gpus/{index}", catalog)) for index, choice in enumerate(choices)
        ]
    found = [each for each in tried if each is not None]
    return tuple(_fitted(gpu, nvlink_bridge) for gpu, _ in found), tuple(count for _, count in found)


def _fitted(gpu: GpuType, nvlink_bridge: bool) -> GpuType:
    return gpu.with_nvlink_promised() if nvlink_bridge else gpu


def _gpu(
    choice: str | CountedGpu | GpuInput, pointer: str, catalog: GpuCatalog
) -> tuple[GpuType, int | None]:
    if isinstance(choice, GpuInput):
        try:
            return own_gpu(**choice.model_dump(exclude={"count"})), choice.count
        except InvalidGpu as error:
            raise InputFault(f"{pointer}/{error.field}", error) from error
    if isinstance(choice, CountedGpu):
        return known_gpu(choice.id, f"{pointer}/id", catalog), choice.count
    try:
        name, count = split_count(choice)
    except InvalidCount as error:
        raise InvalidRequest([(pointer, str(error))]) from error
    return known_gpu(name, pointer, catalog), count


def known_gpu(name: str, pointer: str, catalog: GpuCatalog) -> GpuType:
    """Return the GPU type of a name.

    Raises:
        InputFault: no GPU type has this name, several have it, or it is not modelled.
    """
    try:
        gpu = catalog.named(name)
    except (AmbiguousGpu, UnknownGpu) as error:
        raise InputFault(pointer, error) from error
    if not gpu.modelled:
        raise InputFault(pointer, GpuNotModelled(gpu))
    return gpu
