"""Finds the exceptions in a log: anywhere in a line, behind any prefix, whatever their class is called."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.startup_log.text.joined_lines import TRACEBACK
from service.startup_log.text.lines import LogLine

QUIET: Final = frozenset({"DEBUG", "INFO", "WARNING"})
"""Levels of lines that report no failure."""
FRAME: Final = 'File "'
_NAMED: Final = re.compile(
    r"(?<![\w.])(?<!::)((?:[a-z_]\w{0,60}\.){0,8}(?:(?<=\.)[A-Z]\w{0,60}\.)?)"
    r"([A-Z]\w{0,80}|(?<=\.)[a-z]\w{0,60}(?:Error|Exception))"
    r"(?: ?:\s(.*)|:$|\((['\"].*)|$)",
    re.ASCII,
)
"""A class behind its module, and behind the class inside of which it is defined.

Those of extensions in C++ can begin with a small letter: ``nixl._bindings.nixlNotFoundError``.
"""
_MET: Final = re.compile(
    r"\b(?:get|got|hit|hits|raises|raised|throws|with|see|is|was) an? "
    r"([A-Z][a-z]\w{0,60}Error) (?:on|for) `([^`]{2,200})`",
    re.ASCII,
)
"""An exception as a person tells of it: I get a KeyError on `layers.0.mlp.weight`."""
_NOT_MET: Final = re.compile(r"\b(?:no longer|not|never|don't|didn't|doesn't|without)\b[^.]{0,24}$")
"""What stands before one that a person did not meet."""
_DOTTED: Final = re.compile(r"(?:[a-z_]\w{0,60}\.){1,8}[A-Z]\w{0,80}: ", re.ASCII)
"""The beginning of an exception of a module, below which its explanation follows."""
_SUFFIX: Final = re.compile(r"(?:Error|Exception|Interrupt|SystemExit|Failure|OutOfResources)$")
EXIT: Final = "SystemExit"
HEADINGS: Final = frozenset({"Error", "Exception", "Failure"})
"""Words that head what follows, and are no class, where nothing stands behind them."""
_CODE: Final = re.compile(
    r"(?:\b(?:raise|except|import|class|return|from|raises|isinstance|warn)[ (]|=|[\w.]\()$", re.ASCII
)
"""Ends of a text before a class that is part of source code."""
_HOLES: Final = re.compile(r"\{(?:e|err|exc|error|ex)(?:![rs])?\}|\{(?:str|repr|type)\(")
"""Places for values in the source of a message."""
_CLOSED: Final = (
    "(",
    ":",
    "|",
    ")",
    "]",
    ">",
    "#",
    "-",
    "*",
    "`",
    '"',
    "'",
    "}",
    ",",
    "…",
    "\uff1a",
    "\uff0c",
)
"""Characters that end a prefix."""
_MONTHS: Final = frozenset(
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
)
_CLOSING: Final = {mark: re.compile(rf"(?<!\\){mark}") for mark in '`"'}
"""What ends an exception that a sentence or JSON quotes, by the mark before it."""
MOST_PREFIX: Final = 24
"""Words of a prefix at most; a longer text before an exception is a sentence."""
_RAISES: Final = re.compile(r"^raise ([A-Z]\w{2,80})\(f?(.{0,400})", re.ASCII)
"""The source of a statement that raises an exception."""
MOST_CHAINED: Final = 16
"""Exceptions of one chain that are followed."""
_CHAINED: Final = "During handling of the above exception, another exception occurred"
_ASSERTS: Final = re.compile(r"^assert \S.{0,400}")
"""The source of a check, which is the last of a traceback only where it does not hold."""
_CHECKED: Final = re.compile(
    r"[^\s\"']{2,80} (?:==|!=|<=|>=|<|>) \S{1,80} \(\S{1,40} vs\.? \S{1,40}\)(?:$| ?:)", re.ASCII
)
"""What a failed check of C++ says of both sides, in TVM and glog: `a.size(1) == b (1 vs. 6) : must match`."""
_IN_WORKER: Final = re.compile(
    r"while processing method \w{1,80}: (\S.{0,600}?)(?:, Traceback \(most recent call last\):)?$"
)
"""vLLM 0.4.3 to 0.6.6, executor/multiproc_worker_utils.py: what a worker raised, without the class."""
PYTHON_WORDS: Final = (
    ("' has no attribute '", "AttributeError"),
    (" object has no attribute '", "AttributeError"),
    ("() got an unexpected keyword argument", "TypeError"),
    ("required positional argument", "TypeError"),
    ("' object is not subscriptable", "TypeError"),
    ("' object is not callable", "TypeError"),
    ("' object is not iterable", "TypeError"),
    ("unsupported operand type(s) for", "TypeError"),
    ("cannot access local variable '", "UnboundLocalError"),
    ("referenced before assignment", "UnboundLocalError"),
    ("list index out of range", "IndexError"),
    ("maximum recursion depth exceeded", "RecursionError"),
)
"""Words of Python's own errors, with the classes of which they are."""
_OF_WORKER: Final = (
    *PYTHON_WORDS,
    ("out of memory", "OutOfMemoryError"),
    ("[Errno 2] No such file or directory: ", "FileNotFoundError"),
    ("zip() argument ", "ValueError"),
    (" values to unpack (expected ", "ValueError"),
    (" positional arguments but ", "TypeError"),
    (" positional argument but ", "TypeError"),
)
"""The same, and those of torch and of files that need no class, for messages that a program says raised an
error."""
_MISCOUNTED: Final = " values to unpack (expected "
"""What Python says where a value has another number of parts than the code unpacks."""
_KEY: Final = re.compile(r"'[^']{1,200}'|\"[^\"]{1,200}\"|\d{1,12}")
"""A key that a mapping lacks, as the message of a KeyError."""
MOST_ABOVE: Final = 240
"""Lines above the last frame in which the heading of its traceback is looked for."""
_NOT_RAISED_AGAIN: Final = re.compile(
    r"(?:\w{1,60}\.){0,8}(\w{1,80}(?:Error|Exception|Failed|Failure))\.__init__\(\) "
    r"(?:missing \d{1,2} required|takes \d{1,2} positional|got an unexpected)",
    re.ASCII,
)
"""What Python says of `raise type(error)(message)` where the class takes something else."""
_IN_TASK: Final = re.compile(r"\bRayTaskError\((\w{1,80})\)", re.ASCII)
"""ray, exceptions.py RayTaskError: the class of what a call raised, whose message follows its traceback."""
BELOW_A_FRAME: Final = 3
"""Lines below a frame in which its source stands."""
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FRAMES_ABOVE: Final = 4
"""Lines above the end of a traceback in which its last frame stands."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception on one line."""

    at: int
    """Position of its line."""
    type: str
    """Class without its module."""
    message: str
    in_prose: bool
    """A person wrote the line; the engine prints an exception behind a prefix alone."""

    @property
    def is_empty(self) -> bool:
        """Whether it only ends a process that was asked to end."""
        return self.type == EXIT and not self.message


def class_in(type_name: str, text: str) -> str:
    """Return the class of an exception where a text names it; empty where only its source is known to."""
    return type_name if type_name in text else ""


def raised_in(lines: Sequence[LogLine]) -> Iterator[Raised]:
    """Yield the exceptions of a log, at most one for each line, in the order of the lines."""
    for at, line in enumerate(lines):
        if line.level not in QUIET and not line.text.startswith(FRAME):
            found = _raised(at, lines)
            if found is not None:
                yield found


def class_of_words(message: str) -> str:
    """Return the class of an error by the words of its message; empty where they are no class's own."""
    return next((name for words, name in _OF_WORKER if words in message), "")


def class_in_task(text: str) -> str:
    """Return the class of what a remote call raised, as Ray names it above the traceback."""
    found = _IN_TASK.search(text)
    return "" if found is None else found[1]


def asserted_above(at: int, lines: Sequence[LogLine]) -> str:
    """Return the check above an exception that has no message of its own, as its source states it."""
    above = (lines[each].text for each in range(at - 1, max(-1, at - 1 - BELOW_A_FRAME), -1))
    return next((text for text in above if _ASSERTS.match(text)), "")


def is_check(message: str) -> bool:
    """Whether a message is only the source of a check, whose names are no words about what failed."""
    return _ASSERTS.match(message) is not None


def message_above(last: int, lines: Sequence[LogLine]) -> Raised | None:
    """Return what the engine logs of an exception above its traceback, for one that is cut off.

    ``last``: the position of its last frame. Python writes a missing key, and nothing else, in quotes.
    """
    heads = (at for at in range(last, max(0, last - MOST_ABOVE), -1) if TRACEBACK in lines[at].text)
    at = next(heads, 0) - 1
    if at < 0 or lines[at].origin is None or lines[at].origin != lines[at + 1].origin:
        return None
    text = lines[at].text
    if lines[at].level != "ERROR" or not text or text.endswith((".", ":")):
        return None
    return Raised(at, "KeyError" if _KEY.fullmatch(text) else class_of_words(text), text, in_prose=False)


def hidden_class(type_name: str, message: str) -> str:
    """Return the class of an error that could not be raised again, since it takes more than a message."""
    found = _NOT_RAISED_AGAIN.match(message) if type_name == "TypeError" else None
    return "" if found is None else found[1]


def raised_by_source(at: int, lines: Sequence[LogLine]) -> Raised | None:
    """Return the exception that the source below the last frame raises, where the exception is cut off."""
    # A copy of a terminal or a form's own spacing can leave every second line empty.
    filled = (
        below for below in range(at + 1, min(at + 1 + 2 * BELOW_A_FRAME, len(lines))) if lines[below].text
    )
    for below in islice(filled, BELOW_A_FRAME):
        found = _RAISES.search(lines[below].text)
        if found is not None:
            return Raised(below, found[1], found[2].strip("()\"' "), in_prose=False)
        if _ASSERTS.match(lines[below].text):
            return Raised(below, "AssertionError", lines[below].text, in_prose=False)
    return None


def placed_as(type_name: str, message: str) -> str:
    """Return the class by which the place of an exception shows its meaning.

    A value that has more or fewer parts than the code unpacks is no refusal but a fault of the code, as a
    TypeError is.
    """
    return "TypeError" if type_name == "ValueError" and _MISCOUNTED in message else type_name


def stated(text: str) -> str:
    """Return the message in the source of a statement that raises an exception; any other text as it is."""
    found = _RAISES.search(text)
    return text if found is None else found[2].strip("()\"' ")


def last_of_chain(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Raised:
    """Return the first exception, or the last one that was raised while it was handled."""
    root = roots[0]
    for each in roots[1:MOST_CHAINED]:
        between = lines[root.at + 1 : min(each.at, root.at + 4)]
        if not any(_CHAINED in line.text for line in between):
            break
        root = each
    return root


def raises(text: str) -> bool:
    """Whether a line begins with an exception, as Python prints it."""
    found = _NAMED.match(text)
    return found is not None and _SUFFIX.search(found[2]) is not None and found[3] is not None


def _raised(at: int, lines: Sequence[LogLine]) -> Raised | None:
    text = lines[at].text
    if (worker := _IN_WORKER.search(text)) is not None:
        return Raised(at, class_of_words(worker[1]), worker[1], in_prose=False)
    for match in _named_classes(text):
        before = text[: match.start()]
        bare = match[3] is None and match[4] is None
        if _CODE.search(before[-24:]) or not _is_exception(match, at, lines):
            continue
        kind = _kind_of_prefix(before)
        if kind is None or (bare and (before or not text.isascii() or match[2] in HEADINGS)):
            continue
        if bare and any(level.startswith(match[2]) for level in _LEVELS):
            # The log was cut off inside of the prefix of its next line.
            continue
        message = _unmarked(match[3].strip()) if match[3] else _inside(match[4] or "")
        if _HOLES.search(message):
            # It is the source that makes the message.
            continue
        if before.endswith("(") and message.endswith(")") and "(" not in message:
            # The exception is in brackets.
            message = message[:-1]
        if (closing := _CLOSING.get(before[-1:])) is not None:
            # What follows the closing mark is the sentence's.
            message = closing.split(message, maxsplit=1)[0]
        return Raised(at, match[2], message, in_prose=kind)
    return _without_sign(at, lines[at])


def _without_sign(at: int, line: LogLine) -> Raised | None:
    """Return an exception without the colon behind its class: as a person tells of it, or a check of C++."""
    met = _MET.search(line.text) if "Error " in line.text and not line.is_logged else None
    if met is not None and _NOT_MET.search(line.text[: met.start()]) is None:
        return Raised(at, met[1], met[2], in_prose=True)
    if " vs" in line.text and _CHECKED.search(line.text) is not None:
        return Raised(at, "", line.text, in_prose=False)
    return None


def _named_classes(text: str) -> Iterator[re.Match[str]]:
    """Yield what can be a class with its message, each of several in a row: `Model: lib.ItsError: words`."""
    found = _NAMED.search(text)
    for _ in range(MOST_PREFIX):
        if found is None:
            return
        yield found
        found = _NAMED.search(text, found.end(2))


def _unmarked(text: str) -> str:
    """Return a message without the marks of code around it; those of its own words stay."""
    if text.count("`") % 2 == 0 and not (text.startswith("`") and text.endswith("`")):
        return text
    return text.strip(" `")


def _inside(text: str) -> str:
    """Return the message of an exception that is printed as a call: ``Error('the message')``."""
    text = text.strip(" `").removesuffix(",)").removesuffix(")")
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1].replace("\\'", "'").strip()
    return text.strip("\"'() `")


def _is_exception(match: re.Match[str], at: int, lines: Sequence[LogLine]) -> bool:
    if _SUFFIX.search(match[2]) is not None:
        return True
    if match[1] and match[3] and ".errors." in f".{match[1]}":
        return True
    # The line below the last frame of a traceback is the exception, whatever its class is called; at the end
    # of a text its name is cut off.
    above = lines[max(0, at - FRAMES_ABOVE) : at]
    if match.start() != 0 or (above and _DOTTED.match(above[-1].text)):
        return False
    ends_in_it = at == len(lines) - 1 and match[3] is None and match[4] is None
    return not ends_in_it and any(line.text.startswith(FRAME) for line in above)


def _kind_of_prefix(before: str) -> bool | None:
    """Return whether a text before an exception is prose; ``None`` where it only mentions the class."""
    words = before.split()
    if not words:
        return False
    odd = sum(1 for word in words[:MOST_PREFIX] if not _of_prefix(word))
    if len(words) <= MOST_PREFIX and odd <= 1 and _of_prefix(words[-1]):
        return False
    return True if before.rstrip().endswith(_CLOSED) or words[-1].isupper() else None


def _of_prefix(word: str) -> bool:
    """Whether a word is one of those that log collectors put before a line: a time, a name, a level."""
    return (
        len(word) == 1
        or word.endswith((":", "|", ")", "]", ">", "}", "`", '"', "*", "#"))
        or word.startswith(("(", "[", "{", '"', "`", "#"))
        or any(each.isdigit() for each in word)
        or word in _MONTHS
        or (word.isupper() and word.isascii())
        or word in {"stderr", "stdout"}
    )
