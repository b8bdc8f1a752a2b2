"""Writes what changes between releases as text."""

from collections.abc import Iterator
from typing import Final

from service.advisor.candidates.plan_types import ComparedStart, Upgrade, UpgradeOutcome
from service.advisor.candidates.verdict import Verdict
from service.advisor.upgrade_intervals import SAME, interval_of, uncertain_changes
from service.application.text.layout import folded
from service.application.text.words import indented, start_words, verdict_words
from service.units import gib_amount, gib_text

NAMES: Final = {
    "available_kv_bytes": "memory for the KV cache of one rank",
    "max_concurrency": "requests of the maximum length at once",
    "max_model_len": "maximum length in tokens",
    "block_size": "tokens of a block",
}
"""What fields of an outcome are called, where their name does not say it."""
ON_BOTH: Final = {
    Verdict.STARTS: "It starts on both releases",
    Verdict.UNCERTAIN: "Whether it starts is uncertain on both releases",
    Verdict.REFUSED: "It starts on neither release",
}


def upgrade_lines(step: Upgrade, width: int) -> Iterator[str]:
    """Yield one step between releases, wrapped at a width in characters."""
    yield f"-- {step.gpu}: vLLM {step.before.version} to {step.after.version}"
    yield from indented(start_compared(step.start), width)
    yield from indented(f"{_verdicts(step.before, step.after)}.", width)
    if not step.changed:
        yield "  nothing changes for this start"
    for field in step.changed:
        yield from indented(change_words(step, field), width)
    for cause in step.causes:
        words = f"by {cause.rule}: {cause.summary} ({cause.source})"
        yield from folded(words, width, "  ", "    ")


def start_compared(start: ComparedStart) -> str:
    """Return in words which start the releases are compared by."""
    if start.is_recommended:
        which = f"the start that {start.version} recommends"
    else:
        which = f"the start nearest to success on {start.version}, which recommends none"
    return f"Compared: {which}: {start_words(start.candidate)}."


def change_words(step: Upgrade, field: str) -> str:
    """Return in words how a field of the outcome changes."""
    before, after = (_with_interval(step, outcome, field) for outcome in (step.before, step.after))
    doubt = f"; the intervals overlap, {SAME}" if field in uncertain_changes(step) else ""
    return f"{NAMES.get(field, field.replace('_', ' '))}: {before} became {after}{doubt}"


def _with_interval(step: Upgrade, outcome: UpgradeOutcome, field: str) -> str:
    """Return a field in words, with its interval where it follows from an estimate."""
    words, interval = shown_field(outcome, field), interval_of(step, outcome, field)
    if interval is None:
        return words
    low, high = interval
    if field == "available_kv_bytes":
        if high < 0:
            return f"{words} ({gib_text(int(-high))} to {gib_text(int(-low))})"
        least = f"{gib_text(int(-low))} too little" if low < 0 else gib_amount(int(low))
        return f"{words} ({least} to {gib_amount(int(high))})"
    digits = 2 if field == "max_concurrency" else 0
    return f"{words} ({low:,.{digits}f} to {high:,.{digits}f})"


def _verdicts(before: UpgradeOutcome, after: UpgradeOutcome) -> str:
    one, other = verdict_words(before.verdict), verdict_words(after.verdict)
    if before.verdict is after.verdict:
        return ON_BOTH[before.verdict]
    return f"On {before.version}: {one}; on {after.version}: {other}"


def shown_field(outcome: UpgradeOutcome, field: str) -> str:
    """Return the value of a field of an outcome in words."""
    value = getattr(outcome, field)
    if value is None:
        return "none"
    if field == "available_kv_bytes":
        return f"{gib_text(value)} GiB" if value >= 0 else f"{gib_text(-value)} GiB too little"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Verdict):
        return value.replace("_", " ")
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)
