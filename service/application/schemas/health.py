"""What the probes answer."""

from typing import Literal

from service.application.schemas.base import Output


class Health(Output):
    """The service is up."""

    status: Literal["ok"]
    version: str
