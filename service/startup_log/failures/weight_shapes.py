"""Says what two shapes of one weight tell: that of the checkpoint and that of the engine's parameter."""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from service.bundled_toml import read_toml
from service.startup_log.catalogue.phrases import CauseForm

CAUSES_OF_SHAPES: Final = frozenset({"weights_do_not_fit_the_class", "weights_not_transferred"})
"""Causes whose messages have the shapes of a weight."""
_LOADED_FIRST: Final = (
    "Attempted to load weight (",
    "Tried to load weights of size",
    "copying a param with shape",
    "loaded weight has shape",
)
"""vLLM 0.2.7 to 0.33.0, model_executor/model_loader/weight_utils.py default_weight_loader and
model_executor/parameter.py; torch, nn/modules/module.py _load_from_state_dict: what stands before the shape
of the loaded weight, behind which that of the parameter follows."""
_SHAPE: Final = re.compile(r"torch\.Size\(\[(\d{1,9}(?:, ?\d{1,9}){0,5})\]\)", re.ASCII)
LEAST_OF_VOCABULARY: Final = 20_000
"""Rows of an embedding at least; the widths of layers that are larger are rare."""
PACKED: Final = {2: "two_in_a_byte", 8: "eight_in_a_word"}
"""Values that a packed weight has in one element, and the relation of its shape."""


def form_of_shapes(cause: str, message: str) -> CauseForm | None:
    """Return what the two shapes in a message say of a cause; ``None`` where they say nothing certain."""
    head = next((words for words in _LOADED_FIRST if words in message), None)
    if cause not in CAUSES_OF_SHAPES or head is None:
        return None
    shapes = [_sizes(each) for each in _SHAPE.findall(message.partition(head)[2])]
    return _FORMS.get(relation(*shapes[:2])) if len(shapes) >= 2 else None  # noqa: PLR2004 - loaded, parameter


def relation(loaded: Sequence[int], parameter: Sequence[int]) -> str:
    """Return how a loaded shape differs from that of its parameter; empty where that tells nothing."""
    if loaded == parameter:
        return ""
    if len(loaded) == len(parameter) > 1 and loaded == parameter[::-1]:
        return "transposed"
    if loaded[1:] == [1] and 2 * prod(loaded) == prod(parameter):
        return "bitsandbytes"
    pairs = list(zip(loaded, parameter, strict=False))
    differing = [at for at, (one, other) in enumerate(pairs) if one != other]
    if len(loaded) != len(parameter) or len(differing) != 1:
        return ""
    one, other = pairs[differing[0]]
    if differing[0] == 0 and min(one, other) >= LEAST_OF_VOCABULARY and max(one, other) < 2 * min(one, other):
        return "rows_of_vocabulary"
    of_width = differing[0] == len(loaded) - 1
    times = other // one if one and other % one == 0 else 0
    return PACKED.get(times, "") if of_width and len(loaded) > 1 else ""


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _form(table: Mapping[str, Any]) -> CauseForm:
    return CauseForm(table["means"], table["remedy"], title=table["title"])


_FORMS: Final = {
    table["name"]: _form(table)
    for table in read_toml("service.startup_log.catalogue", "weight_shapes.toml")["relation"]
}
