"""PlanQuery: a request for a plan as a query string."""

from pydantic import Field

from service.application.schemas.engine_parameters import EngineParameters
from service.application.schemas.plan_format import Format


class PlanQuery(EngineParameters):
    """The query string of a plan."""

    format: Format | None = Field(
        default=None, description="How to write the plan; left out: as the Accept header says"
    )
