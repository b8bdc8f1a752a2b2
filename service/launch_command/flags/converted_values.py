"""Converts the texts of values as the release's own parser does.

Source: vLLM 0.28.0, utils/argparse_utils.py.
"""

import json
import re
from typing import Final

from service.engines.arguments.arguments import ArgumentKind
from service.launch_command.launch import Value

_HUMAN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKmMgGtT])")
_HUMAN_IN_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\b[0-9]{1,15}(?:\.[0-9]{1,9})?[kKmMgGtT]\b')
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_POWERS: Final = {letter: power for power, letter in enumerate("kmgt", 1)}
NAMES: Final[dict[ArgumentKind | None, str]] = {
    ArgumentKind.INT: "whole number",
    ArgumentKind.HUMAN_INT: "whole number, such as 32768 or 32k",
    ArgumentKind.HUMAN_INT_OR_AUTO: "whole number, such as 32768 or 32k, or auto",
    ArgumentKind.FLOAT: "number",
}


def converted(text: str, kind: ArgumentKind | None) -> Value:  # noqa: PLR0911 - one for each kind
    """Return the value of a text.

    Raises:
        ValueError: the parser refuses it.
        RecursionError: it is JSON that is nested too deep.
    """
    match kind:
        case ArgumentKind.INT:
            return _whole(text)
        case ArgumentKind.HUMAN_INT:
            return _human(text)
        case ArgumentKind.HUMAN_INT_OR_AUTO:
            return -1 if text.lower() == "auto" else _human(text)
        case ArgumentKind.FLOAT:
            return float(text)
        case ArgumentKind.JSON:
            return json.loads(_HUMAN_IN_JSON.sub(_expanded, text))
        case ArgumentKind.JSON_OR_STR:
            return json.loads(text) if text[:1] in {"{", "["} else text
        case _:
            return text


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _human(text: str) -> int:
    number = human_int(text)
    if number is None:
        raise ValueError(text)
    return number


def human_int(text: str) -> int | None:
    """Return a whole number: ``32k`` is 32,000 and ``32K`` 32,768, which takes no fraction.

    Source: vLLM 0.28.0, utils/argparse_utils.py human_readable_int.
    """
    human = _HUMAN.fullmatch(text)
    if human is None:
        return int(text) if _WHOLE.fullmatch(text) else None
    power = _POWERS[human[2].lower()]
    if human[2].islower():
        return int(float(human[1]) * 1000**power)
    return int(human[1]) * 1024**power if human[1].isdecimal() else None


def _expanded(found: re.Match[str]) -> str:
    """Return a number in JSON that is written with a letter, such as 80m, without it; texts stay."""
    number = None if found[0].startswith('"') else human_int(found[0])
    return found[0] if number is None else str(number)
