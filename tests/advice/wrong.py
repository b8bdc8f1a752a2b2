"""Recipes that are proven wrong, by row."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from tests.advice.judging import Judged, Judgement

_FILE: Final = Path(__file__).with_name("recipes_wrong.toml")


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why some recipes cannot work."""

    ids: tuple[str, ...]
    reason: str
    proof: str
    source: str
    date: date
    bytes: Mapping[str, float]
    """GiB of one GPU; empty where it is not about memory."""


def read_wrong() -> tuple[Wrong, ...]:
    """Return all entries."""
    entries = tomllib.loads(_FILE.read_text("utf-8"))["wrong"]
    return tuple(
        Wrong(**{**entry, "ids": tuple(entry["ids"]), "bytes": entry.get("bytes", {})}) for entry in entries
    )


def reasons(entries: Iterable[Wrong]) -> Mapping[str, str]:
    """Return the reason by row."""
    return {name: entry.reason for entry in entries for name in entry.ids}


def unused(entries: Iterable[Wrong], judged: Iterable[Judged], *, whole: bool) -> Iterator[str]:
    """Yield the rows of entries that excuse nothing.

    ``whole``: the rows are those that the entries were written for, so that each must be among them.
    """
    found = {each.row["id"]: each.judgement for each in judged}
    for entry in entries:
        for name in entry.ids:
            judgement = found.get(name)
            if judgement is Judgement.AGREE or (judgement is None and whole):
                yield f"{name} ({entry.reason}): {judgement.value if judgement else 'no such row'}"
