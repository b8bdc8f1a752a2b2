"""The answer of health checks."""

from typing import Literal

from pydantic import Field

from service.application.schemas.base import Output


class Health(Output):
    """The service is up."""

    status: Literal["ok"] = Field(description="`ok`: the process answers")
    database: Literal["unused", "current", "newer", "older", "too_new", "unavailable"] = Field(
        description="What the last use of the database of probes and measurements found. `unused`: not used "
        "yet. `current`: its tables suit this version. `newer`: a newer version has upgraded them, and they "
        "still suit this version. `older`, `too_new`: they do not suit it, so that `/readyz` answers 503. "
        "`unavailable`: the database cannot be used now; plans need none, so that this version stays ready"
    )
    version: str = Field(description="Version of this service")
