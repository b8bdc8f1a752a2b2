"""Dated changes: a value holds from the release that brought it until the next change."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from packaging.version import Version

T = TypeVar("T")


class InvalidTimeline(ValueError):
    """A timeline of the bundled data is empty, out of order or lacks a source."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One dated value."""

    since: Version
    """First release that behaves so."""
    value: T
    source: str
    """Where this can be read: a release's function, or a pull request."""


@dataclass(frozen=True, slots=True)
class Timeline(Generic[T]):
    """What one rule was, release by release, oldest change first."""

    name: str
    changes: tuple[Change[T], ...]

    def __post_init__(self) -> None:
        if not self.changes:
            raise InvalidTimeline(f"{self.name}: no change is dated")
        for older, newer in pairwise(self.changes):
            if older.since >= newer.since:
                raise InvalidTimeline(f"{self.name}: {newer.since} does not follow {older.since}")

    @classmethod
    def parse(
        cls,
        name: str,
        changes: Iterable[Mapping[str, Any]],
        parse_value: Callable[[Any], T],
    ) -> "Timeline[T]":
        """Read ``[{since, value, source}, ...]`` as the bundled TOML writes it.

        Raises:
            InvalidTimeline: a change lacks a key, a value does not parse, or dates are out of order.
        """
        try:
            parsed = tuple(
                Change(Version(raw["since"]), parse_value(raw["value"]), str(raw["source"]))
                for raw in changes
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidTimeline(f"{name}: {error!r}") from error
        return cls(name, parsed)

    def change_at(self, release: Version) -> Change[T]:
        """Return the change in force in ``release``.

        Raises:
            LookupError: the release is older than the first dated change.
        """
        for change in reversed(self.changes):
            if change.since <= release:
                return change
        raise LookupError(f"{self.name} is not dated before {self.changes[0].since}")

    def at(self, release: Version) -> T:
        """Return the value in force in ``release``."""
        return self.change_at(release).value
