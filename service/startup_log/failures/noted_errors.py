"""Reads an error in a short text that only notes it: in a table's row, or with what to do if it comes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.known_words import known_words
from service.startup_log.errors.conditional_errors import conditional, names_other_engines
from service.startup_log.errors.exceptions import raised_in
from service.startup_log.errors.shown_code import blanked, rows
from service.startup_log.failures.logged_failure import Failure, of_known
from service.startup_log.failures.titles import HANGING
from service.startup_log.text.lines import LogLine

MOST_LINES: Final = 12
"""Lines of a short text; a longer one has tables and advice beside what it reports."""


def of_note(lines: Sequence[LogLine], *, beside: Failure | None) -> Failure | None:
    """Return the failure of which a short text has only notes; ``None`` where they name several causes.

    Rows of tables, and sentences that begin with `if`, mostly list what may come. Who pastes nothing else
    asks about the one error in them. In a sentence with `if` that is an exception with its class.

    ``beside``: what a person says. A row with an exception says more than that something hangs or fails.
    """
    if beside is not None and not (beside.cause is None or beside.cause.name in HANGING):
        return None
    if sum(1 for line in lines if line.text) > MOST_LINES or names_other_engines(lines):
        return None
    advised = {at for at, _ in conditional(lines)} if beside is None else set()
    listed = set(rows(lines))
    shown = blanked(lines, {*range(len(lines))} - advised - listed)
    raised = {each.at: each for each in raised_in(shown) if each.message}
    counting = raised.keys() | (listed if beside is None else set())
    known = [
        each
        for each in known_words(shown)
        if not (each.cause.weak or each.cause.of_request) and each.at in counting
    ]
    if len({each.cause.name for each in known}) != 1:
        return None
    found = of_known(known[0], known, raised, shown)
    return replace(found, paraphrased=known[0].at not in raised)
