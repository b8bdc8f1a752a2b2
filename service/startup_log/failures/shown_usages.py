"""Tells that the command line was refused where the text ends in its usage, before the error's own line."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.forms import with_form
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

_REFUSED: Final = next(cause for cause in CAUSES if cause.name == "unknown_argument")
_USAGE: Final = re.compile(r"usage: (?:vllm(?: [a-z-]{1,20}){0,2}|api_server\.py|run_batch\.py) [\[{]")
"""Python, argparse.py ArgumentParser.error: the usage, then a line of its own with the error."""
_GOES_ON: Final = re.compile(r"[\[{]|--?\w|\.\.\.|[A-Z_]{2,40}\]|\w{1,40} \.\.\.")
"""The beginning of a line with which a usage goes on."""
_ENDS: Final = ("exited with code ", "exit code", "exit status", "status=2")
"""What whoever started the process says of its end."""
_ASKED: Final = ("--help", " -h ")


def of_usage(lines: Sequence[LogLine]) -> Failure | None:
    """Return the refusal of which a text has only the usage; ``None`` where help was asked or goes on."""
    said = [line for line in lines if line.text]
    at = next((at for at in range(len(said) - 1, -1, -1) if _USAGE.match(said[at].text)), None)
    if at is None or any(_is_asked(line.text) for line in said):
        return None
    below = [each for each in said[at + 1 :] if _GOES_ON.match(each.text) is None]
    if not all(any(map(each.text.__contains__, _ENDS)) for each in below):
        return None
    return with_form(Failure("", said[at].text[:MAX_MESSAGE], said[at].number, _REFUSED, {}), lines)


def _is_asked(text: str) -> bool:
    """Whether a line is a command that asks for the help."""
    is_usage = _GOES_ON.match(text) is not None or _USAGE.match(text) is not None
    return not is_usage and any(map(f" {text} ".__contains__, _ASKED))
