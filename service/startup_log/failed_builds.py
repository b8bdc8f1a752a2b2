"""Finds the error with which a build failed, above the lines that only say that it did."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from service.startup_log.lines import LogLine
from service.startup_log.logged_failure import Failure
from service.startup_log.phrases import CAUSES
from service.startup_log.templates import SentenceIndex
from service.startup_log.whole_messages import MAX_MESSAGE

FAILED: Final = "install_failed"
_CAUSE: Final = next(cause for cause in CAUSES if cause.name == FAILED)
_SAID: Final = SentenceIndex([words for form in _CAUSE.forms for words in form.says])
_ERROR: Final = re.compile(r"\b(?:fatal )?error: \S|\bError: \S|\bfatal: \S|\bCMake Error")
_GENERAL: Final = (
    *("subprocess-exited", "subprocess.", "did not run successfully", "did not complete", "Failed to build"),
    *("Failed building", "Could not build", "failed to solve", "non-zero exit", "exit code", "exit status"),
    *("UserWarning", "RuntimeWarning", "metadata-generation-failed", "command 'cmake'", "build stopped"),
    *("failed with code", "Failed to get commit", "not a git repository", "ERROR ["),
)
"""Words of lines that only say that a step failed, or of warnings."""
MESSAGE_LINES: Final = 3
"""Lines below a CMake error in which its message stands."""


def with_first_error(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failed build with the first error of its output that says why; the same without one."""
    if failure.cause is None or failure.cause.name != FAILED:
        return failure
    if failure.cause.form_of(failure.message) is not None and not _is_general(failure.message):
        return failure
    texts = [line.text for line in lines]
    pairs = _SAID.pairs(texts)
    said = [at for at, _ in pairs if not _is_general(texts[at])]
    # A title quotes what the output says.
    at = next((at for at in said if at), next(iter(said), None))
    if at is None:
        errors = (at for at, text in enumerate(texts) if _ERROR.search(text) and not _is_general(text))
        at = next(errors, None)
    if at is None:
        return failure
    return replace(failure, message=_message(at, lines), line=lines[at].number, paraphrased=False)


def _is_general(text: str) -> bool:
    return any(map(text.__contains__, _GENERAL))


def _message(at: int, lines: Sequence[LogLine]) -> str:
    """Return an error of a build; CMake writes what happened below the place."""
    text = lines[at].text.strip()
    if "CMake Error" in text:
        below = (
            line.text.strip() for line in lines[at + 1 : at + 1 + 2 * MESSAGE_LINES] if line.text.strip()
        )
        text = " ".join((text, *islice(below, MESSAGE_LINES)))
    return text[:MAX_MESSAGE]
