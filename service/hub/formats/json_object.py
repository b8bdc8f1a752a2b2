"""Parses JSON from untrusted sources, with limits on depth and size."""

from __future__ import annotations

import json
from typing import Any, Final

from service.hub.errors import ConfigNotJson, ConfigTooDeep

MOST_CONTAINERS: Final = 100_000
"""Most objects and arrays in one file: each needs up to a hundred times the memory of its text."""


def parse_object(body: bytes, *, model_id: str, file: str, depth: int) -> dict[str, Any]:
    """Parse a JSON object of at most `depth` levels.

    `Infinity` and `NaN` are accepted: transformers writes them (`time_step_limit` of Mamba models).

    Raises:
        ConfigNotJson: the text is not UTF-8, not JSON, or not an object.
        ConfigTooDeep: it has more than `depth` levels of objects and arrays, or too many of them.
    """
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
        raise ConfigTooDeep(model_id, file, depth)
    try:
        parsed = json.loads(body.decode("utf-8-sig"))
    except RecursionError:
        raise ConfigTooDeep(model_id, file, depth) from None
    except UnicodeDecodeError:
        raise ConfigNotJson(model_id, file, "it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigNotJson(model_id, file, f"{error.msg} in line {error.lineno}") from None
    except ValueError:  # an integer has more digits than Python converts
        raise ConfigNotJson(model_id, file, "a number is too long") from None
    if not isinstance(parsed, dict):
        raise ConfigNotJson(model_id, file, "its top level is another type")
    if _deeper_than(parsed, depth):
        raise ConfigTooDeep(model_id, file, depth)
    return parsed


def _deeper_than(container: dict[str, Any], depth: int) -> bool:
    # Level by level and without recursion: a hostile file could exceed Python's recursion limit.
    level: list[Any] = [container]
    for _ in range(depth):
        children = (child for node in level for child in (node.values() if isinstance(node, dict) else node))
        level = [child for child in children if isinstance(child, dict | list)]
    return bool(level)
