"""Reads the words after ``vllm serve`` as the release's own parser does.

Source: vLLM 0.28.0, utils/argparse_utils.py FlexibleArgumentParser.parse_args, on top of Python's argparse.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from service.engines.arguments.arguments import (
    Argument,
    ArgumentKind,
    ArgumentTable,
    FoundArgument,
    UnknownArgument,
    arguments_of,
    releases_with,
)
from service.engines.arguments.effects import effect_of
from service.launch_command.flags.converted_values import NAMES, converted, human_int
from service.launch_command.flags.json_values import refused_form, refused_json
from service.launch_command.launch import MISSING, Value, Word, WrittenFlag
from service.redaction import HIDDEN, hide_secrets

SECRET: Final = re.compile(
    r"(?:.*_)?(?:api_?keys?|(?:hf_|hub_|auth_|access_|bearer_)?token|passwords?|passwd|passphrase|secrets?"
    r"|credentials?|private_key|secret_key|access_key(?:_id)?|authorization|cookie)(?:_.*)?"
)
"""Names, in lower case with underscores, whose values are never stored."""
MAX_MERGED: Final = 256
"""Keys that ``--name.key`` may have together."""
MOST_NESTED: Final = 32
"""Depth to which the values of JSON are kept; deeper ones are hidden."""
_SAMPLE: Final = "value"
_NEGATIVE: Final = re.compile(r"-\d+(?:\.\d*)?|-\.\d+")
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][A-Za-z0-9_ ./:|-]{0,60}>|\$\{?[A-Z][A-Z0-9_]{0,60}\}?")
_MORE: Final = frozenset({"...", "\u2026", "[...]", "[options]", "[OPTIONS]"})
"""Words that stand for more than what is written."""
_LEVEL: Final = re.compile(r"-O=?([^.=].{0,20})")
_LEVELS: Final = frozenset("0123")
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(slots=True)
class ReadOptions:
    """The flags of one start, and what of its words cannot be one."""

    flags: dict[str, WrittenFlag] = field(default_factory=dict)
    positional: list[Word] = field(default_factory=list)
    unknown: list[UnknownArgument] = field(default_factory=list)
    foreign: dict[str, UnknownArgument] = field(default_factory=dict)
    """Options that no release has, and that a program around the engine takes."""
    faults: list[str] = field(default_factory=list)
    """Values that the release's parser refuses, in words, without the values."""
    loose: list[str] = field(default_factory=list)
    """Variables that stand where further flags may stand."""


def read_options(
    words: Sequence[Word], settings: Iterable[tuple[str, Value]], table: ArgumentTable
) -> ReadOptions:
    """Return the flags that settings and words give; words win over settings, later words over earlier."""
    found = ReadOptions()
    for name, value in settings:
        _setting(found, name, value, table)
    dotted: dict[str, tuple[WrittenFlag, dict[str, Value]]] = {}
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text == "--":
            continue
        if not _is_option(word.text):
            _positional(found, word)
            continue
        position += _option(found, dotted, word, words[position:], table)
    for flag, members in dotted.values():
        found.flags.pop(flag.name, None)
        found.flags[flag.name] = replace(flag, value=members)
    return found


def _is_option(text: str) -> bool:
    return (
        text.startswith("-")
        and len(text) > 1
        and not _NEGATIVE.fullmatch(text)
        and " " not in text.partition("=")[0]
    )


def _positional(found: ReadOptions, word: Word) -> None:
    """Keep a word without an option; a bare variable may stand for any number of words."""
    if word.text in _MORE:
        found.loose.append(word.text)
    elif word.missing and found.positional:
        found.loose.extend(word.missing)
    elif word.text.startswith("-"):
        name = word.text.split(maxsplit=1)[0].partition("=")[0]
        found.faults.append(f"{name} and its value are one word with a space in it: write two words")
    elif word.text.strip():
        found.positional.append(word)


def _option(
    found: ReadOptions,
    dotted: dict[str, tuple[WrittenFlag, dict[str, Value]]],
    word: Word,
    following: Sequence[Word],
    table: ArgumentTable,
) -> int:
    """Read one option; return how many of the words behind it are its value."""
    spelling, joined, value = _split(word.text, following, table)
    known = _find(found, spelling, table)
    if known is None:
        foreign = [] if joined else _values_of(following, many=True)
        name = spelling.lstrip("-").replace("-", "_")
        if effect_of(name) is not None:
            # A flag of a program around the engine.
            found.foreign[spelling] = found.unknown.pop()
            found.flags[name] = WrittenFlag(name, True, spelling, word.line)
        return len(foreign)
    argument = known.argument
    values: Sequence[Word] = [replace(word, text=value)] if joined else ()
    is_switch = argument.kind in {ArgumentKind.SWITCH, ArgumentKind.BOOL} and not known.key
    if is_switch and not joined and following and following[0].text.lower() in _TRUTHS:
        values = following[:1]
    if not joined and not is_switch:
        many = argument.kind is ArgumentKind.LIST and not known.key
        values = _values_of(following, many=many)
    flag = WrittenFlag(
        argument.name,
        None,
        spelling,
        word.line,
        tuple(name for each in (word, *values) for name in (each.missing or placeholders(each.text))),
    )
    if known.key:
        _member(found, dotted, flag, known.key, values)
    else:
        _keep(found, flag, known, values)
    return 0 if joined else len(values)


def placeholders(text: str) -> tuple[str, ...]:
    """Return what a reader is to replace: ``<port>`` in quotes, or in a file."""
    value = text.partition("=")[2] if text.startswith("-") else text
    if value[:1] in {"{", "["}:
        found = _PLACEHOLDER.search(value)
        return (found[0],) if found else ()
    return (value,) if _PLACEHOLDER.fullmatch(value) else ()


def _split(text: str, following: Sequence[Word], table: ArgumentTable) -> tuple[str, str, str]:
    """Return an option, an equals sign if its value is joined to it, and that value.

    ``-O3`` is the optimization level; in releases without one, the level of the compilation.
    """
    level = _LEVEL.fullmatch(text)
    bare = text == "-O" and bool(following) and following[0].text in _LEVELS
    if level is None and not bare:
        return text.partition("=")
    spelling = "--optimization-level" if "optimization_level" in table else "-O.level"
    return (spelling, "", "") if level is None else (spelling, "=", level[1])


def _find(found: ReadOptions, spelling: str, table: ArgumentTable) -> FoundArgument | None:
    """Return the argument of a spelling, of another release if this one lacks it, which is noted."""
    try:
        return table.find(spelling)
    except UnknownArgument as error:
        found.unknown.append(error)
        having = releases_with(error.spelling)
        if not having:
            return None
        try:
            return arguments_of(having[-1]).find(spelling)
        except UnknownArgument:
            return None


def _values_of(following: Sequence[Word], *, many: bool) -> list[Word]:
    values: list[Word] = []
    for word in following:
        if _is_option(word.text):
            break
        values.append(word)
        if not many:
            break
    return values


def _keep(found: ReadOptions, flag: WrittenFlag, known: FoundArgument, values: Sequence[Word]) -> None:
    kind = known.argument.kind
    value: Value
    if kind in {ArgumentKind.SWITCH, ArgumentKind.BOOL}:
        if values:
            found.faults.append(_no_value(flag, known, values[0].text))
        value = not known.negated
    elif not values:
        if known.argument.takes_value:
            found.faults.append(f"{flag.spelling} needs a value")
            return
        value = True
    elif flag.missing:
        value = " ".join(word.text for word in values)
    elif kind is ArgumentKind.LIST:
        texts = [text for word in values for text in _items(word.text)]
        value = [_read(found, flag, known.argument, text, known.argument.items) for text in texts]
    else:
        value = _read(found, flag, known.argument, values[0].text, kind)
        if kind is ArgumentKind.APPEND:
            before = found.flags.get(flag.name)
            value = [*(before.value if before and isinstance(before.value, list) else ()), value]
    found.flags.pop(flag.name, None)
    found.flags[flag.name] = replace(flag, value=_without_secret(flag.name, value))


def _no_value(flag: WrittenFlag, known: FoundArgument, given: str) -> str:
    """Say that a switch takes no value, and what to write for one that is given."""
    says = _TRUTHS.get(given.lower())
    words = f"{flag.spelling} takes no value; the engine's parser refuses one"
    if says is None:
        return words
    plain = f"--{known.argument.name.replace('_', '-')}"
    negative = f"--no-{plain[2:]}" if known.argument.kind is ArgumentKind.BOOL else None
    meant = plain if says is not known.negated else negative
    return f"{words}: write {meant}" if meant else f"{words}: leave it out"


def _items(text: str) -> list[str]:
    """Return the items of a list that is one word of JSON, as a file's list is when it becomes a word."""
    if text[:1] == "[":
        try:
            items = json.loads(text)
        except (ValueError, RecursionError):
            return [text]
        if isinstance(items, list):
            return [each if isinstance(each, str) else json.dumps(each) for each in items]
    return [text]


def _member(
    found: ReadOptions,
    dotted: dict[str, tuple[WrittenFlag, dict[str, Value]]],
    flag: WrittenFlag,
    key: str,
    values: Sequence[Word],
) -> None:
    """Put one key of a JSON value beside the others; together they replace a value given whole."""
    if not values:
        found.faults.append(f"{flag.spelling} needs a value")
        return
    before, members = dotted.get(flag.name, (flag, {}))
    text = values[0].text
    # Behind a plus stand items that are added to a list.
    value: Value = text.split(",") if flag.spelling.endswith("+") else _member_value(text)
    *outer, last = key.split(".")[:MAX_MERGED]
    inside = members
    for step in outer:
        deeper = inside.setdefault(step, {})
        if not isinstance(deeper, dict):
            inside[step] = deeper = {}
        inside = deeper
    earlier = inside.get(last)
    inside[last] = [*earlier, *value] if isinstance(earlier, list) and isinstance(value, list) else value
    dotted[flag.name] = (replace(flag, missing=(*before.missing, *flag.missing)), members)


def _member_value(text: str) -> Value:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        number = human_int(text)
        return text if number is None else number


def _read(
    found: ReadOptions, flag: WrittenFlag, argument: Argument, text: str, kind: ArgumentKind | None
) -> Value:
    """Return a value of an argument; what the parser refuses stays text, and is noted."""
    if argument.nullable and (text == "None" or (not text and kind is ArgumentKind.JSON)):
        return None
    if argument.folded:
        text = text.lower().replace("-", "_")
    try:
        value = converted(text.strip(), kind)
    except (ValueError, RecursionError):
        is_json = kind in {ArgumentKind.JSON, ArgumentKind.JSON_OR_STR}
        words = f"{flag.spelling}: the value is no {NAMES.get(kind, 'value of this flag')}"
        found.faults.append(refused_json(flag.spelling, text) if is_json else words)
        return text
    found.faults += filter(None, (refused_form(argument, flag.spelling, value),))
    return value


def _setting(found: ReadOptions, name: str, value: Value, table: ArgumentTable) -> None:
    """Keep a flag that a file or a program gives with its type."""
    spelling = f"--{name.replace('_', '-')}"
    known = _find(found, spelling, table)
    if known is None or value is None:
        return
    kind = known.argument.kind
    flag = WrittenFlag(known.argument.name, None, spelling, getattr(value, "line", 1))
    read: Value
    if _has_missing(value):
        flag, read = replace(flag, missing=("a value that the program calculates",)), HIDDEN
    elif kind in {ArgumentKind.SWITCH, ArgumentKind.BOOL}:
        read = {"true": True, "false": False}.get(str(value).lower(), value)
        read = (not read if known.negated else read) if isinstance(read, bool) else None
        if read is None:
            found.faults.append(f"{name} takes true or false")
            return
    elif isinstance(value, str):
        read = _read(found, flag, known.argument, str(value), kind)
        read = [read] if kind is ArgumentKind.LIST else read
    elif isinstance(value, bool) or not isinstance(value, int | float):
        read = value
    elif kind in {ArgumentKind.STR, ArgumentKind.OPTIONAL_STR}:
        read = str(value)
    elif kind is ArgumentKind.LIST:
        read = [value]
    else:
        read = value
    found.flags[flag.name] = replace(flag, value=_without_secret(flag.name, read))


def _has_missing(value: Value) -> bool:
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if each is MISSING:
            return True
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return False


def _without_secret(name: str, value: Value) -> Value:
    return HIDDEN if is_secret(name) else _masked(value, "", 0)


def _masked(value: Value, key: str, depth: int) -> Value:
    """Return a value without what looks like a secret in it or below one of its keys."""
    if depth > MOST_NESTED:
        return HIDDEN
    if isinstance(value, dict):
        return {name: _masked(each, str(name), depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, key, depth + 1) for each in value]
    if not isinstance(value, str):
        return value
    named = bool(key) and HIDDEN in hide_secrets(f'"{key}": "{_SAMPLE}"')
    return HIDDEN if named else hide_secrets(value)


def is_secret(name: str) -> bool:
    """Whether a flag or a variable of this name holds a secret."""
    return SECRET.fullmatch(name.lower().replace("-", "_")) is not None
