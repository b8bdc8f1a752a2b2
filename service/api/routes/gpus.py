"""Routes of GPU types."""

from typing import Annotated

from fastapi import APIRouter, Path

from service.api.dependencies import Parts
from service.application.schemas.hardware import GpuAnswer, GpuList

router = APIRouter(tags=["gpus"])


@router.get("/gpus", summary="List GPU types")
async def list_gpus(services: Parts) -> GpuList:
    """List every GPU type with its memory as CUDA reports it, and where that is known from."""
    return GpuList(gpus=[GpuAnswer.model_validate(gpu) for gpu in services.gpus])


@router.get("/gpus/{gpu_id}", summary="Describe a GPU type")
async def get_gpu(
    gpu_id: Annotated[str, Path(max_length=100, description="Id of the GPU type")],
    services: Parts,
) -> GpuAnswer:
    """Describe one GPU type."""
    return GpuAnswer.model_validate(services.gpus.find(gpu_id))
