"""Finds the error with which a build failed, above the lines that only say that it did."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.catalogue.templates import SentenceIndex
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.prose.sentences import sentences
from service.startup_log.prose.symptoms import described
from service.startup_log.text.lines import LogLine

FAILED: Final = "install_failed"
COMPILED: Final = "source_build_failed"
"""Its first error is looked for among those of a compiler alone."""
TOOLCHAIN: Final = "toolchain_missing"
"""The cause of a kernel that was not compiled, whatever stopped it."""
BUILDS: Final = frozenset({FAILED, COMPILED, TOOLCHAIN})
"""Causes of a build that failed, which a compiler can also do that was ended from outside."""
_CAUSE: Final = next(cause for cause in CAUSES if cause.name == FAILED)
_REFUSED: Final = next(cause for cause in CAUSES if cause.name == "kernel_source_refused")
_KILLED: Final = next(cause for cause in CAUSES if cause.name == "compiler_killed")
_END: Final = "Killed"
"""What a shell prints of a process that SIGKILL ended, alone or before its command."""
COMPILERS: Final = ("nvcc", "cicc", "ptxas", "cudafe++", "cc1plus", "c++", "g++", "gcc", "clang", "hipcc")
STOPPED: Final = "ninja: build stopped"
"""ninja, src/build.cc: the last line of a build of which any step failed."""
BUILT: Final = "Ninja build failed"
"""FlashInfer, jit/cpp_ext.py run_ninja, and torch: the message, with ninja's output below it."""
ABSENT: Final = "fatal error: "
"""What a compiler writes of a file to include that is not there."""
MOST_ABOVE: Final = 3
"""Lines above the word in which the command of a compiler stands: ninja's heading, and the command itself."""
_SAID: Final = SentenceIndex([words for form in _CAUSE.forms for words in form.says])
_ERROR: Final = re.compile(r"\b(?:fatal )?error: \S|\bError: \S|\bfatal: \S|\bCMake Error")
_AT_PLACE: Final = re.compile(r"(?:\d:|\d\):?) (?:fatal )?error: \S")
"""An error of a compiler behind its place: ``a.cpp:281:40: error: x``, ``a.cu(12): error: x``."""
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
    if failure.cause is None or failure.cause.name not in BUILDS:
        return failure
    if (at := _killed_compiler(lines)) is not None:
        text = lines[at].text.strip()[:MAX_MESSAGE]
        return replace(failure, cause=_KILLED, type="", message=text, line=lines[at].number)
    if failure.cause.name == COMPILED:
        return _with_compiler_s_error(failure, lines)
    if STOPPED in failure.message and _says_memory(lines):
        return replace(failure, cause=_KILLED, type="")
    if failure.cause.name == TOOLCHAIN and BUILT in failure.message:
        return _with_refused_source(failure, lines)
    return _with_error_of_output(failure, lines) if failure.cause.name == FAILED else failure


def _says_memory(lines: Sequence[LogLine]) -> bool:
    """Whether a person says that the compilers took the memory of the host, where ninja says only its end."""
    found = described(sentences(lines), counts=lambda cause: cause is _KILLED)
    return found is not None and found.cause is _KILLED


def _with_error_of_output(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failed installation with the first error that its steps printed."""
    if _CAUSE.form_of(failure.message) is not None and not _is_general(failure.message):
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


def _killed_compiler(lines: Sequence[LogLine]) -> int | None:
    """Return the position of the first line by which a compiler was ended from outside."""
    for at, line in enumerate(lines):
        if _END not in line.text:
            continue
        before, _, command = line.text.partition(f"{_END} ")
        if line.text.strip() == _END:
            commands = [each.text for each in lines[max(0, at - MOST_ABOVE) : at]]
        else:
            commands = [command[:MAX_MESSAGE]] if before.rstrip()[-1:].isdigit() else []
        if any(_names_compiler(each) for each in commands):
            return at
    return None


def _names_compiler(command: str) -> bool:
    """Whether a command begins with the name of a compiler, behind what ninja prints before it."""
    words = command[:MAX_MESSAGE].split()[:MOST_ABOVE]
    return any(word.rpartition("/")[2].startswith(COMPILERS) for word in words)


def _with_compiler_s_error(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failed call of a compiler with the first error that the compiler printed."""
    at = next((at for at, line in enumerate(lines) if _is_of_compiler(line.text)), None)
    if at is None:
        return failure
    return replace(failure, type="", message=_message(at, lines), line=lines[at].number, paraphrased=False)


def _with_refused_source(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return the build of a kernel with the error of its compiler, which ran; not that a file is absent."""
    errors = (at for at, line in enumerate(lines) if ABSENT not in line.text and _is_of_compiler(line.text))
    at = next(errors, None)
    if at is None:
        return failure
    return replace(
        failure, cause=_REFUSED, message=_message(at, lines), line=lines[at].number, paraphrased=False
    )


def _is_of_compiler(text: str) -> bool:
    """Whether a text is an error at a place in a source: ``file.cpp:281:40: error: `` and what follows."""
    found = _AT_PLACE.search(text)
    return found is not None and not _is_general(text)


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
