"""Problems (RFC 9457): answers about errors."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from service.application.schemas.base import optional


class FieldError(BaseModel):
    """One value at fault."""

    pointer: str = Field(
        description="JSON pointer to the value in the body of a POST; for a GET, to its place in that body"
    )
    detail: str = Field(description="What is wrong with the value")
    nearest: list[str] | SkipJsonSchema[None] = optional(
        "Known names that are spelt like this value, at most five; left out where there are none"
    )


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={"required": ["type", "title", "status", "detail", "instance"]}
    )

    type: str = Field(description="URI reference of the problem type; GET answers it with an explanation")
    title: str = Field(description="The problem type in a few words")
    status: int = Field(description="The HTTP status")
    detail: str = Field(description="What is wrong with this request")
    instance: str = Field(description="URI of this request, which holds the value of its X-Request-ID header")
    errors: list[FieldError] | SkipJsonSchema[None] = optional(
        "Values at fault, at most ten; left out where no single value is"
    )
    nearest: list[str] | SkipJsonSchema[None] = optional(
        "Known names that are spelt like those at fault, at most five; `errors` has those of each value. "
        "Left out where there are none"
    )
    retry_after: int | SkipJsonSchema[None] = optional(
        "Seconds after which to repeat the request; left out where repeating it does not help"
    )


class ProblemTypeAnswer(BaseModel):
    """A problem type."""

    type: str = Field(description="URI reference of the problem type")
    title: str = Field(description="The problem type in a few words")
    status: int = Field(description="HTTP status that it is answered with")
    explanation: str = Field(description="What it means, and what a caller can do about it")


class ProblemTypeList(BaseModel):
    """All problem types."""

    problems: list[ProblemTypeAnswer] = Field(description="The problem types, by name")
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")
