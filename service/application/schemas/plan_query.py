"""PlanQuery: a request for a plan as a query string."""

from pydantic import ConfigDict, Field

from service.application.schemas.engine_parameters import EngineParameters
from service.application.schemas.plan_format import Format


class PlanQuery(EngineParameters):
    """The query string of a plan."""

    model_config = ConfigDict(defer_build=False)  # FastAPI would build it at the first request

    format: Format | None = Field(
        default=None, description="How to write the plan; left out: as the Accept header says"
    )
