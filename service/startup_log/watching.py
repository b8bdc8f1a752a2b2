"""Watches a log that is still being written: the steps of the start, and when something has failed."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.startup_log.catalogue.phrases import BEGINNINGS, CAUSES, DEATHS, MILESTONES
from service.startup_log.errors.exceptions import raised_in
from service.startup_log.text.lines import read_lines
from service.startup_log.text.long_logs import CondensedLog, LogCondenser


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step that the start reached."""

    milestone: str
    """Its name; empty for the beginning of a start."""
    line: int
    """Counted from 1."""


class LogWatcher:
    """Takes a log line by line."""

    def __init__(self) -> None:
        self._condenser = LogCondenser()
        self._reached: set[str] = set()
        self._line = 0
        self.failing = False
        """Whether something failed since the last `so_far`."""

    def feed(self, text: str) -> Iterator[LoggedStep]:
        """Take the next line, and yield the steps that it shows."""
        self._line += 1
        text = text.rstrip("\r\n")
        self._condenser.feed(f"{text}\n")
        self.failing = self.failing or _fails(text)
        if any(map(text.__contains__, BEGINNINGS)) and self._reached != {""}:
            self._reached = {""}
            yield LoggedStep("", self._line)
        for each in MILESTONES:
            if each.name not in self._reached and any(map(text.__contains__, each.says)):
                self._reached.add(each.name)
                yield LoggedStep(each.name, self._line)

    def so_far(self) -> CondensedLog:
        """Return what was read so far; a later failure is a new one."""
        self.failing = False
        return self._condenser.finish()


def _fails(text: str) -> bool:
    lines = read_lines(text)
    if any(True for _ in raised_in(lines)) or any(map(text.__contains__, DEATHS)):
        return True
    return any(line.text in cause.lines for cause in CAUSES for line in lines)
