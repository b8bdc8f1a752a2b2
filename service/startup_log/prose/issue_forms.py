"""The kinds of issues, by the tags of their titles and the headings of projects' forms."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from service.bundled_toml import read_toml
from service.startup_log.text.lines import LogLine


class IssueKind(StrEnum):
    """What an issue is written for."""

    REPORT = "report"
    WISH = "wish"
    PROPOSAL = "proposal"
    DOCUMENTATION = "documentation"
    QUESTION = "question"


MOST_LINES: Final = 200
"""Lines of a text in which headings of forms are looked for."""
_TABLE: Final = read_toml("service.startup_log.prose", "issue_forms.toml")
KIND_OF_TAG: Final[Mapping[str, IssueKind]] = {
    tag: kind for kind in IssueKind for tag in _TABLE[kind]["tags"]
}
_TAG_OF_HEADING: Final[Mapping[str, str]] = {
    heading: _TABLE[kind]["tags"][0] for kind in IssueKind for heading in _TABLE[kind]["headings"]
}
_HEADING: Final = re.compile(
    rf"[#*]{{1,6}}\W{{0,8}}({'|'.join(map(re.escape, _TAG_OF_HEADING))})\b", re.IGNORECASE
)
_BETWEEN: Final = re.compile(r"[^a-z]+")
WISH_MARK: Final = "/kind feature"
"""The command with which the robot of Kubernetes' projects labels an issue (prow, plugins/label)."""


def tags_of_headings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the tags for which the headings of a project's form stand, in their order."""
    heads = (line.text for line in lines[:MOST_LINES] if line.text.startswith(("#", "*", WISH_MARK)))
    return tuple(dict.fromkeys(filter(None, map(_tag_of, heads))))


def _tag_of(head: str) -> str:
    if head == WISH_MARK:
        return next(tag for tag, kind in KIND_OF_TAG.items() if kind is IssueKind.WISH)
    found = _HEADING.match(head)
    return "" if found is None else _TAG_OF_HEADING[found[1].casefold()]


def _kind_of(tag: str) -> IssueKind | None:
    """Return the kind of a tag, or else of its words: a report, or the last: `enhancement proposal`."""
    if tag in KIND_OF_TAG:
        return KIND_OF_TAG[tag]
    kinds = [KIND_OF_TAG[word] for word in _BETWEEN.split(tag) if word in KIND_OF_TAG]
    return IssueKind.REPORT if IssueKind.REPORT in kinds else next(reversed(kinds), None)


def kind_of_tags(tags: Iterable[str]) -> IssueKind | None:
    """Return the kind that the first tag names which is one of a kind; ``None`` without any.

    A question with the headings of a report is one.
    """
    kinds = list(filter(None, map(_kind_of, tags)))
    asks = kinds[:1] == [IssueKind.QUESTION] and IssueKind.REPORT in kinds
    return IssueKind.REPORT if asks else next(iter(kinds), None)
