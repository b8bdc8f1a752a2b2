"""Pages of lists: a number of items, those after a given one, and the one to go on after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

from fastapi import Query

from service.application.errors import InvalidRequest

MOST_ITEMS: Final = 200

Item = TypeVar("Item")
Limit: TypeAlias = Annotated[
    int | None,
    Query(ge=1, le=MOST_ITEMS, description="Largest number of items in the answer; left out: all items"),
]
After: TypeAlias = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=500,
        description="Value of `next` in the page before; left out: the list from its beginning",
    ),
]


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list."""

    items: Sequence[Item]
    next: str | None
    """Name of the last item; ``None`` if the list ends with it."""


def page_of(
    items: Sequence[Item], name_of: Callable[[Item], str], limit: int | None, after: str | None
) -> Page[Item]:
    """Return the part of a list that a request asks for.

    Raises:
        InvalidRequest: no item has the name that the request gives.
    """
    if after is not None:
        names = [name_of(item) for item in items]
        if after not in names:
            raise InvalidRequest([("/after", "is not the `next` of an earlier page of this list")])
        items = items[names.index(after) + 1 :]
    if limit is None or len(items) <= limit:
        return Page(items, None)
    return Page(items[:limit], name_of(items[limit - 1]))
