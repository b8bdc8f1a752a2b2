"""What the probes answer."""

from typing import Literal

from service.api.schemas.model_config import Output


class Health(Output):
    """The service is up."""

    status: Literal["ok"]
    version: str
