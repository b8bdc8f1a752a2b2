"""The answer of health checks."""

from typing import Literal

from pydantic import Field

from service.application.schemas.base import Output


class Health(Output):
    """The service is up."""

    status: Literal["ok"] = Field(description="`ok`: the process answers")
    version: str = Field(description="Version of this service")
