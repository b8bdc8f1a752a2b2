"""A kind of fault, as callers are told of it."""

from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of fault."""

    slug: str
    status: HTTPStatus
    title: str
    explanation: str

    @property
    def type(self) -> str:
        """The URI reference that names it and answers with its explanation."""
        return f"/problems/{self.slug}"
