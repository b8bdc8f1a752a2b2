"""A problem type, as RFC 9457 calls a kind of error."""

from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A problem type."""

    slug: str
    """Its name, the last part of its URI."""
    status: HTTPStatus
    """The status that HTTP answers with."""
    title: str
    explanation: str
    """What it means, and what a caller can do about it."""

    @property
    def type(self) -> str:
        """The URI reference that names the type; GET answers it with the explanation."""
        return f"/problems/{self.slug}"
