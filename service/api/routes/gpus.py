"""Routes of GPU types."""

from typing import Annotated

from fastapi import Path

from service.api.dependencies import Parts
from service.api.paging import After, Limit, page_of
from service.api.routes.route_list import RouteList
from service.application.schemas.answers.hardware import GpuAnswer, GpuList

router = RouteList(tags=["gpus"])


@router.get("/gpus", summary="List GPU types")
async def list_gpus(services: Parts, limit: Limit = None, after: After = None) -> GpuList:
    """List every GPU type with its memory as CUDA reports it, and where that is known from."""
    page = page_of(tuple(services.gpus), lambda gpu: gpu.id, limit, after)
    return GpuList(gpus=[GpuAnswer.model_validate(gpu) for gpu in page.items], next=page.next)


@router.get("/gpus/{gpu_id}", summary="Describe a GPU type")
async def get_gpu(
    gpu_id: Annotated[
        str, Path(max_length=100, description="Id or name of the GPU type, such as `RTX 4090`")
    ],
    services: Parts,
) -> GpuAnswer:
    """Describe one GPU type."""
    return GpuAnswer.model_validate(services.gpus.named(gpu_id))
