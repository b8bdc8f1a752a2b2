"""Our answers beside the engine's, field by field."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.questions import Question

LAYER: Final = re.compile(r"^Layer \S+: ")
"""The engine names the first layer it comes across; the sentence after it is fixed."""


@dataclass(frozen=True)
class Verdict:
    """One question, what the engine said, and the first field in which we differ."""

    question: Question
    theirs: Mapping[str, Any]
    difference: str | None
    """``None`` when all agrees."""

    @property
    def outcome(self) -> str:
        """Return what the engine made of it, in a word."""
        return str(self.theirs["error"]["type"]) if "error" in self.theirs else "starts"

    @property
    def row(self) -> Mapping[str, Any]:
        """Return the row that is kept: the question and the engine's answer."""
        question = self.question
        return {"title": question.title, "asked": question.requested, "answered": self.theirs}


def compare(question: Question, theirs: Mapping[str, Any]) -> Verdict:
    """Compare one answer with ours."""
    return Verdict(question, theirs, difference(question.answer, theirs))


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Return the first field that differs, with the engine's value and ours."""
    for field in dict.fromkeys((*theirs, *ours)):
        expected, found = theirs.get(field), ours.get(field)
        if field == "error":
            expected, found = _comparable(expected), _comparable(found)
        if expected != found:
            return _where(field, expected, found)
    return None


def _where(path: str, theirs: Any, ours: Any) -> str:  # noqa: ANN401 - JSON
    """Return the innermost place where two values differ, with both."""
    pairs: Iterable[tuple[object, Any, Any]] = ()
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        pairs = ((key, value, ours[key]) for key, value in theirs.items())
    elif isinstance(theirs, list | tuple) and isinstance(ours, list | tuple) and len(theirs) == len(ours):
        pairs = zip(range(len(theirs)), theirs, ours, strict=True)
    for key, one, other in pairs:
        if one != other:
            return _where(f"{path}[{key}]", one, other)
    return f"{path}: {theirs!r} != {ours!r}"


def _comparable(error: Mapping[str, str] | None) -> tuple[str, str] | None:
    return None if error is None else (error["type"], LAYER.sub("", error["message"]))
