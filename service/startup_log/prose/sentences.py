"""Finds what a person wrote around a log: the title and the sentences of an issue, a question, a message."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Final

from service.startup_log.catalogue.phrases import BEGINNINGS, MILESTONES, TEMPLATES
from service.startup_log.catalogue.templates import SentenceIndex, any_contains
from service.startup_log.catalogue.whole_messages import continues
from service.startup_log.errors.tracebacks import HEADER, frame_of
from service.startup_log.prose.issue_forms import kind_of_tags, tags_of_headings
from service.startup_log.text.lines import LogLine

MOST: Final = 240
"""Sentences of a text that are read."""
MOST_LINES: Final = 3000
"""Lines of a text in which they are looked for."""
MOST_PARAGRAPHS: Final = 1000
"""Paragraphs in which they are looked for."""
LONGEST: Final = 400
"""Characters of a sentence that are read."""
MOST_OF_QUOTE: Final = 240
"""Characters of a sentence that are shown as a person's."""
MOST_OF_TITLE: Final = 8
"""Lines of a text in which its title is looked for."""
MOST_OF_OPENING: Final = 80
"""Lines of a text in which the sentences below its title are looked for."""
SENTENCES_OF_OPENING: Final = 5
"""The title of a text and the sentences of its first paragraph."""
LEAST_WORDS: Final = 4
"""Words of a sentence below the title."""
MOST_EMPTY: Final = 2
"""Empty lines below the end of a text."""
FULL_LINE: Final = 60
"""Characters of a line that was wrapped between words."""
_PLAIN: Final = 0.6
"""Share of the words of a sentence that are words, and not numbers, paths or code."""
_TAGS: Final = re.compile(
    r"^[#\s>*_]{0,8}((?:\[[A-Za-z][^\]\[:]{1,30}\](?:[\s:\uff1a]|-(?!-)){0,4}){1,4})(?:</?title>)?"
)
_TAG: Final = re.compile(r"\[([^\]\[]{1,40})\]")
_NO_VERB: Final = (
    r"(?!.{0,200}\b(?:fail|error|cannot|hang|when|after|does|not|crash|takes|stuck|never|need|solve|fixes|fixed|work)"
    r"[a-z]{0,4}\b)"
)
_NO_FAULT: Final = r"(?i:(?!.{0,60}\b(?:cannot|fail|error|unable|issue|problem)))"
_UNSAID: Final = (
    # Checks of a form, tables, code, flags; prompts, links alone; commands, and not sentences about them.
    r"[-*] \[[ xX]\]|\||[{}\[\]]|<(?!/?think)|--?[a-z]\S*(?:\s+\S+){0,2}$",
    r"[$\u276f\u279c%] |>>> |#!/|https?://\S+$",
    # What forms of projects ask for: ms-swift's, and GitHub's own.
    r"(?:Write your system info like|Add any other context about the problem)\b",
    # What a package manager says of packages: `npm warn deprecated inflight@1.0.6: ... leaks memory`.
    r"(?i:npm (?:warn|notice) )",
    # Steps that a script prints: `==> Waiting for the server`, `[+] Building`, `[1/4] Starting`.
    r"={1,3}> |-{2,3}> |:: |\[[+*!]\] |\[\d{1,3}/\d{1,3}\] ",
    r"(?:sudo |nohup )?(?:\S{0,80}/)?vllm (?:serve|bench|chat|run-batch|complete) \S{0,120}[/\d-]",
    rf"(?:sudo |nohup )?(?:docker|python3?|pip3?|uv|export|curl|kubectl|helm|git|apt|conda) {_NO_VERB}",
    # Frames of native code, source code, JSON, and exceptions.
    r"\S{1,300}\.so[.\d]{0,12}\(\S{0,200}\) ?\[0x",
    r"(?:export )?[A-Za-z_]\w{0,60}=[\"'$]",
    r"import |from \w+ import|raise \w|def |class \w+[(:]|return |assert |self\.|@\w",
    r"'[^']{1,80}': ?|\"[^\"]{1,80}\": ?|[A-Za-z0-9_.]{1,80}\((?!\) [a-z]{2,20} [a-z]{2,20} )|\s*\^",
    r"(?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): ",
    # Log lines of other programs, and what collect_env and pip print.
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\b",
    r"(?:\d{4}-)?\d\d-\d\d|[A-Z][a-z]{2} \d\d? \d\d:\d\d|\d{1,6}\.\d{1,3}s\s",
    r"[\w()./ -]{1,60}: {0,8}(?:Could not collect|N/A|No CUDA|True|False)$",
    r"Vulnerability |[\w.-]{1,60}==\S{1,60}\s{0,8}(?:$|[;#@\\])",
    _NO_FAULT + r"(?:[\w()]{1,24} ){0,3}[\w()]{1,24} {0,8}:(?: {1,8}\S{1,60}){0,3}$",
    # Columns of lscpu and others, and a processor's instructions as /proc/cpuinfo lists them.
    _NO_FAULT + r"[A-Z][\w()./ -]{1,40}: {3,}\S",
    r"(?i:flags|features)\s{0,8}:(?: {1,30}[a-z0-9_]{2,24}){8}",
)
_NOT_SAID: Final = re.compile("|".join(_UNSAID))
"""Beginnings of lines that nobody says."""
_CLASS: Final = re.compile(r"(?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): ")
"""The class of an exception before its message."""
_FENCE: Final = re.compile(r"^\s{0,8}(?:```|~~~)")
_ENDS: Final = re.compile(
    r"(?<=[.!?\u3002\uff01\uff1f])(?<!e\.g\.)(?<!i\.e\.)[*_]{0,2}\s+|(?<=[\u3002\uff01\uff1f])"
)
_CLAUSES: Final = re.compile(
    r"(?<=[.!?\u3002\uff01\uff1f])(?<!e\.g\.)(?<!i\.e\.)[*_]{0,2}\s+|(?<=[\u3002\uff01\uff1f\uff0c])"
)
"""Ends of sentences, and of clauses in Chinese, which say one thing each."""
_HEADING: Final = re.compile(r"^#{2,6} |^\*\*[^*]{1,80}\*\*:?$")
_QUESTION: Final = re.compile(r"(?:Q\d{0,2}|\u95ee\u9898 ?\d{0,2}|\ubb38\uc81c ?\d{0,2}) ?[:\uff1a] ?")
"""What numbers a heading in a list of questions and problems."""
_REPORTED: Final = re.compile(
    r"^#{2,4} (?:\S{1,3} )?(?:Describe the bug|Your current environment|Bug description)"
)
"""A heading of the forms in which projects ask for reports."""
_WORD: Final = re.compile(
    r"\d{1,3}(?:,\d{3})+|[a-z0-9'.+%]+|!{3,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
_LOWER: Final = re.compile(r"[A-Za-z][a-z']{0,24}[,.:;!?)]{0,3}")
_OF_LANGUAGE: Final = 0.4
"""Share that are words of a language; the others can be names, marked code and abbreviations."""
_TYPED: Final = re.compile(r"[(*_`'\"]{0,4}[A-Za-z][A-Za-z'/-]{0,30}[,.:;!?)*_`'\"]{0,5}")
_REASON: Final = re.compile(
    r" (?:root cause|because|due to|caused by|traced|reason|results from|stems from|culprit|turns out|"
    r"turned out|(?:problem|issue|bug) (?:is|was) (?:that|the|a|an)|found (?:out )?that|causing|causes|"
    r"leads to|leading to) |"
    r" (?:if|when|whenever) .{1,200} (?:crash|crashes|dies) "
)
"""What shows that a sentence says why, or in which case, something failed."""
_NAMED_MODEL: Final = re.compile(
    r"(?<![\w./-])(?:[\w.-]{1,60}/)?(?=[\w.-]{0,80}(?:\d[bB](?![a-zA-Z])|-[A-Z]?\d[\d.]{0,4}-[A-Za-z]))"
    r"[A-Za-z][\w.]{0,40}(?:-[\w.]{1,40}){1,12}",
    re.ASCII,
)
"""The name of a model that states its size or version: `Qwen/Qwen3-30B-A3B-GPTQ-Int4`, `GLM-5-FP8`."""
_FORMAT: Final = re.compile(
    r"(?i)[-_](?:awq|gptq|int4|int8|fp8|fp4|nvfp4|mxfp4|mxfp8|w4a16|w8a8|w8a16|w4a8|bnb|4bit|8bit|marlin|autoround|"
    r"quantized|dynamic|gguf|exl2)(?![a-z0-9])"
)
_FLAG: Final = re.compile(
    r"(?<!\S)--[a-z][\w-]{1,60}(?:[ =](?:'[^']{0,400}'|\"[^\"]{0,400}\"|[^\s'\"-]\S{0,200}))?"
)
_STARTS: Final = re.compile(r"\bvllm serve \S{1,200}|(?<!\S)--?model[ =]\S{1,200}")
_ROW: Final = re.compile(r"\S {3,60}\S{1,80} {3,60}\S")
"""Three columns of a table, such as those of `conda list`."""
_WHOLE_COMMAND: Final = re.compile(
    r"[\"'`]?(?<![\w=])(?:[A-Z][A-Z0-9_]{2,40}=\S{1,80} ){0,8}\bvllm serve \S", re.ASCII
)
"""The beginning of a command with the variables that it sets."""
MOST_NAMED: Final = 3
"""Flags of a text that is a command, where a sentence names one or two."""
_LINK: Final = re.compile(r"https?://[^\s)>\]\"']{1,400}|<img [^>]{1,400}>")
"""The address of a page or a picture, whose words are nobody's."""
_NOTHING: Final = re.compile(r"(?<![\w\"'=(\[])(?:\"\"|'')(?![\w\"'])")
"""An empty text, as a program writes it."""
_STATE: Final = re.compile(
    r"\b[A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){0,10}_(?:BLOCKED|STUCK|HUNG|FAILED|READY|PASSED|DONE)\b"
)
"""A constant that names the state of a person's own program, and says nothing of the engine."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a person."""

    line: LogLine
    """The line on which it begins."""
    words: str
    """Its words in small letters, each between blanks."""
    text: str
    title: bool
    """It is the first of the text, and heads it."""
    tags: tuple[str, ...] = ()
    """Kinds of issues that the title names in brackets, then those of the headings of a project's form."""
    beside_start: bool = False
    """The text holds the log of a start too."""


_OF_STARTS: Final = (*BEGINNINGS, *(says for each in MILESTONES for says in each.says))


@dataclass(frozen=True, slots=True)
class Quote:
    """What a person says in one sentence, unchecked."""

    line: int
    """Counted from 1 in the log."""
    words: str


@cache
def _messages() -> SentenceIndex:
    return SentenceIndex([template.start for template in TEMPLATES])


def _with_values(lines: Sequence[LogLine]) -> set[int]:
    """Return the numbers of the lines that hold the engine's own figures."""
    texts = [line.text for line in lines]
    return {
        lines[at].number
        for at, which in _messages().pairs(texts)
        if any(True for _ in TEMPLATES[which].find(texts[at]))
        and (lines[at].origin or lines[at].level or not tells(texts[at], TEMPLATES[which].start))
    }


def tells(text: str, message: str) -> bool:
    """Whether a person's sentence goes before a message of the engine that it quotes."""
    before = text[: text.find(message)].split()
    return len(before) >= LEAST_WORDS and all(_TYPED.fullmatch(word) for word in before[-LEAST_WORDS:])


def plain_words(text: str) -> str:
    """Return the words of a text in small letters, each between blanks, without the addresses of pages."""
    text = _LINK.sub(" ", text) if "://" in text else text
    text = _STATE.sub(" ", text) if "_" in text else text
    text = _NOTHING.sub(" empty ", text) if '""' in text or "''" in text else text
    words = (word.strip(".'") for word in _WORD.findall(text.casefold()))
    return f" {' '.join(filter(None, words))} "


def _without_command(text: str) -> str:
    """Return a text without the flags of a command within it; one or two can be what a title is about.

    Nothing of a command is, of which the text says that it is the one that was run.
    """
    if "command" in text and (whole := _WHOLE_COMMAND.search(text)) is not None:
        text = text[: whole.start()]
    return _STARTS.sub(" ", _FLAG.sub(" ", text)) if len(_FLAG.findall(text)) >= MOST_NAMED else text


def without_formats(text: str) -> str:
    """Return a text whose names of models lack the words of their quantization.

    They say which checkpoint it is, and mostly not what failed.
    """
    return _NAMED_MODEL.sub(lambda found: _FORMAT.sub("", found[0]), text) if "-" in text else text


def sentences(lines: Sequence[LogLine]) -> tuple[Sentence, ...]:
    """Return the sentences of a text, at most ``MOST``; the first is the title where a person wrote it.

    Around the log of a start only a person writes a title, or the headings of a report; without these,
    sentences are those of a script.
    """
    found: list[Sentence] = []
    of_start = _is_log(lines)
    reported = any(_REPORTED.match(line.text) for line in lines[:MOST_LINES])
    of_form = tags_of_headings(lines)
    for line, _, text, heads in islice(_said(lines[:MOST_LINES]), MOST_PARAGRAPHS):
        if of_start and not (heads or found or reported):
            return ()
        found.extend(islice(_sentences_of(line, text, of_form, heads=heads), MOST - len(found)))
        if len(found) == MOST:
            break
    return tuple(replace(each, beside_start=True) for each in found) if of_start else tuple(found)


def _sentences_of(line: LogLine, text: str, of_form: Sequence[str], *, heads: bool) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph; ``heads``: its first one is the title."""
    tags = _TAGS.match(text) if heads else None
    kinds = () if tags is None else tuple(kind.casefold() for kind in _TAG.findall(tags[1]))
    kinds = (*kinds, *of_form) if heads else ()
    said = _without_command(text if tags is None else text[tags.end() :])
    # A heading is one sentence, whatever it contains.
    headed = heads and (tags is not None or text.startswith("#"))
    for at, each in enumerate([said] if headed else (_ENDS if heads else _CLAUSES).split(said)):
        title = heads and not at
        if title or _is_prose(each):
            yield Sentence(line, plain_words(each[:LONGEST]), each[:LONGEST], title, kinds)


def title_of(lines: Sequence[LogLine]) -> Sentence | None:
    """Return the title of a text; ``None`` where none of its first lines is one."""
    found = next((each for each in sentences(lines[:MOST_OF_TITLE]) if each.title), None)
    tags = () if found is None else tuple(dict.fromkeys((*found.tags, *tags_of_headings(lines))))
    return None if found is None else replace(found, tags=tags)


def opening(lines: Sequence[LogLine]) -> tuple[Sentence, ...]:
    """Return the title of a text with the first sentences below it: together they say what failed when."""
    title = title_of(lines)
    return () if title is None else sentences(lines[:MOST_OF_OPENING])[:SENTENCES_OF_OPENING]


def paragraphs(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, LogLine, Sequence[Sentence]]]:
    """Yield the first and the last line of what a person wrote in one piece, with its sentences."""
    for first, last, text, heads in islice(_said(lines[:MOST_LINES]), MOST_PARAGRAPHS):
        yield first, last, tuple(_sentences_of(first, text, (), heads=heads))


def gives_reason(sentence: Sentence) -> bool:
    """Whether a sentence says why, or in which case, something failed."""
    return _REASON.search(sentence.words) is not None


def reasons(found: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Return the sentences that give a reason, and those that follow them."""
    gives = [gives_reason(each) for each in found]
    return tuple(each for at, each in enumerate(found) if gives[at] or (at and gives[at - 1]))


def _is_log(lines: Sequence[LogLine]) -> bool:
    return any_contains((line.text for line in lines), _OF_STARTS)


def _said(all_lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, LogLine, str, bool]]:
    """Yield what a person wrote, lines of a paragraph joined: its first and last line, and if it heads."""
    values = _with_values(all_lines)
    lines = [line for line in all_lines if line.number not in values or _behind_tags(line.text)]
    fenced, first = _begins_fenced(lines), True
    begin: LogLine | None = None
    above: LogLine | None = None
    text = ""
    for line in lines:
        if (fence := _FENCE.match(line.text)) is not None:
            # Only what opens a block names its language.
            fenced = not fenced or _is_language(line.text[fence.end() :])
        said = not fenced and (_is_said(line) or (first and begin is None and _heads_section(line)))
        if said and begin is not None and text[-1:] not in ".!?:\u3002" and _is_rest(line, above):
            text, above = f"{text} {line.text}"[: 4 * LONGEST], line
            continue
        if begin is not None:
            yield begin, above or begin, text, first
            first, begin, text = False, None, ""
        if said:
            begin, text, above = line, line.text.strip(), line
        elif any(map(str.isalnum, line.text)):
            # What follows a log is no title of it.
            first = False
    if begin is not None:
        yield begin, above or begin, text, first


def _is_rest(line: LogLine, above: LogLine | None) -> bool:
    """Whether a line goes on with the sentence of the line above: a small word, or any below a full line.

    Cells of one row have the number of its line, and are sentences of their own.
    """
    if above is None or above.text.startswith("##") or above.number == line.number:
        return False
    return continues(line.text) or (
        len(above.text) >= FULL_LINE and line.text[:1].islower() and " " in line.text
    )


def _begins_fenced(lines: Sequence[LogLine]) -> bool:
    """Whether a text begins within a block of code: it has one fence too many, and ends with the last one.

    Many empty lines below that are source whose words were taken out, so that the last fence opens its block.
    """
    fences = [line for line in lines if _FENCE.match(line.text)]
    begin = next((line.text for line in lines if line.text), "")
    if fences and (begin.startswith("# ") or _behind_tags(begin)):
        return False
    if fences and lines[-1].number - fences[-1].number > MOST_EMPTY:
        return False
    last = next((line for line in reversed(lines) if line.text), None)
    return (
        len(fences) % 2 == 1
        and len(fences) > 1
        and fences[-1] is last
        and not _is_language(last.text.strip("`~ "))
    )


def _is_language(text: str) -> bool:
    """Whether the words behind a fence name the language of the block."""
    return text.strip().isalpha()


def _heads_section(line: LogLine) -> bool:
    """Whether the first line of a text heads a section of a document, and says what it is about."""
    text = _QUESTION.sub("", line.text.lstrip("#").strip(" *:\uff1a"))
    heads = line.text.startswith(("##", "**")) and not _REPORTED.match(line.text)
    # Chinese and Japanese have no blanks between words.
    if not heads or (text.isascii() and len(text.split()) < LEAST_WORDS):
        return False
    return _is_said(replace(line, text=text))


def _behind_tags(text: str) -> str:
    """Return the title of an issue behind the kind of the issue; empty for any other line."""
    tags = _TAGS.match(text)
    if tags is None or kind_of_tags(tag.casefold() for tag in _TAG.findall(tags[1])) is None:
        return ""
    said = text[tags.end() :]
    return said if any(map(str.isalpha, said)) else ""


def _is_said(line: LogLine) -> bool:
    text = line.text.strip()
    if (titled := _behind_tags(text)) and _CLASS.match(titled) is None:
        # Whatever it looks like, as `raise error when ...` and `vllm serve fails` do.
        return not (line.level or line.time) and line.origin is None
    if (tags := _TAGS.match(text)) is not None and any(map(str.isalpha, text[tags.end() :])):
        text = text[tags.end() :]
    if not any(map(str.isalpha, text)) or line.level or line.origin is not None or line.time:
        return False
    if _FENCE.match(text) or _HEADING.match(text) or _NOT_SAID.match(text) or _ROW.search(text):
        return False
    return HEADER not in text and frame_of(line) is None


def _is_prose(text: str) -> bool:
    if not text.isascii():
        return True
    words = text[: 4 * LONGEST].split()
    typed = sum(_TYPED.fullmatch(each) is not None for each in words)
    plain = sum(_LOWER.fullmatch(each) is not None for each in words)
    return len(words) >= LEAST_WORDS and typed >= _PLAIN * len(words) and plain >= _OF_LANGUAGE * len(words)
