"""What an hour of a GPU costs the caller."""

from typing import Annotated, Final, Literal

from pydantic import Field

from service.application.schemas.base import Input
from service.application.schemas.requests.gpu_choice import GpuId
from service.speed.prices import HIGHEST

PriceKindName = Literal["on_demand", "spot", "reserved", "total_cost_of_ownership"]
PRICE_KIND: Final = "on_demand"
MAX_PRICES: Final = 256


class PriceInput(Input):
    """What an hour of a GPU costs the caller."""

    gpu: GpuId = Field(description="GPU type by id or name")
    usd_per_gpu_hour: Annotated[float, Field(gt=0, le=HIGHEST)] = Field(
        description="US dollars for an hour of each of the GPUs"
    )
    kind: PriceKindName | None = Field(
        default=None, description="On what terms; left out: those of `price_kind`"
    )
    provider: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="given", description="Who asks it"
    )
    as_of: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", max_length=10)] | None = Field(
        default=None, description="Day on which it held, as YYYY-MM-DD; left out: not known"
    )
