"""Finds lines of a text that no running program wrote: source code, comments, tables and lists of tasks."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from typing import Final

from service.startup_log.errors.conditional_errors import conditional
from service.startup_log.errors.exceptions import BELOW_A_FRAME, raises
from service.startup_log.errors.tracebacks import HEADER, frame_of
from service.startup_log.text.lines import LogLine
from service.startup_log.text.pytest_reports import ERROR_MARK

FENCES: Final = ("```", "~~~")
"""Beginnings of the lines around a block of Markdown."""
LANGUAGES: Final = frozenset(
    {
        *("python", "py", "python3", "c", "cpp", "c++", "cuda", "cu", "hip", "rust", "go", "java"),
        *("javascript", "js", "typescript", "ts", "cmake", "dockerfile", "toml", "ini", "jinja"),
        *("sql", "lua", "triton"),
    }
)
"""Names behind a fence with which Markdown marks a block of source code."""
DIFF: Final = frozenset({"diff", "patch"})
"""The same of a change of source code."""
LONGEST: Final = 400
"""Characters of a line in which a statement is looked for."""
_STARTS_OF_STATEMENTS: Final = (
    *("raise ", "except ", "except:", "print(", "assert ", "with pytest.", "pytest.raises(", "throw "),
    *("logger.", "log.", "logging.", "warnings.warn", "self.", "return ", "std::", "TORCH_CHECK"),
    *("AT_ERROR(", "if ", "elif ", "else:"),
)
_STATEMENT: Final = re.compile(
    r"raise [\w.]{2,120}(?:\(|$)|except(?: [\w.]{2,120}| \([\w., ]{2,200}\))?(?: as \w{1,60})?:|"
    r"(?:print|pytest\.raises|AT_ERROR|TORCH_CHECK\w{0,20}|warnings\.warn\w{0,20})\(|with pytest\.raises\(|"
    r"throw (?:std::|new )?\w[\w:]{0,80}(?:\(|;|$)|(?:self\.)?(?:_?logger|log|logging)\.\w{3,20}\(|"
    r"self\.[\w.]{1,120} ?[(=]|"
    r"assert .{1,300}(?:==|!=| is | in |isinstance|, ?f?[\"'])|return (?:f?[\"'({\[]|\w{1,80}(?:\(|\.|$))|"
    r"std::\w{2,40}|else:$",
    re.ASCII,
)
"""A statement of Python or C++."""
_CONDITIONS: Final = ("if ", "elif ")
_COMPARES: Final = ("(", "==", "!=", "<", ">", " is ", " not ", "self.")
"""What a condition has that is source code, and no sentence."""
_BEGINS: Final = re.compile(
    r"import [\w.]{1,120}(?: as \w{1,60})?$|from [\w.]{1,120} import \w|(?:async )?def \w{1,120}\(|"
    r"class \w{1,120}(?:\([\w., ]{0,200}\))?:$",
    re.ASCII,
)
"""A statement with which a program in Python begins."""
_SEARCHED: Final = re.compile(
    r"(?:[\w.-]{1,80}/){0,20}[\w.-]{1,120}\.(?:pyi?|cpp|cc|cuh?|hpp?)[:-]\d{1,7}[:-]\s{0,80}"
)
"""What grep writes before a line of source."""
_IS_TASK: Final = re.compile(r"[-*+] \[[ xX]\] ")
"""An item of a list of tasks in Markdown."""
_RULE: Final = re.compile(r"\|(?:\s?:?-{1,80}:?\s?\|){2,40}$")
"""The line below the head of a table in Markdown."""
LEAST_CELLS: Final = 3
"""Bars of a table's row of two cells."""
ONE_ROW: Final = 3
"""Lines of a table of one row, with its head; tables of more rows list what may come."""
_OF_NATIVE: Final = ("] Assertion `", "terminate called after throwing", "(core dumped)")
"""What CUDA's runtime prints of a failed check of a kernel, C++ of an exception, and a shell of a process."""
MOST_AROUND: Final = 64
"""Lines of a text that are counted."""
_PRINTS: Final = re.compile(
    r"(?i)# {0,3}(?:error|output|result|stderr|fails with)[:,]? {1,3}"
    r"(?-i:(?:\w{1,40}\.){0,6}[A-Z]\w{1,60}(?:Error|Exception)): \S",
    re.ASCII,
)
"""A comment that says what the command above it printed."""
_CONFIGURES: Final = re.compile(
    r"- (?:--?\w|[\w.-]{1,60}[:=]|[\"'])|[A-Za-z_][\w.-]{0,60}:(?: ?$| [^\s:]{1,120}$)|--[a-z][\w-]{1,60}|"
    r"(?:export |set |ENV |RUN |ARG )?[A-Za-z_]\w{0,60}=\S|(?:sudo |exec |nohup )?"
    r"(?:vllm (?:serve|bench)|docker |podman |python3? -m |uv |pip3? |set -|#!/)"
)
"""A line of a file in YAML, of a shell's script, or of a Dockerfile."""
_OF_ERROR: Final = re.compile(r"\w{0,80}(?:Error|Exception|error|ERROR|WARNING|INFO|Warning)\b", re.ASCII)
"""The beginning of a message, which looks like a key with its value."""


_BELOW_A_CALL: Final = ("raise ", "#", '"', "'", *_STARTS_OF_STATEMENTS)
BELOW_A_STATEMENT: Final = 4
"""Lines below a statement in which the next call or the exception stands: marks, and other ranks' lines."""


def without_code(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines, with an empty text in place of each that no program wrote while it ran."""
    shown = code_in(lines)
    above = {at: left for at, left in conditional(lines) if at not in shown}
    left = [replace(line, text=above.get(at, line.text)) for at, line in enumerate(lines)] if above else lines
    return blanked(left, shown) if shown else left


def blanked(lines: Sequence[LogLine], positions: AbstractSet[int]) -> Sequence[LogLine]:
    """Return the lines with an empty text at some positions."""
    return [replace(line, text="") if at in positions else line for at, line in enumerate(lines)]


def code_in(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of source code, comments, rows of tables and items of lists of tasks."""
    found = {*_in_blocks(lines), *_statements(lines), *comments(lines), *rows(lines), *_tasks(lines)}
    return found | {*_script(lines), *_flags(lines)}


def is_statement(text: str) -> bool:
    """Whether a line is a statement of Python or C++, behind what grep writes too."""
    if not text.startswith(_STARTS_OF_STATEMENTS):
        found = _SEARCHED.match(text) if "." in text[:120] and ":" in text else None
        if found is None:
            return False
        text = text[found.end() :]
        if text.startswith(("#", '"', "'", 'f"', "f'")):
            return True
    text = text[:LONGEST]
    if text.startswith(_CONDITIONS):
        return text.endswith(":") and any(map(text.__contains__, _COMPARES))
    return _STATEMENT.match(text) is not None


def below_calls(lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield the source below the calls of tracebacks, but for the statement of which nothing is left but it.

    Where a traceback is cut off below `raise`, that statement is all that shows the exception.
    """
    for at, (above, line) in enumerate(pairwise(lines), 1):
        if not line.text.startswith(_BELOW_A_CALL) or frame_of(above) is None or raises(line.text):
            continue
        if not line.text.startswith("raise ") or _goes_on(at, lines):
            yield at


def _goes_on(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a traceback has more calls or its exception below a statement."""
    below = lines[at + 1 : at + 1 + BELOW_A_STATEMENT]
    return any(frame_of(line) is not None or raises(line.text) for line in below)


def _blocks(lines: Sequence[LogLine]) -> Iterator[tuple[str, int, int]]:
    """Yield the language of each fenced block, and the positions of its first line and of its end."""
    fences = [at for at, line in enumerate(lines) if line.text.startswith(FENCES)]
    for begin, end in zip(fences[::2], [*fences[1::2], len(lines)], strict=False):
        yield lines[begin].text.strip("`~ ").partition(" ")[0].lower(), begin + 1, end


def _in_blocks(lines: Sequence[LogLine]) -> Iterator[int]:
    for language, begin, end in _blocks(lines):
        if language in DIFF:
            yield from (at for at in range(begin, end) if lines[at].text.startswith(("+", "-", "@@")))
        elif language in LANGUAGES or _is_program(lines[begin:end]):
            printed = next((at for at in range(begin, end) if _is_printed(at, lines)), end)
            yield from range(begin, printed)
        yield from (at for at in range(begin, end) if _is_comment(lines[at]))


def _is_comment(line: LogLine) -> bool:
    """Whether a line is a comment, and does not say what a command printed."""
    return line.text.startswith("# ") and not line.level and _PRINTS.match(line.text[:LONGEST]) is None


def _is_program(block: Sequence[LogLine]) -> bool:
    """Whether a block without a language begins as a program does."""
    first = next((line.text for line in block if line.text and not line.text.startswith("#")), "")
    return _BEGINS.match(first[:LONGEST]) is not None


def _is_printed(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a program printed a line: of its log, of a traceback, or an exception at its beginning."""
    line = lines[at]
    if line.is_logged or HEADER in line.text or line.text.startswith(ERROR_MARK):
        return True
    if any(map(line.text.__contains__, _OF_NATIVE)):
        return True
    return frame_of(line) is not None or raises(line.text)


def _statements(lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield statements that stand below no call of a traceback, with the lines of text in their brackets."""
    open_call = False
    for at, line in enumerate(lines):
        text = line.text
        if open_call and text.startswith(('"', "'", 'f"', "f'", ")")):
            yield at
            open_call = not text.startswith(")")
            continue
        open_call = False
        if line.level or line.origin or not is_statement(text) or _is_in_report(at, lines):
            continue
        open_call = text.endswith("(")
        yield at


def _is_in_report(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a statement is the source of a call in a traceback, or the check that an exception is about."""
    # A copy of a terminal can leave every second line empty.
    above = at - 2 if at > 1 and not lines[at - 1].text else at - 1
    if above >= 0 and frame_of(lines[above]) is not None:
        return True
    below = lines[at + 1 : at + 1 + BELOW_A_FRAME]
    return lines[at].text.startswith("assert ") and any("AssertionError" in line.text for line in below)


def without_script(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines without the words of a script with which a text begins."""
    script = _script(lines)
    return blanked(lines, set(script)) if script else lines


def _script(lines: Sequence[LogLine]) -> range:
    """Return the lines of a text that is a script, up to the first that a program printed."""
    first = next((at for at, line in enumerate(lines) if line.text), 0)
    if not lines or not lines[first].text.startswith("#!/"):
        return range(0)
    return range(next((at for at in range(first, len(lines)) if _is_printed(at, lines)), len(lines)))


def _flags(lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield the flags of a container in YAML, with the comments behind them."""
    for at, line in enumerate(lines):
        if line.text.startswith(('- "--', "- '--", "- --")) and not line.level:
            yield at


def comments(lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield comments beside the lines of a file of configuration or of a script."""
    known = False
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].text.startswith("#") and not lines[end].level:
            if _PRINTS.match(lines[end].text[:LONGEST]) is not None:
                break
            end += 1
        if end == at:
            known = bool(lines[at].text) and _configures(lines[at])
            at += 1
            continue
        below = end < len(lines) and _configures(lines[end])
        if known or (below and (end - at > 1 or at)):
            yield from range(at, end)
        at = end


def _configures(line: LogLine) -> bool:
    if line.is_logged:
        return False
    return _CONFIGURES.match(line.text) is not None and _OF_ERROR.match(line.text) is None


def rows(lines: Sequence[LogLine]) -> Iterator[int]:
    """Yield the rows of tables in Markdown, but a single one that is all of a text: it reports a failure."""
    found: list[int] = []
    inside = False
    for at, (above, line) in enumerate(pairwise(lines), 1):
        if line.text.startswith("|") and _RULE.match(line.text) is not None:
            inside = True
            if _is_row(above.text):
                found.append(at - 1)
        inside = inside and _is_row(line.text)
        if inside:
            found.append(at)
    filled = sum(1 for line in lines[:MOST_AROUND] if line.text)
    if len(found) == ONE_ROW and filled <= ONE_ROW + 1:
        return iter(found[:2])
    return iter(found)


def _is_row(text: str) -> bool:
    return text.startswith("|") and text.endswith("|") and text.count("|") >= LEAST_CELLS


def _tasks(lines: Sequence[LogLine]) -> Iterator[int]:
    for at, line in enumerate(lines):
        if line.text.startswith(("- [", "* [", "+ [")) and _IS_TASK.match(line.text) is not None:
            yield at
