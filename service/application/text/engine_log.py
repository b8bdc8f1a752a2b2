"""Writes what a startup log says of an engine beside vLLM."""

from collections.abc import Iterator

from service.application.text.layout import WIDTH, folded
from service.engines_compared.engine_logs import EngineLog


def render_engine_log(log: EngineLog, width: int = WIDTH) -> str:
    """Return the lines of the log with their meaning, and what follows from them."""
    return "\n".join(_lines(log, width)) + "\n"


def _lines(log: EngineLog, width: int) -> Iterator[str]:
    yield f"A log of {log.engine}:"
    for line in log.lines:
        yield from folded(f"line {line.number}: {line.says}", width, "  ", "    ")
    for each in log.conclusions:
        text = f"{each.name.replace('_', ' ')}: {each.value:,} {each.unit} ({each.because})"
        yield from folded(text, width, "  ", "    ")
