"""Splits a log into lines: bounded in number and length, printable, and without secrets."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import groupby, islice
from typing import Final

from service.redaction import HIDDEN, hide_secrets
from service.startup_log.text.comment_blocks import without_comment_marks
from service.startup_log.text.escaped_lines import unescaped, without_metadata
from service.startup_log.text.issue_headers import without_issue_headers
from service.startup_log.text.joined_lines import separated, separated_alone
from service.startup_log.text.long_logs import AROUND, END, MARKERS, MIDDLE, CondensedLog, LogCondenser
from service.startup_log.text.numbered_lines import without_numbers
from service.startup_log.text.single_rows import rows_apart

MAX_CHARACTERS: Final = 2 * END + MIDDLE
"""Characters that are read as they are. A longer log is condensed: `service.startup_log.text.long_logs`."""
MAX_LINES: Final = 4_300
"""Lines that are read: of ``MAX_CHARACTERS`` they have 76 characters each, and lines of a log have more."""
MAX_LINE: Final = 16_384
"""Characters of one line. The engine's longest line, its configuration, has about 6,000."""

LEAST_MARKED: Final = min(map(len, MARKERS))
"""Characters of the shortest line that shows a failure or a step of a start."""
MAX_PIECES: Final = 4
TERMINALS: Final = (60, 250)
"""Columns of a terminal whose copy is unwrapped."""
LEAST_WRAPPED: Final = 3
"""Lines of exactly the greatest length that show a terminal's width."""
PRINTED: Final = (".py", "/", "=", "[", "::", "'", "Error", "^")
"""What programs print and prose has rarely; the marks of code in Markdown are none."""
FRAMED: Final = frozenset("|+-=^~*#")
"""Ends of lines that are drawn to one width: tables, rules, the marks of a traceback."""

_CARETS: Final = re.compile(r"(?:\^\[|ESC|#033)\[[0-9;]{0,16}m|\^M$|#015(?=\"?$|Loading)")
"""The same escapes as `cat -v`, some editors and rsyslog show them."""
_QUOTED_FIELD: Final = re.compile(r'^\d{10,13},"(.*?)"?$')
"""A line that was exported as a field of CSV behind its time, with its quotes doubled."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|[@-Z\\-_])")
_ORIGIN: Final = re.compile(r"(?:\[|(?<=:\d\d )|(?<=\.\d\d\d ))([A-Za-z0-9_/]{1,100}\.py):([0-9]{1,6})\] ?")
_LEVEL: Final = re.compile(
    r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)(?=: |:$| {1,4}(?:(?:\d{4}-)?\d\d-\d\d |\[))"
)
_CUT_LEVEL: Final = re.compile(r"\s{0,8}([A-Z]{2,7}) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?: |\.\d{3} )\[")
"""The level of a text's first line whose beginning was not copied: `ARNING 09-16 10:54:42 [a.py:20]`."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_HEADINGS: Final = ("# ", "## ", "### ", "#### ")
"""Beginnings of a person's headings in Markdown; a level in one of them is not that of a log line."""
_WARNS: Final = re.compile(r"\b[A-Za-z]{0,40}Warning: |\[W[0-9 ][^\]]{0,60}\.cpp:[0-9]{1,6}\]")
"""A warning of Python or of torch, which has no level: ``[W socket.cpp:601]``."""
MAX_WARNED: Final = 300
"""Characters at the beginning of a line in which the place of a warning stands."""
_WARNS_AT: Final = re.compile(r"\ufeff?(?:\([\w =]{1,60}\) )?[^\s:]{1,250}\.py:\d{1,6}: [A-Z]\w{2,60}: ")
"""How Python's warnings module writes a warning, whatever its class is called: file, line, class, message."""
_WARNED: Final = "warnings.warn("
MOST_OF_WARNING: Final = 6
"""Lines of the message of a warning at most."""
_TORCH_WARNS: Final = re.compile(
    r"(?:\[rank\d{1,5}\]:)?W\d{4} \d\d:\d\d:\d\d\.\d{1,6} \d{1,8} [^\]\s]{1,300}\.py:\d{1,6}\] ?"
    r"(?:\[[\d/_]{1,20}\] ?)?"
)
"""What torch's own logger writes before each line of a warning, those of a traceback too: its
_logging/_internal.py, TorchLogsFormatter."""
_HEADS_WARNING: Final = re.compile(r"\.py:\d{1,6}: [A-Za-z]{0,40}Warning: .{1,400}:$")
"""A warning of Python whose message goes on below: the import that failed, the package that is absent."""
_OF_WARNING: Final = re.compile(r"(?!Traceback )[^\W_A-Z]")
"""The line below it: the rest of a sentence, and no traceback and no exception."""
MAX_PREFIX: Final = 120
"""Characters at the beginning of a line in which its level is looked for."""
_TIME: Final = re.compile(r" {1,4}(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)(?!\d)")
"""What follows a level; programs around the engine write the year and thousandths too."""
_GROUP: Final = r"\([A-Za-z0-9_:.,=/@ -]{1,80}\)"
_KIND: Final = (
    r"(?!\[(?:Bug|RFC|Feature|Usage|Docs?|Installation|Misc|Performance|Question|Roadmap|Refactor)\])"
)
"""What a log puts before no line: the kind of an issue, with which its title begins."""
_PROCESS: Final = re.compile(
    r"^\s{0,8}(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,60} [\w@.-]{1,60}(?:\[\d{1,8}\])?: "
    r")?(?:\d{10,13},)?"
    r"(?:\d{4}-\d\d-\d\d(?:T[\d:]{8}\.\d{6,9}Z | [\d:.]{8,18} \| ))?"
    r"(?:[A-Za-z0-9_.-]{1,60}\s{1,8}\| {1,2})?"
    rf"(?:{_KIND}\[[A-Za-z0-9_:.-]{{1,40}}\]:? ){{0,3}}"
    rf"(?:{_GROUP}(?: |$)){{0,3}}(?:{_KIND}\[[A-Za-z0-9_:.-]{{1,40}}\]: )?"
)
"""The journal's, a collector's or Docker's time, Compose's service, tags in brackets, processes in
parentheses, a rank."""
MOST_OF_SERVICE: Final = 72
"""Characters at the beginning of a line in which the name of its service ends."""
_SERVICE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,59})\s{1,8}\| ", re.ASCII)
"""What Docker Compose writes before each line: cmd/formatter/logs.go of its repository."""
_IN_PROSE: Final = re.compile(
    r"(?i)((?:(?:api|access|secret|private)[-_]?keys?|token|passwd|password|secret|credentials?)\s)"
    r"[^\s'\",\]})]{4,4096}"
)
"""A secret that follows its name after a blank. In other texts this form is too common to be masked."""
_SECRETS: Final = ("key", "token", "passw", "secret", "credential")
"""Words one of which each name of a secret holds."""
_ESCAPED: Final = re.compile(
    r"&(?:lt|gt|amp|quot|apos|nbsp|#0{0,4}(?:34|38|39|47|60|62)|#[xX](?:22|26|27|2[fF]|3[cCeE]));"
)
"""Characters as a page's source has them."""
_TYPED_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
"""Quotes that an editor for prose puts in place of the engine's own."""
_MISSING: Final = "No module named "
_OTHER_QUOTES: Final = re.compile(_MISSING + r"[\"`]([\w.]{1,200})[\"`]")
"""A missing module in quotes of a page or of JSON; Python writes single ones (Python 3.12, importlib)."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log."""

    number: int
    """Number of the line in the given log, counted from 1."""
    text: str
    """The engine's own message, without the prefix (process, time, level) and unprintable characters."""
    origin: tuple[str, int] | None
    """File and line of the statement that logged it; None if the log does not state them."""
    level: str = ""
    """`DEBUG` to `CRITICAL`; empty if the log does not state it."""
    time: str = ""
    """Month, day and time that the engine logged, as they stand there; empty if the log states none."""
    service: str = ""
    """The service of Docker Compose that wrote it; empty if the log names none."""

    @property
    def is_logged(self) -> bool:
        """Whether it has what a log puts before a message; a person may have written any other line."""
        return bool(self.level or self.origin or self.time)


def read_lines(log: str | CondensedLog) -> tuple[LogLine, ...]:
    """Return a log's lines, cleaned.

    Of a log longer than ``MAX_CHARACTERS`` the two ends are read, and the lines between them that show a
    failure or a step of a start; so of more than ``MAX_LINES`` lines. A line
    longer than ``MAX_LINE`` is read as several lines of the same number.
    """
    numbered = _numbered(log.removesuffix("\n")) if isinstance(log, str) else log.numbered
    if len(numbered) > MAX_LINES:
        numbered = tuple(_ends_and_failures(numbered))
    texts = without_issue_headers(without_metadata([text for _, text in numbered]))
    texts = rows_apart(without_comment_marks(without_numbers(texts)))
    numbered = tuple(zip((number for number, _ in numbered), texts, strict=True))
    # A progress bar writes many texts over one line of the log; all of them have that line's number.
    written = ((number, part) for number, text in numbered for part in unescaped(text).splitlines() or ("",))
    shown = list(islice(written, MAX_LINES))
    apart = separated_alone if sum(bool(text.strip()) for _, text in shown) == 1 else separated
    drawn = ((number, piece) for number, text in shown for part in apart(text) for piece in _pieces(part))
    lines = _with_long_warnings(list(_read(islice(drawn, MAX_LINES))))
    return tuple(_with_wrapped_warnings(_with_levels_of_records(lines)))


def _with_levels_of_records(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines of one record with the level that the copy of some of them has lost.

    The engine writes the level and the place of the statement before each line of a record.
    """
    if all(line.level or line.origin is None for line in lines):
        return lines
    found: list[LogLine] = []
    for origin, run in groupby(lines, key=lambda line: line.origin):
        record = list(run)
        level = next((line.level for line in record if line.level), "") if origin is not None else ""
        found.extend(line if line.level else replace(line, level=level) for line in record)
    return found


def _with_long_warnings(lines: list[LogLine]) -> Sequence[LogLine]:
    """Return the lines with those of a warning's message below its first marked as a warning too.

    The module warnings writes the source of the call that warned below its message.
    """
    for at, line in enumerate(lines):
        if not line.text.startswith(_WARNED) or line.level:
            continue
        above = range(at - 1, max(-1, at - 1 - MOST_OF_WARNING), -1)
        head = next((each for each in above if lines[each].level), at)
        if lines[head].level == "WARNING" and _WARNS.search(lines[head].text):
            lines[head + 1 : at] = [replace(each, level="WARNING") for each in lines[head + 1 : at]]
    return lines


def _with_wrapped_warnings(lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """Yield the lines with those of a warning as such, whose message begins below its time and place."""
    left = 0
    for line in lines:
        if line.is_logged or not line.text:
            left = MOST_OF_WARNING if line.level == "WARNING" and line.origin and not line.text else 0
            yield line
        else:
            yield replace(line, level="WARNING") if left else line
            left = max(0, left - 1)


def _ends_and_failures(numbered: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Return ``MAX_LINES`` lines: both ends, and lines between them around a failure or a step of a start."""
    ends = MAX_LINES * 3 // 8
    before, after = AROUND
    between = range(ends, len(numbered) - ends)
    long = (at for at in between if len(numbered[at][1]) >= LEAST_MARKED)
    shown = (at for at in long if any(map(numbered[at][1].__contains__, MARKERS)))
    around = dict.fromkeys(
        near for at in shown for near in range(at - before, at + after + 1) if near in between
    )
    kept = set(islice(around, MAX_LINES - 2 * ends))
    others = (at for at in between if at not in kept)
    kept.update(islice(others, MAX_LINES - 2 * ends - len(kept)))
    return (each for at, each in enumerate(numbered) if at in kept or at not in between)


def _read(numbered: Iterable[tuple[int, str]]) -> Iterator[LogLine]:
    """Yield the lines, cleaned; those that ranks and progress bars repeat are cleaned once."""
    known: dict[str, LogLine] = {}
    warns = False
    for number, text in numbered:
        line = known.get(text)
        if line is None:
            line = known[text] = _line(number, text)
        same = line.number == number
        goes_on = warns and not line.level and _OF_WARNING.match(line.text) is not None
        level = "WARNING" if goes_on else line.level
        warns = _HEADS_WARNING.search(line.text) is not None
        if same and not goes_on:
            yield line
        else:
            yield replace(line, number=number, level=level)


def _numbered(log: str) -> Sequence[tuple[int, str]]:
    if len(log) <= MAX_CHARACTERS:
        return list(enumerate(_unwrapped(log.split("\n")), 1))
    condenser = LogCondenser()
    for at in range(0, len(log), MAX_CHARACTERS // 4):
        condenser.feed(log[at : at + MAX_CHARACTERS // 4])
    return condenser.finish().numbered


def _unwrapped(lines: list[str]) -> list[str]:
    """Return the lines of a terminal's copy with the parts of a wrapped line joined; the numbers stay.

    A terminal cuts every longer line at its width, so that several lines have exactly the greatest length.
    """
    lengths = [len(line.rstrip("\r")) for line in lines]
    width = max(lengths)
    cut = [line for line, length in zip(lines, lengths, strict=True) if length == width]
    # What a person wraps between words is prose, some lines of which can be as long as each other.
    printed = any(any(map(line.__contains__, PRINTED)) for line in cut)
    if not TERMINALS[0] <= width <= TERMINALS[1] or len(cut) < LEAST_WRAPPED or not printed:
        return lines
    joined: list[str] = []
    into: int | None = None
    for at, line in enumerate(lines):
        if into is None:
            joined.append(line)
        else:
            joined[into] = joined[into].rstrip("\r") + line
            joined.append("")
        wrapped = lengths[at] == width and line.rstrip("\r")[-1] not in FRAMED
        into = (at if into is None else into) if wrapped else None
    return joined


def _pieces(text: str) -> Iterator[str]:
    """Yield a line in at most ``MAX_PIECES`` pieces that end between words: its beginning, and its end."""
    pieces = 1
    while len(text) > MAX_LINE:
        end = text.rfind(" ", MAX_LINE // 2, MAX_LINE) + 1
        yield text[: end or MAX_LINE]
        if not end:
            return
        pieces += 1
        text = text[end:] if pieces < MAX_PIECES else text[-MAX_LINE:]
    yield text


def _line(number: int, text: str) -> LogLine:
    text = clean(text[:MAX_LINE])
    service = _service(text)
    heading = text.startswith(_HEADINGS)
    origin = None if heading else _ORIGIN.search(text)
    level = _LEVEL.search(text, 0, MAX_PREFIX if origin is None else origin.end())
    named = "" if heading else level[1] if level is not None else _level_without_name(text)
    timed = None if level is None else _TIME.match(text, level.end())
    time = "" if timed is None else timed[1]
    if origin is None:
        text = _PROCESS.sub("", text).strip()
        if (torch_s := _TORCH_WARNS.match(text)) is not None:
            return LogLine(number, text[torch_s.end() :], None, "WARNING", time, service)
        return LogLine(number, text, None, named, time, service)
    return LogLine(number, text[origin.end() :].strip(), (origin[1], int(origin[2])), named, time, service)


def _service(text: str) -> str:
    """Return the service whose name Docker Compose writes before a line; empty for any other line."""
    found = _SERVICE.match(text) if " | " in text[:MOST_OF_SERVICE] else None
    return "" if found is None else found[1]


def _level_without_name(text: str) -> str:
    """Return the level of a line of a library that writes it in its own way; empty for any other."""
    if "NCCL INFO" in text:
        return "INFO"
    if (cut := _CUT_LEVEL.match(text)) is not None:
        return next((name for name in LEVELS if name.endswith(cut[1])), "")
    if ".py:" in text[:MAX_WARNED] and _WARNS_AT.match(text) is not None:
        return "WARNING"
    return "WARNING" if _WARNS.search(text) else ""


_CITED: Final = re.compile(
    r"^\s{0,12}(?:[>|] ?){1,3}\s{0,8}"
    r"(?=\[\d{4}-\d\d-\d\dT|File \"|Traceback |raise |assert |[A-Z]\w{2,60}(?:Error|Exception)\b|"
    r"ERROR |INFO |WARNING )"
)
"""Marks of a citation in Markdown, of a single cell, or of an exception in a group, before what a program
wrote; a shell writes `> FILE` too."""


def _is_row(text: str) -> bool:
    """Whether a line is a row of several cells in a table of Markdown."""
    return text.rstrip().endswith("|") and text.count("|") > 2  # noqa: PLR2004 - one cell has two bars


def clean(text: str) -> str:
    """Return a line as the engine wrote it, printable and without text that looks like a secret.

    Terminal escapes are removed; HTML's escapes and typographic quotes become the characters themselves.
    """
    if text.lstrip()[:1] in {">", "|"} and not _is_row(text):
        text = _CITED.sub("", text)
    if "&" in text:
        text = _ESCAPED.sub(lambda found: unescape(found[0]), text)
    if "\\_" in text:
        text = text.replace("\\_", "_")
    if not text.isascii():
        text = text.translate(_TYPED_QUOTES)
    if "^" in text or "ESC[" in text or "#0" in text:
        text = _CARETS.sub("", text)
    if '""' in text and (field := _QUOTED_FIELD.match(text)) is not None:
        text = field[1].replace('""', '"')
    if _MISSING in text:
        text = _OTHER_QUOTES.sub(rf"{_MISSING}'\1'", text)
    if not text.isprintable():
        text = _ESCAPES.sub("", text)
        text = "".join(each if each.isprintable() else " " for each in text)
    text = hide_secrets(text)
    named = any(map(text.lower().__contains__, _SECRETS))
    return _IN_PROSE.sub(rf"\1{HIDDEN}", text) if named else text
