"""Faults as RFC 9457 writes them."""

from pydantic import BaseModel, ConfigDict, Field


class FieldError(BaseModel):
    """One value at fault."""

    pointer: str = Field(description="JSON pointer into the body of a POST, in whose words a GET is read too")
    detail: str


class Problem(BaseModel):
    """A fault (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={"required": ["type", "title", "status", "detail", "instance"]}
    )

    type: str = Field(description="Stable URI of the kind of fault, which can be fetched")
    title: str
    status: int
    detail: str
    instance: str = Field(description="Names this request, as the X-Request-ID header does")
    errors: list[FieldError] | None = None
    nearest: list[str] | None = Field(default=None, description="Known names spelt alike")
    retry_after: int | None = Field(default=None, description="Seconds after which to ask again")


class ProblemTypeAnswer(BaseModel):
    """A kind of fault."""

    type: str
    title: str
    status: int
    explanation: str


class ProblemTypeList(BaseModel):
    """All kinds of faults."""

    problems: list[ProblemTypeAnswer]
