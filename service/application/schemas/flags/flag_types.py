"""Types of values of the engine's flags, with their limits."""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticUndefined

MAX_RANKS: Final = 1 << 12
MAX_TOKENS: Final = 1 << 31
MAX_BYTES: Final = 1 << 50
MAX_LAYERS: Final = 1 << 10
MAX_LAYER_CHARACTERS: Final = 1 << 12
"""Characters of all layer names together, which every command repeats; 0 to 1023 take 2,986."""
MAX_DRAFT_TOKENS: Final = 1 << 10
MAX_OFFLOAD: Final = 1 << 14
MAX_GRAPHS: Final = 1 << 10
MAX_KEYS: Final = 64
GRAPH_MODES: Final = r"(?i)^(none|piecewise|full|full_decode_only|full_and_piecewise)$"
MAX_OBJECT_CHARACTERS: Final = 1 << 12
"""Characters of a JSON object in a flag, which every command repeats."""
MAX_ADAPTERS: Final = 1 << 12
MAX_PIXELS: Final = 1 << 20
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


def not_zero(tokens: int) -> int:
    """Return a number of tokens; raises ``ValueError`` for zero."""
    if tokens == 0:
        raise ValueError("must be -1 or at least 1")
    return tokens


def short_together(layers: list[str]) -> list[str]:
    """Return names of layers; raises ``ValueError`` where they are too long together."""
    if sum(map(len, layers)) > MAX_LAYER_CHARACTERS:
        raise ValueError(f"must have at most {MAX_LAYER_CHARACTERS} characters together")
    return layers


def small(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object; raises ``ValueError`` where it is too long as JSON."""
    if len(json.dumps(document)) > MAX_OBJECT_CHARACTERS:
        raise ValueError(f"must have at most {MAX_OBJECT_CHARACTERS} characters as JSON")
    return document


def as_written(
    read: Callable[[str], int],
    json_schema_input_type: Any = PydanticUndefined,  # noqa: ANN401 - any annotation
) -> BeforeValidator:
    """Return a validator that reads text with a unit as the engine's command line does.

    Digits alone stay text: a body has a number for them.
    """

    def number(given: Any) -> Any:  # noqa: ANN401 - any value of a request
        if isinstance(given, str) and not _DIGITS.fullmatch(given.strip()):
            return read(given)
        return given

    return BeforeValidator(number, json_schema_input_type)


Ranks = Annotated[int, Field(ge=1, le=MAX_RANKS)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
StateDtype = Literal["auto", "float32", "float16", "bfloat16"]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Layer = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]{1,64}$")]
"""An index or a kind of layers; never text that a command would read as an option."""


Segments = Annotated[
    list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.]{0,63}$")]], Field(max_length=64)
]
"""Parts of parameters' names, between dots."""


Gigabytes = Annotated[float, Field(ge=0, le=MAX_OFFLOAD)]
Pixels = Annotated[int, Field(ge=1, le=MAX_PIXELS)]
Count = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
