"""PlanQuery: a request for a plan as a query string, and how its answer is written."""

from typing import Annotated

from pydantic import ConfigDict, Field

from service.application.schemas.base import Input
from service.application.schemas.requests.engine_parameters import EngineParameters
from service.application.text.layout import NARROWEST, WIDEST, WIDTH, Kept, Order, TextOptions
from service.application.text.plan_format import Format


class WrittenForm(Input):
    """How a plan is written. All but the format change tables for people alone."""

    model_config = ConfigDict(strict=False)

    format: Format | None = Field(
        default=None,
        description="How to write the plan; left out: as `format` in the body or the Accept header says",
    )
    sort: Order | None = Field(
        default=None,
        description="Order of several GPU types in a table: fewest GPUs, most tokens, least memory of one "
        "GPU, or name; left out: as in the request",
    )
    only: Kept | None = Field(
        default=None,
        description="GPU types in a table: those on which it starts, or that serve the workload; left out: "
        "all",
    )
    all: bool = Field(
        default=False, description="Whether a table lists every candidate, and every refusal in full"
    )
    width: Annotated[int, Field(ge=NARROWEST, le=WIDEST)] = Field(
        default=WIDTH, description="Characters of a line of a table"
    )

    def options(self, *, curve: bool) -> TextOptions:
        """Return how a table is written; ``curve``: with how many requests of which length run at once."""
        return TextOptions(self.width, every=self.all, order=self.sort, only=self.only, curve=curve)


class PlanQuery(EngineParameters, WrittenForm):
    """The query string of a plan."""
