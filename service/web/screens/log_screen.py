"""A startup log beside its plan: why it failed, what gets past it, what agrees and what differs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service.advisor.candidates.refusal import Fix
from service.application.text.cause_words import failed_in_words
from service.application.text.compared_values import MARKS, number_in_words
from service.application.text.headline import headline
from service.application.text.words import change_words, printable, verdict_words
from service.explanation.explanation_types import Agreement, Assumption, Diagnosis, Explanation, Finding
from service.redaction import hide_secrets
from service.web.figures import DASH, plain
from service.web.questions.page_question import PageQuestion

MOST_LINES: Final = 1500
"""Lines of a log that are shown, those around what was found first."""
AROUND: Final = 3
WORDS: Final = {
    Agreement.AGREES: "agrees",
    Agreement.WITHIN: "within the estimate",
    Agreement.DIFFERS: "differs",
    Agreement.NOT_COMPARED: "not compared",
}


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of the log; a gap stands before it where lines are left out."""

    number: int
    text: str
    found: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A logged value beside the planned one."""

    line: int
    name: str
    logged: str
    planned: str
    interval: str
    mark: str
    css: str
    words: str
    why: str


@dataclass(frozen=True, slots=True)
class CauseText:
    """Why a start failed."""

    name: str
    message: str
    line: int
    means: str
    remedy: str
    source: str
    planned: str
    fixes: tuple[tuple[str, str], ...]
    """Each in words with its link."""
    offers: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogScreen:
    """Everything that the screen shows."""

    headline: str
    failed: bool
    cause: CauseText | None
    verdict: str
    command: str
    plan_link: str
    counts: str
    rows: tuple[FindingRow, ...]
    assumptions: tuple[str, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    lines: tuple[ShownLine, ...]
    left_out: int


def log_screen(explanation: Explanation, text: str) -> LogScreen:
    """Return the screen for an explained log; ``text`` is the log as it was sent."""
    ending = explanation.ending
    start = _start_question(explanation)
    found = {each.line for each in explanation.findings}
    shown = tuple(_lines(text, found | ({ending.line} if ending is not None else set())))
    counts = {each: sum(one.agreement is each for one in explanation.findings) for each in Agreement}
    unmodelled = (f"Not counted: {each}" for each in explanation.unmodelled)
    return LogScreen(
        headline=plain(headline(explanation)),
        failed=ending is not None and not ending.refused,
        cause=None if ending is None else _cause(ending, start),
        verdict="" if explanation.verdict is None else verdict_words(explanation.verdict),
        command=plain(explanation.command or ""),
        plan_link=start.link() if explanation.command else "",
        counts=", ".join(
            f"{number} {WORDS[each]} ({MARKS[each]})" for each, number in counts.items() if number
        ),
        rows=tuple(_row(each) for each in explanation.findings),
        assumptions=tuple(map(_assumed, explanation.assumptions)),
        missing=tuple(plain(each.why) for each in explanation.missing),
        notes=tuple(map(plain, (*unmodelled, *explanation.notes))),
        lines=shown,
        left_out=max(0, len(text.splitlines()) - len(shown)),
    )


def _start_question(explanation: Explanation) -> PageQuestion:
    """Return the question for the planned start."""
    request = explanation.request
    if request is None or explanation.command is None:
        return PageQuestion()
    return PageQuestion().changed(
        command=explanation.command, gpu=request.gpus[0].id, engine_version=request.engine.version
    )


def _cause(ending: Diagnosis, start: PageQuestion) -> CauseText:
    planned = ending.planned
    message = f"{ending.type}: {ending.message}" if ending.type else ending.message
    return CauseText(
        name=failed_in_words(ending),
        message=plain(hide_secrets(message)),
        line=ending.line,
        means=ending.means,
        remedy=ending.remedy,
        source=ending.source,
        planned=""
        if planned is None
        else plain(f"{planned.type} ({planned.stage}): {planned.message} {planned.detail}"),
        fixes=tuple((plain(change_words(each)), _fix_link(each, start)) for each in ending.fixes),
        offers=tuple(map(plain, ending.offers)),
        notes=tuple(map(plain, ending.notes)),
    )


def _fix_link(fix: Fix, start: PageQuestion) -> str:
    patches = (fix.patch,) if fix.patch else ()
    return start.changed(command=fix.command, engine_version=fix.version, patch=patches).link()


def _assumed(each: Assumption) -> str:
    taken = f" = {each.taken}" if each.taken else ""
    return plain(f"{each.field}{taken}: {each.why}")


def _row(finding: Finding) -> FindingRow:
    low, high = finding.low, finding.high
    is_interval = low is not None and high is not None and low != high
    return FindingRow(
        line=finding.line,
        name=finding.name.replace("_", " "),
        logged=plain(number_in_words(finding.logged)),
        planned=DASH if finding.planned is None else plain(number_in_words(finding.planned)),
        interval=f"{number_in_words(low)} to {number_in_words(high)}" if is_interval else "",
        mark=MARKS[finding.agreement],
        css=finding.agreement.value,
        words=WORDS[finding.agreement],
        why=plain(finding.why),
    )


def _lines(text: str, found: set[int]) -> Iterator[ShownLine]:
    """Yield the lines of a log; of a long one those around what was found."""
    lines = text.splitlines()
    near = {number for each in found for number in range(each - AROUND, each + AROUND + 1)}
    before = 0
    for number, line in enumerate(lines, start=1):
        if len(lines) > MOST_LINES and number not in near:
            continue
        shown = printable(hide_secrets(line)).rstrip()
        yield ShownLine(number, shown, number in found, number > before + 1)
        before = number
