"""Writes the values of a log that were compared with its plan: what differs first, reasons once."""

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Final

from service.explanation.explanation_types import Agreement, Finding

FEW_FINDINGS: Final = 8
"""Of more findings without a comparison than this, only the number is written."""
MARKS: Final = {
    Agreement.AGREES: "=",
    Agreement.WITHIN: "~",
    Agreement.DIFFERS: "X",
    Agreement.NOT_COMPARED: "?",
}
UNITS: Final = {"_gib": " GiB", "_pct": " %"}
"""Units by the ends of names."""
_ORDER: Final = (Agreement.DIFFERS, Agreement.AGREES, Agreement.WITHIN, Agreement.NOT_COMPARED)


class Listed(Enum):
    """Which values are written out, from all of them to the fewest; what differs always is."""

    ALL = frozenset(Agreement)
    WITHOUT_AGREEING = frozenset(Agreement) - {Agreement.AGREES}
    WITHOUT_ESTIMATES = frozenset({Agreement.DIFFERS, Agreement.NOT_COMPARED})
    DIFFERING = frozenset({Agreement.DIFFERS})


LEFT_OUT: Final = {
    Listed.WITHOUT_AGREEING: "; what agrees is not listed",
    Listed.WITHOUT_ESTIMATES: "; what agrees or is within is not listed",
}
"""What the first line says where values are left out of a start that did not fail."""


def compared(findings: Sequence[Finding], listed: Listed) -> Iterator[str]:
    """Yield how many values agree, and those that are written out, with a reason that several share once."""
    counts = {each: sum(finding.agreement is each for finding in findings) for each in Agreement}
    yield ""
    yield (
        f"Log and plan: {counts[Agreement.AGREES]} agree (=), "
        f"{counts[Agreement.WITHIN]} within an estimate (~), "
        f"{counts[Agreement.DIFFERS]} differ (X), {counts[Agreement.NOT_COMPARED]} not compared (?)"
        f"{LEFT_OUT.get(listed, '')}"
    )
    many = counts[Agreement.NOT_COMPARED] > FEW_FINDINGS
    shown = [
        each
        for each in findings
        if each.agreement in listed.value and not (many and each.agreement is Agreement.NOT_COMPARED)
    ]
    reasons = {key: at for at, key in enumerate(dict.fromkeys(map(_key, sorted(shown, key=_place))))}
    for _, group in groupby(sorted(shown, key=lambda each: (reasons[_key(each)], each.line)), key=_key):
        yield _together(tuple(group))


def _place(finding: Finding) -> tuple[int, int]:
    return _ORDER.index(finding.agreement), finding.line


def _key(finding: Finding) -> tuple[Agreement, str, int]:
    """Return what values share that are written together; each that differs stands alone."""
    alone = finding.line if finding.agreement is Agreement.DIFFERS else 0
    return finding.agreement, finding.why, alone


def _together(findings: Sequence[Finding]) -> str:
    first = findings[0]
    which = "line" if len(findings) == 1 else "lines"
    lines = ", ".join(dict.fromkeys(str(each.line) for each in findings))
    return f"{MARKS[first.agreement]} {which} {lines}: {'; '.join(map(_value, findings))}: {first.why}"


def _value(finding: Finding) -> str:
    name, unit = name_in_words(finding.name)
    planned = "" if finding.planned is None else f", planned {_interval(finding)}{unit}"
    return f"{name} {number_in_words(finding.logged)}{unit}{planned}"


def name_in_words(name: str) -> tuple[str, str]:
    """Return a value's name without its unit, and the unit with a blank before it."""
    for suffix, unit in UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit
    return name.replace("_", " "), ""


def _interval(finding: Finding) -> str:
    if finding.low is None or finding.high is None or finding.low == finding.high:
        return number_in_words(finding.planned)
    # The engine itself logs memory below 0; beside any other figure it means that there is none.
    below = isinstance(finding.logged, float) and finding.logged < 0
    values = (finding.planned, finding.low, finding.high)
    planned, low, high = (_amount(each, may_be_negative=below) for each in values)
    return f"{planned} ({low} to {high})"


def _amount(value: float | str | None, *, may_be_negative: bool) -> str:
    negative = isinstance(value, float) and value < 0
    return "none" if negative and not may_be_negative else number_in_words(value)


def number_in_words(value: float | str | None) -> str:
    """Return a value as people write it."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"
