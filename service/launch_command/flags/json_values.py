"""Values of flags that the engine reads as JSON, and what to write where it refuses them."""

import ast
import json
import re
import shlex
from typing import Final

from service.engines.arguments.arguments import Argument, ArgumentKind
from service.launch_command.launch import Value
from service.redaction import hide_secrets

_PAIR: Final = re.compile(r"[A-Za-z_][\w.-]{0,60}")
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]{0,60}")
_BARE: Final = re.compile(r"\s*\{\s*[A-Za-z_][\w-]{0,60}\s*:")
_NOT_OBJECTS: Final = frozenset(
    {
        "allowed_headers",
        "allowed_methods",
        "allowed_origins",
        "custom_histogram_buckets",
        "quantization_config",
    }
)
"""Flags whose JSON may be something else than an object."""
_OBJECT: Final = "the value is JSON, but no object with keys, which the release takes alone"
LONGEST: Final = 400
"""Characters of a refused value for which what to write is looked for."""
_SIGNS: Final = {"true": True, "false": False, "True": True, "False": False}


def refused_json(spelling: str, text: str) -> str:
    """Return, in words, that a value is no JSON, and what to write, where its meaning is plain.

    Source: vLLM 0.10.2 to 0.33.0, engine/arg_utils.py: parse_type(json.loads) and parse_dataclass, which end
    in the error of argparse. Pairs such as ``image=2`` were read up to 0.9.2 only (nullable_kvs).
    """
    start = f"argument {spelling}: the value is no JSON"
    if len(text) <= LONGEST and hide_secrets(text) == text:
        meant = _pairs(text) or _python(text)
        if meant is not None:
            return f"{start}; write {spelling} {shlex.quote(hide_secrets(json.dumps(meant)))}"
    if _BARE.match(text):
        return (
            f"{start}: its keys have no double quotes; put the whole value in single quotes, so that the "
            "shell keeps them"
        )
    return start


def refused_form(argument: Argument, spelling: str, value: Value) -> str:
    """Return, in words, that JSON of another form stands where the release takes an object; else nothing.

    Source: vLLM 0.10.2 to 0.33.0: pydantic refuses it, in parse_dataclass or in the class of the config.
    """
    if argument.kind is not ArgumentKind.JSON or argument.name in _NOT_OBJECTS:
        return ""
    return "" if value is None or isinstance(value, dict) else f"argument {spelling}: {_OBJECT}"


def _pairs(text: str) -> dict[str, Value] | None:
    """Return what ``image=2,video=0`` means; None where a part is no pair of a name and a plain value."""
    found: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        plain = _plain(value)
        if not equals or not _PAIR.fullmatch(name) or plain is None:
            return None
        found[name] = plain
    return found


def _plain(text: str) -> Value:
    if text in _SIGNS:
        return _SIGNS[text]
    try:
        number = json.loads(text)
    except ValueError:
        return text if _WORD.fullmatch(text) else None
    return number if isinstance(number, int | float) else None


def _python(text: str) -> Value:
    """Return what a dictionary of Python means, such as ``{'image': 2}``; None where it is none."""
    if text.strip()[:1] != "{":
        return None
    try:
        value = ast.literal_eval(text.strip())
        json.dumps(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None
