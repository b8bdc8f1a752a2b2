"""Reads the frames of a traceback: which files and functions an exception passed."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from service.startup_log.errors.exceptions import QUIET
from service.startup_log.errors.known_classes import file_of_call
from service.startup_log.text.joined_lines import TRACEBACK
from service.startup_log.text.lines import LogLine
from service.startup_log.text.pytest_reports import call_of, place_below

MOST_LINES: Final = 240
"""Lines above an exception in which its frames are looked for; ranks write theirs between each other."""
MOST_FRAMES: Final = 64
HEADER: Final = TRACEBACK
HANDLING: Final = "During handling of the above exception, another exception occurred"
CHAINED: Final = (
    HANDLING,
    "The above exception was the direct cause of the following exception",
)
"""What stands between two tracebacks of one failure."""
BELOW_A_CHAIN: Final = 4
"""Lines below an exception in which they stand."""
_FRAME: Final = re.compile(r'File "([^"]{1,400})", line [0-9]{1,7}(?:, in ([\w<>.]{1,120}))?')
_CUT_FRAME: Final = re.compile(r'File "([^"\s]{0,300}(?:/vllm/|-packages/)\w[^"\s]{0,300})$')
"""A frame that ends within its path, where the text was cut."""
_NOTEBOOK: Final = re.compile(
    r"File (?:((?:[A-Za-z]:)?[\w./~+\\-]{1,300}\.pyx?):[0-9]{1,7}|"
    r"~?\[((?:[A-Za-z]:)?[\w./~+\\-]{1,300}\.pyx?):[0-9]{1,7}\]\([^()\s]{1,500}\))"
    r", in (?:\w{1,80}\.){0,4}(\w{1,120}|<module>)(?=\(|$)"
)
"""A frame as IPython prints it, and as Jupyter shows it: with its path as a link."""
_HALF: Final = re.compile(r'^([\w./-]{4,300}\.py)", line [0-9]{1,7}, in ([\w<>.]{1,120})$')
"""A frame whose beginning was left out."""
_SHORT: Final = re.compile(
    r"^(/?[\w.-]{1,80}/[\w./-]{1,300}\.py)(?:(?::|, line )[0-9]{1,7})?,? in ([\w<>.]{1,120})(?:\(\))?:?$"
)
"""A frame as people shorten it."""
_BARE: Final = re.compile(
    r"^(/?[\w.-]{1,80}/[\w./-]{1,300}\.py):[0-9]{1,7} {1,8}([a-z_]\w{1,120})(?:\(\))?$", re.ASCII
)
"""The same with nothing between the place and the function: `vllm/v1/engine/core.py:666  step`."""
_OLD_NOTEBOOK: Final = re.compile(r"^(/[\w./-]{3,300}\.py) in ([\w<>]{1,120})\(")
"""A frame as older releases of IPython print it."""

_BOXED: Final = re.compile(r"\u2502 ([^\s:]{0,300}\.pyx?):[0-9]{1,7} in ([\w<>.]{1,120}) {0,200}\u2502")
"""A frame as Rich prints it."""
_BOXED_PATH: Final = re.compile(r"\u2502 (/[^\s:]{1,300}) {0,200}\u2502")
"""The beginning of its path, where the box is narrow."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call in a traceback."""

    path: str
    """Path of the file, with ``/`` between its parts."""
    function: str
    """Empty where the line was cut."""


_COLLECT_ENV: Final = "collect_env.py"
"""The program that issues ask for. It prints the environment, and its own failures are not the engine's."""


_OF_COMMAND: Final = "CalledProcessError"
"""The class of an exception that a command ended with an error."""
BELOW_A_HEADING: Final = 8
"""Lines beside its first line in which its own imports warn."""
BELOW_A_SENTENCE: Final = 3
"""Lines below a sentence in which the exception stands that it announces."""
_ABSENT: Final = "No module named 'vllm'"
_IMAGE: Final = "vllm/vllm-openai"
_DOCKER: Final = "docker run"
_OF_THE_ENGINE: Final = ("from 'vllm' (unknown location)", "No module named 'vllm")
"""An import of the engine that fails in this program fails in all others that are started there."""


def of_collect_env(raised: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of the exceptions that end a traceback of collect_env: the first below a frame."""
    calls = [at for at, line in enumerate(lines) if _COLLECT_ENV in line.text and _is_of_collect_env(line)]
    at, fails = sorted(raised), _shows_build(lines)
    found = {each for each in at if _is_said_of_collect_env(each, lines) or _is_in_command(each, lines)}
    found |= {
        at
        for at, line in enumerate(lines)
        if _COLLECT_ENV in line.text and not line.level and frame_of(line) is None
    }
    for call in calls:
        below = bisect_right(at, call)
        if below == len(at) or at[below] > call + MOST_LINES:
            continue
        text = lines[at[below]].text
        if fails or not _is_of_every(text) or (_ABSENT in text and _runs_in_image(lines)):
            found.add(at[below])
    return found


def _runs_in_image(lines: Sequence[LogLine]) -> bool:
    """Whether the engine is started from its image, so that a Python outside of it need not have it."""
    return any(_IMAGE in line.text and _DOCKER in line.text for line in lines)


def _shows_build(lines: Sequence[LogLine]) -> bool:
    """Whether a text shows that pip failed, from which the engine's absence in this program follows."""
    return any(line.text.startswith(_OF_PIP) for line in lines)


_OF_PIP: Final = ("error: subprocess-exited-with-error", "error: metadata-generation-failed")
"""pip, _internal/exceptions.py DiagnosticPipError: the reference of what a build of a package ended with."""


def _is_of_every(text: str) -> bool:
    """Whether an exception is one of importing the engine, which every program has."""
    return any(map(text.__contains__, _OF_THE_ENGINE))


def _is_said_of_collect_env(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether the sentence above an exception without a traceback says that this program ended with it."""
    above = [line for line in lines[max(0, at - BELOW_A_SENTENCE) : at] if line.text]
    said = above[-1] if above else None
    return said is not None and _COLLECT_ENV in said.text and said.level == "" and frame_of(said) is None


def _is_in_command(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether an exception says that a command failed which ran this program: subprocess.py of Python."""
    return _COLLECT_ENV in lines[at].text and _OF_COMMAND in lines[at].text


COLLECTS: Final = "ollecting environment information"
"""The first line that it prints."""
_NOT_BUILT: Final = "vllm._C with ModuleNotFoundError"
"""vLLM 0.3.3 to 0.33.0, _custom_ops.py: a warning in a checkout, and where no build for CUDA is."""


def warns_in_collect_env(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a line warns of an extension that is not built, at the beginning of that program."""
    if _NOT_BUILT not in lines[at].text:
        return False
    return any(COLLECTS in line.text for line in lines[max(0, at - BELOW_A_HEADING) : at + BELOW_A_HEADING])


def _is_of_collect_env(line: LogLine) -> bool:
    frame = frame_of(line)
    return frame is not None and f"/{frame.path}".endswith(f"/{_COLLECT_ENV}")


_IGNORED: Final = ("Exception ignored in", "--- Logging error ---", "(_report_usage_worker)")
"""Headings of an exception which ends nothing: in a destructor, in the writing of a log line, and in the
thread that reports how vLLM is used (vLLM 0.8.5 to 0.33.0, usage/usage_lib.py)."""
MOST_IGNORED: Final = 24
"""Lines below the heading in which its exception stands."""


def ignored_by_python(raised: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of those exceptions that Python reports and ignores."""
    headings = _ignored_headings(lines)
    if not headings:
        return set()
    at, ignored = sorted(raised), set()
    for heading in headings:
        below = bisect_right(at, heading)
        if below < len(at) and at[below] <= heading + MOST_IGNORED:
            ignored.add(at[below])
    return ignored


def ignored_calls(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of lines in which calls of ignored exceptions can stand, other tracebacks' not.

    Below the exception that stopped the writing of a log line Python lists the calls that wrote it.
    """
    found: set[int] = set()
    for heading in _ignored_headings(lines):
        headers = 0
        for at in range(heading, min(len(lines), heading + MOST_IGNORED)):
            if at > heading and lines[at].level in QUIET:
                continue
            headers += HEADER in lines[at].text
            if headers > 1 or (at > heading and lines[at].level):
                break
            found.add(at)
    return found


def _ignored_headings(lines: Sequence[LogLine]) -> list[int]:
    return [at for at, line in enumerate(lines) if any(map(line.text.__contains__, _IGNORED))]


def frame_of(line: LogLine) -> Frame | None:
    """Return the frame that a line shows, behind any prefix."""
    if "File " not in line.text:
        other = _HALF.match(line.text) if '", line ' in line.text else None
        if other is None and " in " in line.text and ".py" in line.text:
            other = _OLD_NOTEBOOK.match(line.text) or _SHORT.match(line.text)
        if other is None and ".py:" in line.text:
            other = _BARE.match(line.text)
        if other is None and (call := call_of(line.text)) is not None:
            return Frame(*call)
        return None if other is None else Frame(other[1], other[2])
    if (found := _FRAME.search(line.text) or _CUT_FRAME.search(line.text)) is not None:
        path, function = found[1], (found[2] if found.re is _FRAME else "") or ""
    elif (found := _NOTEBOOK.search(line.text)) is not None:
        path, function = found[1] or found[2], found[3]
    else:
        return None
    path = path.replace("\\", "/")
    return Frame(path if "/" in path else file_of_call(path, function) or path, function)


_CODE: Final = re.compile(
    r"(?:return|await|yield|with|for|if|elif|while|else:|try:|lambda|\w{1,60} = )\s?|self\.|"
    r"[\w.]{2,120}(?:\[[^\]]{1,60}\])?\("
)


_LITERALS: Final = ('f"', "f'")
"""Beginnings of a text in a program's source that has places for values."""


_NUMBERED: Final = re.compile(r"(?:-{1,6}> ?)?(?:\d{1,5} {2,40}\S|\[\d{1,5}\]\(file:)")
"""A line of source as IPython prints it, behind its number, or behind a link as Jupyter shows it."""
_UNINDENTED: Final = re.compile(r"(?:-{1,6}> ?)?\d{1,5} [^\W\d]")
"""The same of source without an indent, which other lines that begin with a figure look like."""
AROUND: Final = 14
"""Lines of source that it prints around a call."""


def is_source(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a line is the source below a frame, whose words the program has whether it fails or not."""
    if lines[at].text.startswith(_LITERALS):
        return True
    if is_numbered_source(at, lines):
        return True
    return bool(at) and _CODE.match(lines[at].text) is not None and frame_of(lines[at - 1]) is not None


def is_numbered_source(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a line is source that IPython shows around a call, behind its number."""
    above = lines[max(0, at - AROUND) : at]
    if _NUMBERED.match(lines[at].text) is not None:
        return any(frame_of(line) is not None for line in above)
    if _UNINDENTED.match(lines[at].text) is not None:
        return any(_NOTEBOOK.search(line.text) is not None for line in above)
    return False


def frame_of_engine(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a line is a frame of another program than collect_env."""
    frame = frame_at(at, lines)
    return frame is not None and not f"/{frame.path}".endswith(f"/{_COLLECT_ENV}")


_CALL: Final = re.compile(r"(?<![\w])(\w{2,120})(\[[^\]()]{1,80}\])?\(", re.ASCII)
_TRITON_LAUNCH: Final = "triton/runtime/jit.py"
"""The file that a call with a grid, `kernel[grid](`, enters."""
BELOW: Final = 2
"""Lines below a frame in which its source stands."""


def calls_below(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the calls in the source below the last frame of a cut traceback, of which one has failed.

    Their files are not known, except that of a kernel of Triton.
    """
    source = (line.text for line in lines[at + 1 : at + 1 + BELOW])
    calls = (found for text in source if HEADER not in text for found in islice(_CALL.finditer(text), NEAR))
    below = tuple(Frame(_TRITON_LAUNCH if found[2] else "", found[1]) for found in calls)
    return below or _completed(at, lines)


def _completed(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the last frame with its function's whole name, if that was cut: the call above it has it."""
    frame = frame_of(lines[at])
    if frame is None or not frame.function:
        return ()
    above = (found[1] for line in lines[max(0, at - BELOW) : at] for found in _CALL.finditer(line.text))
    names = (name for name in above if name.startswith(frame.function))
    return tuple(Frame(frame.path, name) for name in names if name != frame.function)


NATIVE_FILE: Final = re.compile(r"[\w.+/-]{3,200}\.(?:cpp|cc|cuh?|hpp|h)\b", re.ASCII)
"""A file of C++ or CUDA."""
NEAR: Final = 3
"""Lines above and below an exception in which C++ names the place of the same error."""
MOST_OF_LINE: Final = 600
"""Characters of a line in which such files are looked for."""
_CALLED: Final = re.compile(r"error|fail|assert", re.IGNORECASE)


def native_frames(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the files of C++ and CUDA that an error names, itself or in the lines beside it."""
    near = sorted(range(max(0, at - NEAR), min(len(lines), at + NEAR + 1)), key=lambda each: abs(each - at))
    texts = (text for each in near if _CALLED.search(text := lines[each].text[:MOST_OF_LINE]))
    places = (found[0] for text in texts for found in islice(NATIVE_FILE.finditer(text), NEAR))
    return tuple(Frame(place, "") for place in places)


def frames_above(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the frames of the traceback that ends at a line, the innermost first."""
    return tuple(_frames(at, lines))


def frames_of(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the frames of the traceback of an exception, the innermost first.

    Workers of the first engine log the message first, and the traceback below it.
    """
    if lines[at].text.rstrip(": ").endswith(HEADER):
        return _frames_below(at, lines)
    return frames_above(at, lines) or frames_of_handler(at, lines)


_STACK: Final = "(most recent call first):"
"""CPython, Python/traceback.c _Py_DumpTraceback: what faulthandler writes above the calls of a crash."""
BELOW_A_CRASH: Final = 16
"""Lines below the report of a crash in which its stack begins."""


def crashed_frames(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the calls that faulthandler lists below the report of a crash, the innermost first."""
    below = range(at, min(len(lines), at + BELOW_A_CRASH))
    begins = next((each for each in below if _STACK in lines[each].text), None)
    if begins is None:
        return ()
    calls = map(frame_of, lines[begins + 1 : begins + 1 + MOST_FRAMES])
    return tuple(filter(None, takewhile(bool, calls)))


def frames_of_handler(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the frames of the traceback that was written while an exception was handled.

    They tell where it was raised as far as it was let through, if the text begins below its own frames.
    """
    below = range(at + 1, min(len(lines), at + 1 + BELOW_A_CHAIN))
    if not any(words in lines[each].text for each in below for words in CHAINED):
        return ()
    return _frames_below(at, lines)


def _frames_below(at: int, lines: Sequence[LogLine]) -> tuple[Frame, ...]:
    """Return the frames of the first traceback below a line, the innermost first."""
    found: list[Frame] = []
    for each in range(at + 1, min(len(lines), at + MOST_LINES)):
        if HEADER in lines[each].text and found:
            break
        if (frame := frame_of(lines[each])) is not None:
            found.append(frame)
    return tuple(reversed(found[-MOST_FRAMES:]))


def frame_at(at: int, lines: Sequence[LogLine]) -> Frame | None:
    """Return the frame on a line, in a box too."""
    return frame_of(lines[at]) or _frame_in_box(at, lines)


def _frame_in_box(at: int, lines: Sequence[LogLine]) -> Frame | None:
    """Return the frame in a box of Rich, whose path can begin on the line above."""
    found = _BOXED.search(lines[at].text) if "\u2502" in lines[at].text else None
    if found is None:
        return None
    begun = None if found[1].startswith("/") or not at else _BOXED_PATH.search(lines[at - 1].text)
    return Frame(f"{begun[1] if begun else ''}{found[1]}".replace("\\", "/"), found[2])


_ENDS_A_BLOCK: Final = ("```", "### ", "</details>")
"""Beginnings of lines of Markdown between two blocks; the calls above them are those of another traceback."""


def _frames(at: int, lines: Sequence[LogLine]) -> Iterator[Frame]:
    if (place := place_below(at, lines)) is not None:
        yield Frame(*place)
    count = 0
    for each in range(at - 1, max(0, at - MOST_LINES) - 1, -1):
        line = lines[each]
        if (HEADER in line.text and count) or line.text.startswith(_ENDS_A_BLOCK):
            return
        frame = frame_at(each, lines)
        if frame is not None:
            yield frame
            count += 1
            if count == MOST_FRAMES:
                return
