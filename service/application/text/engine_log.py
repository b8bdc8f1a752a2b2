"""Writes what a startup log says of an engine beside vLLM."""

from collections.abc import Iterator
from textwrap import wrap

from service.application.text.layout import WIDTH
from service.engines_compared.engine_logs import EngineLog


def render_engine_log(log: EngineLog, width: int = WIDTH) -> str:
    """Return the lines of the log with their meaning, and what follows from them."""
    return "\n".join(_lines(log, width)) + "\n"


def _lines(log: EngineLog, width: int) -> Iterator[str]:
    yield f"A log of {log.engine}:"
    for line in log.lines:
        yield from wrap(
            f"line {line.number}: {line.says}", width, initial_indent="  ", subsequent_indent="    "
        )
    for each in log.conclusions:
        text = f"{each.name.replace('_', ' ')}: {each.value:,} {each.unit} ({each.because})"
        yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ")
