"""Keeps of a text what the engine's programs printed, and what a person says of them."""

from collections.abc import Sequence

from service.startup_log.catalogue.known_words import SearchedLines
from service.startup_log.errors.conditional_errors import (
    names_other_engines,
    of_other_engines,
    without_examples,
)
from service.startup_log.errors.ended_with_engine import ended_with_engine
from service.startup_log.errors.exceptions import raised_in
from service.startup_log.errors.generated_texts import generated_texts
from service.startup_log.errors.passed_over import passed_over
from service.startup_log.errors.shown_code import blanked, without_code
from service.startup_log.errors.shown_text import of_whole_builds
from service.startup_log.failures.wrapped_messages import unwrapped
from service.startup_log.text.lines import LogLine


def printed_lines(lines: Sequence[LogLine]) -> SearchedLines:
    """Return the lines with an empty text in place of source, advice, builds and errors of other engines.

    A message that was wrapped is read in one line.
    """
    shown = without_examples(unwrapped(without_code(lines)))
    if over := _of_no_failure(shown):
        shown = blanked(shown, over)
    printed = lines if shown is lines and isinstance(lines, SearchedLines) else SearchedLines(shown)
    if not names_other_engines(printed):
        return printed
    errors = {each.at for each in raised_in(printed)} | {each.at for each in printed.known}
    others = of_other_engines(errors, printed)
    if errors and errors <= others:
        # The text is about another engine.
        others = set(range(len(printed)))
    return SearchedLines(blanked(printed, others)) if others else printed


def _of_no_failure(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what is printed of a failure that ended nothing, and of a model's own words."""
    ended = passed_over(lines) | of_whole_builds(lines) | ended_with_engine(lines)
    return ended | generated_texts(lines)
