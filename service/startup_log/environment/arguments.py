"""Reads the model and the flags of a start from its command, its logged arguments or its configuration."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, Final, get_args, get_type_hints

from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.engines.speculative_config import SpeculativeConfig
from service.launch_command.command_pairs import command_pairs
from service.startup_log.environment.printed_defaults import given_of
from service.startup_log.text.lines import MAX_LINE, LogLine
from service.startup_log.text.literals import read_pairs, read_value

_RELEASE: Final = re.compile(r"API server version v?([0-9][0-9A-Za-z.+]{0,40})")
"""Source: vLLM 0.4.0 to 0.33.0, entrypoints/openai/api_server.py: the line above the arguments."""
NAMESPACE: Final = "args: Namespace("
"""Source: vLLM 0.8.3 to 0.9.1, entrypoints/openai/api_server.py run_server: all arguments, given or not."""
ARGUMENTS: Final = "non-default args: {"
"""Source: vLLM 0.33.0, entrypoints/common/startup.py log_non_default_args; the same words since 0.10.2."""
CONFIG: Final = " with config: model="
"""Source: vLLM 0.33.0, v1/engine/core.py EngineCore and config/vllm.py VllmConfig."""
IN_CONFIG: Final[Mapping[str, str]] = {
    "max_seq_len": "max_model_len",
    "chunked_prefill_enabled": "enable_chunked_prefill",
    **{
        name: name
        for name in (
            "dtype",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "decode_context_parallel_size",
            "enforce_eager",
            "kv_cache_dtype",
            "enable_prefix_caching",
            "enable_chunked_prefill",
        )
    },
}
"""Flags by their names in the logged configuration."""
USAGE: Final = "usage: "
"""Python, argparse.py: what stands before the form of a command, which nobody ran."""
CONTINUES: Final = ("\\", " `", " ^")
"""Ends of a line that go on: of a POSIX shell, of PowerShell and of cmd."""
CONTINUED: Final = "\\`^"
MAX_NAMES: Final = 64
"""Most names of unmodelled flags that are stored."""

_COMMAND: Final = re.compile(
    r"(?:(?<![\w/.~-])[\w/.~-]{1,200}/|\b)vllm (?:serve|bench [a-z]{1,16})\b"
    r"|\bvllm\.entrypoints\.openai\.api_server\b|\bcommand:(?=\s{1,4}--)|\bvllm/vllm-openai[\w:.@-]{0,100}[\"']?(?=\s)"
)
_IN_COMMANDS: Final = ("vllm", "command:")
"""Words one of which each form of a command holds."""
_BEFORE: Final = re.compile(
    r"(?:^|[$#+>;:&|(\"'`%\u276f\u279c\u00bb=]\s{0,2}|(?:\b(?:exec|nohup|sudo|time|run|uvx|srun|env|cmd|command)|-m|-E)\s|"
    r"[^\x00-\x7f]\s?|[A-Z0-9_]{1,80}=\S{0,200}\s)$"
)
"""Text that may precede a command that was run, such as a prompt; prose about a command has other words."""
SENTENCE: Final = (
    r"\s(?:[a-z']{2,20}[,.]?\s[a-z'\"(]{1,20}|"
    r"(?:fail|hang|crash|error|command|process|throw|raise|stuck|is|does|not)[a-z']{0,8}[,.]?$)"
)
"""A sentence that goes on behind the name of the command: words, where a command has a name and flags."""
_SENTENCE: Final = re.compile(SENTENCE)
MAX_BEFORE: Final = 300
"""Characters that `_BEFORE` matches at most: a variable, its value, and the characters around them."""
_HUMAN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKmMgGtT])")
_FACTORS: Final[Mapping[str, int]] = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
_TO_REPLACE: Final = re.compile(
    r"(?i)[x*._-]{2,}|\.\.\.|\u2026|your[-_ ]?model|model[-_]?(?:name|path|id)?|path[-_/]to[-_/]\S{0,80}"
)
"""What people write in place of a model's name."""
_PLACEHOLDER: Final = re.compile(r"(?<!\S)<\w[^<>|&\"'`\n]{1,60}>(?!\S)")
"""The same in several words: `<local snapshot>`; a shell's redirections have a blank or a digit there."""
_WORDS: Final = frozenset(
    (
        *("a", "an", "and", "as", "at", "bash", "by", "for", "from", "if", "in"),
        *("is", "it", "of", "on", "or", "sh", "the", "to", "with"),
    )
)
"""Words of sentences, and shells, that stand where a command that was cut or quoted has its model."""
_ENUM: Final = re.compile(r"<?[A-Za-z]{1,40}\.([A-Z0-9_]{2,64})\b")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,63}")
_ENDS: Final = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "2>&1", "2>"})
_TYPES: Final[Mapping[str, Any]] = get_type_hints(ServeFlags)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The model and flags of a start, as one part of a log states them."""

    model: str | None
    flags: Mapping[str, Any]
    """Values by the names of ``ServeFlags``."""
    unmodelled: tuple[str, ...]
    """Names of other flags. Their values are not stored, since they may be private."""


def logged_arguments(lines: Iterable[LogLine]) -> Arguments | None:
    """Return the last arguments that the engine logged; None if it logged none."""
    found: tuple[str, str] | None = None
    release: str | None = None
    for line in lines:
        if (banner := _RELEASE.search(line.text)) is not None:
            release = banner[1]
        for words, separator in ((ARGUMENTS, ":"), (NAMESPACE, "=")):
            _, marker, rest = line.text.partition(words)
            if marker:
                found = (rest, separator)
    if found is None:
        return None
    arguments = arguments_of_pairs(read_pairs(*found).items())
    if found[1] == ":":
        return arguments
    # A namespace holds every flag, so that its names do not tell which were given.
    return replace(arguments, flags=given_of(arguments.flags, release), unmodelled=())


def logged_config(lines: Iterable[LogLine]) -> Arguments | None:
    """Return the resolved values of the last configuration that the engine logged; None if it logged none."""
    found = None
    for line in lines:
        _, marker, rest = line.text.partition(CONFIG)
        if marker:
            found = f"model={rest}"
    if found is None:
        return None
    pairs = read_pairs(found, "=")
    resolved = [(IN_CONFIG[name], value) for name, value in pairs.items() if name in IN_CONFIG]
    return arguments_of_pairs([("model", pairs.get("model")), *resolved])


def command_arguments(lines: Iterable[LogLine]) -> Arguments | None:
    """Return the arguments of the last command that starts the engine, split as a shell splits them.

    A backslash at the end of a line continues the command. None if the log has no such command.
    """
    command: list[str] = []
    size, continued, done, marked, quoted = 0, False, False, False, False
    for line in lines:
        named = any(map(line.text.__contains__, _IN_COMMANDS))
        started = _COMMAND.search(line.text) if named else None
        if started is not None and not _is_run(line.text, started):
            started = None
        # In a command that is not quoted, `> file` on a line of its own sends the output there.
        written = line.text.removeprefix("> ") if quoted else line.text
        if started is None and not (continued or (command and _is_more(written) and size < MAX_LINE)):
            done = done or bool(command)
            continue
        if started is None and done:
            continue
        text = written if started is None else line.text[started.end() :]
        if started is not None:
            command, size, done, quoted = [], 0, False, line.text.startswith("> ")
            marked = line.text[max(0, started.start() - MAX_BEFORE) : started.start()].count("`") % 2 == 1
        if marked and (end := text.find("`")) >= 0:
            # A person marked the command within a sentence, which goes on behind the mark.
            text, done, marked = text[:end], True, False
        command.append(text)
        # The backslash of an empty continued line counts too, so that the number of lines is bounded.
        size += len(text)
        continued = text.endswith(CONTINUES) and size < MAX_LINE
    if not command:
        return None
    words = _split(" ".join(part.rstrip(CONTINUED) for part in command))
    return arguments_of_pairs(command_pairs(words)) if words else None


def _is_run(text: str, command: re.Match[str]) -> bool:
    """Whether the text before a command shows that it was run; only the last characters of it matter.

    An image is always run with what stands after it, unless that is prose.
    """
    at = command.start()
    if text.startswith(USAGE):
        return False
    # Behind a list's word stand the next ones, of which a shell makes something else.
    if text[command.end() :].startswith(("`", '",', "',")) or _SENTENCE.match(text, command.end()):
        return False
    if "/vllm-openai" in command[0]:
        return text[command.end() :].strip()[:2] in {"", "\\", "`", "--"} or "docker" in text[:at]
    return _BEFORE.search(text[max(0, at - MAX_BEFORE) : at]) is not None


def _is_more(text: str) -> bool:
    """Whether a line below a command holds more of its options, though the line above does not go on."""
    return text.startswith("--")


def without_placeholders(text: str) -> str:
    """Return a text with `...` for what a reader is to replace, which is one word then and no name."""
    return _PLACEHOLDER.sub("...", text) if ">" in text else text


def _split(command: str) -> list[str]:
    # Where the lines of a command were joined, the backslash that continued one stands within the next.
    command = without_placeholders(command.replace("\\ -", " -"))
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    end = next((position for position, word in enumerate(words) if word in _ENDS), len(words))
    return words[:end]


def arguments_of_pairs(pairs: Iterable[tuple[str, Any]]) -> Arguments:
    """Return the model and the flags of pairs of a name and a printed value, without what cannot be read."""
    model: str | None = None
    flags: dict[str, Any] = {}
    unmodelled: dict[str, None] = {}
    for name, value in pairs:
        if name in {"model", "model_tag"}:
            model = value if isinstance(value, str) and _is_name(value) else model
        elif name.startswith("speculative_config.") and isinstance(value, str):
            nested = flags.setdefault("speculative_config", {})
            nested[name.partition(".")[2]] = read_value(value)
        elif name in _TYPES:
            read = _flag(name, value)
            if read is not None:
                flags[name] = read
        elif _NAME.fullmatch(name) and len(unmodelled) < MAX_NAMES:
            unmodelled[name] = None
    return Arguments(model, flags, tuple(unmodelled))


def _is_name(value: str) -> bool:
    """Whether a value can be a model's: not empty, and no word that a reader is to replace."""
    return (
        bool(value)
        and value.lower() not in _WORDS
        and value[0] not in "<>$"
        and value[-1] not in "<>"
        and _TO_REPLACE.fullmatch(value) is None
    )


def _kind(name: str) -> Any:  # noqa: ANN401 - a type
    """Return the type of a flag's value; ``None`` if there is no such flag."""
    hint = _TYPES.get(name)
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    return tuple if getattr(hint, "__origin__", None) is tuple else hint


def _flag(name: str, value: Any) -> Any:  # noqa: ANN401 - any printed value
    """Return a flag's value converted to its type; ``None`` if that is not possible."""
    kind = _kind(name)
    if kind in {SpeculativeConfig, JsonObject}:
        read = read_value(value) if isinstance(value, str) else value
        return read if isinstance(read, dict) else None
    if kind is tuple:
        return _listed(name, value)
    if kind is bool:
        switch = read_value(value) if isinstance(value, str) else value
        return switch if isinstance(switch, bool) else None
    if kind is str:
        return _word(value)
    return _number(value, kind)


def _listed(name: str, value: Any) -> list[Any] | None:  # noqa: ANN401 - any printed value
    """Return the items of a list, as words or as whole numbers."""
    if not isinstance(value, list):
        return None
    if get_args(_TYPES[name])[0] is not int:
        return [str(each) for each in value]
    numbers = [_number(each, int) for each in value]
    return None if None in numbers else numbers


def _word(value: Any) -> str | None:  # noqa: ANN401 - any printed value
    if not isinstance(value, str):
        return None
    enum = _ENUM.match(value)
    return enum[1] if enum else value.removeprefix("torch.")


def _number(value: Any, kind: type) -> int | float | None:  # noqa: ANN401 - any printed value
    if value == "auto":
        return -1
    if isinstance(value, str):
        human = _HUMAN.fullmatch(value)
        value = float(human[1]) * _FACTORS[human[2]] if human else read_value(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if kind is float else int(value)
