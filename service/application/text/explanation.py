"""Writes the explanation of a log as text."""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Final

from service.calibration.from_logs import StoredLog
from service.explanation.explanation_types import (
    Agreement,
    Assumption,
    Diagnosis,
    Explanation,
    Finding,
)

WIDTH: Final = 110
MARKS: Final = {
    Agreement.AGREES: "=",
    Agreement.WITHIN: "~",
    Agreement.DIFFERS: "X",
    Agreement.NOT_COMPARED: "?",
}


def render_explanation(explanation: Explanation, stored: StoredLog | None = None) -> str:
    """Return an explanation as text of fixed width, and what was stored of the log."""
    lines = (*_lines(explanation), *(() if stored is None else _stored(stored)))
    return "".join(f"{line}\n" for line in lines)


def _lines(explanation: Explanation) -> Iterator[str]:
    log, request = explanation.log, explanation.request
    release, model = log.release or "of an unnamed release", log.model or "no model named"
    yield from _wrapped(f"{log.lines:,} lines; vLLM {release}; {model}")
    if request is not None:
        yield from _wrapped(f"Planned beside it: vLLM {request.engine.version} on {request.gpus[0].id}:")
        yield f"  {explanation.command}"
    yield from _assumed("assumed", explanation.assumptions)
    yield from _assumed("not planned", explanation.missing)
    if explanation.ending is not None:
        yield ""
        yield from _ending(explanation.ending)
    if explanation.findings:
        yield ""
        yield "= agrees   ~ within an estimate   X differs   ? not compared"
        for finding in explanation.findings:
            yield from _finding(finding)
    for title, words in (("not modelled:", explanation.unmodelled), ("!", explanation.notes)):
        for each in words:
            yield from _wrapped(f"{title} {each}")


def _stored(stored: StoredLog) -> Iterator[str]:
    yield ""
    if stored.digest is None:
        yield from _wrapped(f"Not stored: {stored.why}")
        return
    yield f"Stored as evidence for later plans: {stored.digest[:12]}" if stored.new else "Stored before."
    if stored.why:
        yield from _wrapped(f"  {stored.why}")


def _assumed(title: str, assumptions: Iterable[Assumption]) -> Iterator[str]:
    for each in assumptions:
        taken = f" = {each.taken}" if each.taken else ""
        yield from _wrapped(f"  {title}: {each.field}{taken}: {each.why}")


def _ending(ending: Diagnosis) -> Iterator[str]:
    where = f" after '{ending.reached}'" if ending.reached else ""
    yield from _wrapped(f"Failed on line {ending.line}{where}: {ending.cause or 'a cause that is not known'}")
    yield from _wrapped(f"  {ending.type}: {ending.message}" if ending.type else f"  {ending.message}")
    if ending.means:
        yield from _wrapped(f"  {ending.means} {ending.remedy}")
    if ending.basis == "plan":
        yield "  The log does not say why; the plan does."
    if ending.planned is not None:
        words = "The plan refuses too" if ending.foreseen else "The plan refuses with other words"
        yield from _wrapped(
            f"  {words}: {ending.planned.type} ({ending.planned.stage}): {ending.planned.message}"
        )
        if ending.planned.detail:
            yield from _wrapped(f"  {ending.planned.detail}")
    elif ending.foreseen is False:
        yield from _wrapped("  The plan does not foresee it: look at what was assumed.")
    for fix in ending.fixes:
        gained = f": {fix.tokens:,} tokens, {fix.max_concurrency:.2f}x" if fix.tokens is not None else ""
        yield from _wrapped(f"  fix, planned: {fix.words}: {fix.verdict.replace('_', ' ')}{gained}")


def _finding(finding: Finding) -> Iterator[str]:
    planned = "" if finding.planned is None else f", planned {_interval(finding)}"
    yield from _wrapped(
        f"{MARKS[finding.agreement]} line {finding.line}: {finding.name.replace('_', ' ')} "
        f"{_value(finding.logged)}{planned}: {finding.why}"
    )


def _interval(finding: Finding) -> str:
    if finding.low is None or finding.high is None or finding.low == finding.high:
        return _value(finding.planned)
    return f"{_value(finding.planned)} ({_value(finding.low)} to {_value(finding.high)})"


def _value(value: float | str | None) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"


def _wrapped(text: str) -> Iterator[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    yield from wrap(
        text, WIDTH, subsequent_indent=f"{indent}    ", break_long_words=False, break_on_hyphens=False
    )
