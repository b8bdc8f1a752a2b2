"""Finds errors that a text names though they did not happen to vLLM: in advice, and of other engines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.text.lines import LogLine

ENGINES: Final = (
    "sglang",
    "llama.cpp",
    "tensorrt-llm",
    "trt-llm",
    "ollama",
    "lmdeploy",
    "text-generation-inference",
    "exllama",
)
"""Other engines, in small letters."""
OWN: Final = "vllm"
_IF: Final = re.compile(
    r"(?i)\b(?:if|when|should|in case) (?:you (?:ever )?(?:see|get|hit|encounter|run into)|"
    r"the (?:startup |start |server |engine |container )?logs? (?:shows?|says?|has|contains?))\b|"
    r"\u82e5.{0,12}(?:\u51fa\u73b0|\u62a5)|\u5982\u679c(?:\u770b\u5230|\u51fa\u73b0|\u9047\u5230|\u62a5\u9519)|"
    r"\u5982(?:\u9047|\u51fa\u73b0|\u62a5\u9519)"
)
"""How advice begins for an error that may come: `if you see`, and the same in Chinese."""
_GENERAL: Final = re.compile(
    r"(?i)\b(?:most|almost all|nearly all|common|typical|frequent) (?:[\w./-]{1,24} ){0,4}"
    r"(?:failures|errors|problems|issues|crashes)\b(?: [\w'-]{1,20}){0,4} "
    r"(?:are|come (?:from|down)|fall|stem|boil|trace|have)\b|"
    r"\bone of (?:the )?(?:two|three|four|five|six|seven|several|\d{1,2}) (?:[\w-]{1,20} ){0,2}"
    r"(?:things|causes|reasons|problems|issues|failures|errors|classes|kinds|categories|ways)\b|"
    r"\b(?:common|typical|possible|likely|usual|frequent) (?:root )?(?:causes|reasons) (?:are|include)\b"
)
"""How a sentence begins or goes on that lists what failures have as their cause, and reports none."""
_GENERAL_WORDS: Final = (
    "failures",
    "errors",
    "problems",
    "issues",
    "crashes",
    "one of ",
    "causes",
    "reasons",
)
_IF_WORDS: Final = ("if ", "If ", "hen ", "hould ", "n case", "\u82e5", "\u5982")
_ENDS: Final = re.compile(r"(?<=[.!?\u3002])\s+")
_ENDS_BEFORE: Final = re.compile(r"(?<=[^\s.!?][.!?])\s|\u3002")
"""Ends of the sentences of a line."""
_EXAMPLE: Final = re.compile(
    r"\(?(?:\be\.g\.,?|\bfor example,?) [`'\"]?(?:[a-z_]\w{0,40}\.){0,6}"
    r"(?:Async)?Engine(?:Dead|Generate)Error\b(?!: ?\w)[`'\"]?\)?|"
    r"\((?:e\.g\.,?|for example,?|such as) (?=[^()]{0,80}\b(?:OOM|out of memory)\b)"
    r"[^():]{1,80}(?:,| or )[^():]{1,80}\)"
)
"""What an engine's end raises, as an example: `(e.g. EngineDeadError)`, `(e.g., CUDA OOM, no weights)`."""
_COMPARED: Final = re.compile(
    r"(?i)\b(?:analogous|(?:similar|same|equivalent|corresponding) (?:case|check|path|error)s? "
    r"(?:elsewhere|in other)|unlike the|by contrast|in contrast)\b"
)
"""How a person sets another error beside the one that they report: `the analogous case raises ...`."""
_HEADING: Final = re.compile(r"#{2,6} ")
MOST_OF_LINE: Final = 600
"""Characters of a line in which such words are looked for."""
MOST_LINES: Final = 3000
"""Lines of a text in which other engines are looked for."""
MOST_ABOVE: Final = 4
"""Lines of a paragraph above an error that are read."""
MOST_OF_SECTION: Final = 80
"""Lines above an error in which the heading of its section stands."""


def conditional(lines: Sequence[LogLine]) -> Iterator[tuple[int, str]]:
    """Yield the positions of a person's lines that say what to do if an error comes, with what stands before.

    So do lines that list the causes which failures have in general. Of a line of several sentences, those
    before the first condition are of what happened.
    """
    for at, line in enumerate(lines):
        if not _is_written(line):
            continue
        supposes = any(map(line.text.__contains__, _IF_WORDS))
        found = _IF.search(line.text[:400]) if supposes else None
        if found is None and any(map(line.text.__contains__, _GENERAL_WORDS)):
            found = _GENERAL.search(line.text[:400])
        if found is not None:
            before = line.text[: found.start()]
            yield at, before[: max((end.end() for end in _ENDS_BEFORE.finditer(before)), default=0)]


def without_examples(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines without the classes that a person names as examples of how an engine's end shows."""
    named = {at for at, line in enumerate(lines) if _is_written(line) and _EXAMPLE.search(line.text)}
    if not named:
        return lines
    return [
        replace(line, text=_EXAMPLE.sub("", line.text)) if at in named else line
        for at, line in enumerate(lines)
    ]


def compared(said: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of errors that a person's sentence only sets beside the one that happened."""
    return {at for at in said if _is_written(lines[at]) and _COMPARED.search(lines[at].text[:MOST_OF_LINE])}


def names_other_engines(lines: Sequence[LogLine]) -> bool:
    """Whether a text names other engines."""
    text = "\n".join(line.text for line in lines[:MOST_LINES]).casefold()
    return any(map(text.__contains__, ENGINES))


def of_other_engines(errors: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of errors that a text reports of another engine, by sentence or section.

    The lines of the paragraph above one, which say the same, are among them.
    """
    found: set[int] = set()
    for at in errors:
        if _is_written(lines[at]):
            begin, said = _sentence_before(at, lines)
            found.update(range(begin, at + 1) if _is_of_other(at, said, lines) else ())
    return found - {next((at for at, line in enumerate(lines) if line.text), 0)}


def _is_of_other(at: int, said: str, lines: Sequence[LogLine]) -> bool:
    if OWN in said or any(map(said.__contains__, ENGINES)):
        return OWN not in said
    return any(map(_section_of(at, lines).__contains__, ENGINES))


def _sentence_before(at: int, lines: Sequence[LogLine]) -> tuple[int, str]:
    """Return the sentence that holds an error, or the one above its block, and its paragraph's begin."""
    text = lines[at].text
    begin = at
    filled = 0
    while begin and filled < MOST_ABOVE:
        above = lines[begin - 1]
        if not _is_written(above) or _HEADING.match(above.text):
            break
        begin -= 1
        if above.text and not above.text.startswith("```"):
            filled += 1
            text = f"{above.text} {text}"
    parts = [each for each in _ENDS.split(text[-1200:]) if each]
    return begin, parts[-1].casefold() if parts else ""


def _section_of(at: int, lines: Sequence[LogLine]) -> str:
    """Return the headings above a line that name its sections, in small letters."""
    above = lines[max(0, at - MOST_OF_SECTION) : at]
    headings = [line.text for line in above if _HEADING.match(line.text)]
    named = [
        each.casefold()
        for each in headings
        if OWN in each.casefold() or any(map(each.casefold().__contains__, ENGINES))
    ]
    last = named[-1] if named else ""
    return "" if OWN in last else last


def _is_written(line: LogLine) -> bool:
    """Whether a person may have written a line: it has nothing that a log puts before a message."""
    return not line.is_logged
