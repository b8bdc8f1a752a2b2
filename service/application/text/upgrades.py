"""Writes what changes between releases as text."""

from collections.abc import Iterator
from textwrap import wrap

from service.advisor.plan_types import Upgrade, UpgradeOutcome, Verdict


def upgrade_lines(step: Upgrade, width: int) -> Iterator[str]:
    """Yield one step between releases, wrapped at a width in characters."""
    yield f"-- {step.gpu}: vLLM {step.before.version} to {step.after.version}"
    if not step.changed:
        yield "  nothing changes for these flags"
    for field in step.changed:
        before, after = (shown_field(outcome, field) for outcome in (step.before, step.after))
        yield from wrap(
            f"{field.replace('_', ' ')}: {before} became {after}",
            width,
            initial_indent="  ",
            subsequent_indent="    ",
        )
    for cause in step.causes:
        words = f"by {cause.rule}: {cause.summary} ({cause.source})"
        yield from wrap(words, width, initial_indent="  ", subsequent_indent="    ")


def shown_field(outcome: UpgradeOutcome, field: str) -> str:
    """Return the value of a field of an outcome in words."""
    value = getattr(outcome, field)
    if value is None:
        return "none"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Verdict):
        return value.replace("_", " ")
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)
