"""Values that a release refuses at its start, of flags that a plan does not use otherwise."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import ArgumentKind, ArgumentTable
from service.engines.arguments.registered_names import registered_names
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for
from service.launch_command.flags.refused_backends import refused_backends
from service.launch_command.launch import WrittenFlag
from service.nearest_names import few_of, nearest, quoted

_PLANNED: Final = frozenset(field.name for field in fields(ServeFlags))
"""Flags whose values a plan checks itself."""
_SHORTEST_PLUGIN: Final = 4
"""Characters from which a release imports a plugin. Source: vLLM 0.33.0, init_parser_plugin."""
_NO_PARSER: Final = "none"
"""The word for no parser of reasoning, in any case. Source: vLLM 0.33.0, parse_reasoning_parser."""
_FOREIGN_PLUGIN: Final = "tool_call_parser_plugin"
"""What programs around the engine call a plugin."""
Flags = Mapping[str, WrittenFlag]


def refused_values(flags: Flags, table: ArgumentTable) -> Iterator[str]:
    """Yield, in words, which values the release refuses: words that are no choice, and unknown parsers."""
    for flag in flags.values():
        if flag.name in table and flag.name not in _PLANNED and not flag.missing:
            yield from _no_choice(flag, table)
    yield from _tool_parser(flags, table.release)
    yield from _reasoning_parser(flags, table.release)
    yield from _tokenizer(flags, table)
    if "config_format" in flags:
        yield from _unknown(flags["config_format"], "config format", table.release)
    yield from refused_backends(flags, rules_for(table.release).parallelism)


def _no_choice(flag: WrittenFlag, table: ArgumentTable) -> Iterator[str]:
    argument = table[flag.name]
    if argument.kind is not ArgumentKind.STR or not argument.choices or not isinstance(flag.value, str):
        return
    given = flag.value.lower().replace("-", "_") if argument.folded else flag.value
    if given not in argument.choices and not (argument.nullable and given == "None"):
        choices = ", ".join(map(repr, argument.choices))
        yield f"argument {argument.spelling}: invalid choice: {quoted(flag.value)} (choose from {choices})"


def _tool_parser(flags: Flags, release: Version) -> Iterator[str]:
    """Yield why tools cannot be called.

    Source: vLLM 0.10.2 to 0.33.0, validate_api_server_args and validate_parsed_serve_args. The name is read
    with ``--enable-auto-tool-choice`` alone.
    """
    auto = flags.get("enable_auto_tool_choice")
    if auto is None or auto.value is not True:
        return
    if "tool_call_parser" not in flags:
        yield "Error: --enable-auto-tool-choice requires --tool-call-parser"
        return
    if not (_has_plugin(flags, "tool_parser_plugin") or _FOREIGN_PLUGIN in flags):
        yield from _unknown(flags["tool_call_parser"], "tool call parser", release)


def unread_tool_parser(flags: Flags, release: Version) -> Iterator[str]:
    """Yield that a parser of tool calls is not read, and whether the release has it.

    Source: vLLM 0.10.2, OpenAIServingChat; 0.20.2 to 0.33.0, ParserManager.get_tool_parser: none without
    ``--enable-auto-tool-choice``.
    """
    flag, auto = flags.get("tool_call_parser"), flags.get("enable_auto_tool_choice")
    if flag is None or (auto is not None and auto.value is True):
        return
    said = (
        f"{flag.spelling} is read only with --enable-auto-tool-choice, which is not given: no tool call is "
        "parsed."
    )
    if not (_has_plugin(flags, "tool_parser_plugin") or _FOREIGN_PLUGIN in flags):
        instead = next(_instead(flag, release), None)
        if instead is not None:
            said += f" vLLM {release} has no tool call parser {quoted(str(flag.value))} either; {instead}."
    yield said


def _reasoning_parser(flags: Flags, release: Version) -> Iterator[str]:
    """Yield that there is no such parser. Source: vLLM 0.10.2 to 0.33.0, validate_api_server_args."""
    flag = flags.get("reasoning_parser")
    if flag is None or _has_plugin(flags, "reasoning_parser_plugin"):
        return
    unset = str(flag.value).lower() == _NO_PARSER
    if flag.value:
        yield from _unknown(replace(flag, value=_NO_PARSER) if unset else flag, "reasoning parser", release)


def _has_plugin(flags: Flags, name: str) -> bool:
    return name in flags and len(str(flags[name].value)) >= _SHORTEST_PLUGIN


def _tokenizer(flags: Flags, table: ArgumentTable) -> Iterator[str]:
    """Yield that there is no such tokenizer; where none is loaded, its mode is not read.

    Source: vLLM 0.12.0 to 0.33.0, tokenizers/registry.py load_tokenizer_cls; ModelConfig writes the mode in
    lower case. Earlier releases take certain words.
    """
    flag, skipped = flags.get("tokenizer_mode"), flags.get("skip_tokenizer_init")
    if flag is None or table["tokenizer_mode"].choices or (skipped is not None and skipped.value is True):
        return
    if isinstance(flag.value, str):
        yield from _unknown(replace(flag, value=flag.value.lower()), "tokenizer mode", table.release)


def _unknown(flag: WrittenFlag, kind: str, release: Version) -> Iterator[str]:
    for instead in _instead(flag, release):
        yield f"invalid {kind}: {quoted(str(flag.value))}; {instead}"


def _instead(flag: WrittenFlag, release: Version) -> Iterator[str]:
    """Yield what there is in place of a name that the release does not have; nothing for one that it has."""
    known = registered_names(flag.name, release)
    if flag.missing or not isinstance(flag.value, str) or flag.value in known:
        return
    having = [each for each in RELEASES if flag.value in registered_names(flag.name, each)]
    after = [each for each in RELEASES if having and each > having[-1]]
    if having and release < having[0]:
        yield f"it came with {having[0]}"
    elif after:
        yield f"{after[0]} removed it"
    else:
        listed = f"`dryserve engines values {flag.name}` lists all"
        yield few_of(nearest(flag.value, known), known, listed)
