"""The question that the address of a page asks, and the addresses of questions that differ from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlencode

from pydantic import ValidationError

from service.application.problems.invalid_request import invalid_request
from service.application.schemas.requests.plan_parameters import PlanParameters

PAGE_PARAMETERS: Final = ("view", "metric", "sort", "only", "find", "beside")
"""Parameters that choose what a page shows; the plan does not depend on them."""
WRITTEN: Final = ("format", "include")
"""Parameters of the JSON answer, which a page chooses by itself."""
LISTS: Final = frozenset({"gpu", "compare", "patch", "beside", "include"})
"""Parameters that may be repeated; of others the last one counts."""

Change: TypeAlias = str | int | float | bool | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """The parameters of a page, in order. Blank ones, which forms send, are left out."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Read the parameters of an address."""
        return cls(tuple((name, value.strip()) for name, value in pairs if value.strip()))

    def value(self, name: str) -> str:
        """Return a parameter, the last one if it is repeated; empty where it is left out."""
        return next((value for key, value in reversed(self.pairs) if key == name), "")

    def values(self, name: str) -> tuple[str, ...]:
        """Return every value of a repeated parameter."""
        return tuple(value for key, value in self.pairs if key == name)

    def changed(self, **changes: Change) -> "PageQuestion":
        """Return the question with other values; ``None`` takes a parameter away."""
        others = tuple(pair for pair in self.pairs if pair[0] not in changes)
        added = ((name, text) for name, change in changes.items() for text in _texts(change))
        return PageQuestion((*others, *added))

    def only(self, *names: str) -> "PageQuestion":
        """Return the question with nothing but some parameters."""
        return PageQuestion(tuple(pair for pair in self.pairs if pair[0] in names))

    @property
    def planned(self) -> "PageQuestion":
        """What the plan depends on."""
        away = (*PAGE_PARAMETERS, *WRITTEN)
        return PageQuestion(tuple(pair for pair in self.pairs if pair[0] not in away))

    @property
    def query(self) -> str:
        """The parameters as the query of an address."""
        return urlencode(self.pairs)

    def link(self, path: str = "plan") -> str:
        """Return the address of the question, relative to any page."""
        return f"{path}?{self.query}" if self.pairs else path

    def document(self) -> dict[str, Any]:
        """Return the body of the plan that the question asks for.

        Raises:
            InvalidRequest: a parameter is unknown or its value cannot be read.
            InputFault: the text of a GPU of the caller's own cannot be read.
        """
        values: dict[str, Any] = {}
        for name, value in self.planned.pairs:
            if name in LISTS:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
        try:
            return PlanParameters.model_validate(values).document()
        except ValidationError as error:
            found = error.errors(include_url=False)
            for each in found:
                each["loc"] = ("query", *each["loc"])
            raise invalid_request(found) from None


def _texts(change: Change) -> Iterator[str]:
    if change is None:
        return
    if isinstance(change, bool):
        yield "true" if change else "false"
    elif isinstance(change, str | int | float):
        yield str(change)
    else:
        yield from change
