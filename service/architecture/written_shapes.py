"""Sizes that do not fit together where the config's class checks them."""

from collections.abc import Iterator
from typing import Final

from service.architecture.config import Config
from service.architecture.text_part import text_type
from service.architecture.traits import NamedLayers, UncountedLayers, UnfitHeads

SLIDING: Final = "sliding_attention"
EVERYWHERE: Final = frozenset(
    {"full_attention", "sliding_attention", "chunked_attention", "linear_attention"}
)
"""Types of layers that every release knows. Source: transformers 4.56, ALLOWED_LAYER_TYPES."""


def unfit_heads(config: Config, text: Config) -> frozenset[UnfitHeads]:
    """Return the parts whose hidden size is no multiple of the number of attention heads."""
    if config.plain:
        return frozenset()
    vision = config.section("vision_config")
    parts = [(config.text("model_type"), config), (text_type(config, text), text)]
    if vision is not None:
        parts.append((vision.text("model_type"), vision))
    return frozenset(found for model_type, part in parts for found in _of_part(model_type, part))


def _of_part(model_type: str, part: Config) -> Iterator[UnfitHeads]:
    hidden, heads = (part.fields.get(name) for name in ("hidden_size", "num_attention_heads"))
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and hidden % heads:
        yield UnfitHeads(model_type, hidden, heads)


def uncounted_layers(config: Config, text: Config) -> frozenset[UncountedLayers]:
    """Return the parts whose list of types of layers is longer or shorter than their number of layers."""
    if config.plain:
        return frozenset()
    parts = ((config.text("model_type"), config), (text_type(config, text), text))
    return frozenset(found for model_type, part in parts for found in _uncounted(model_type, part))


def _uncounted(model_type: str, part: Config) -> Iterator[UncountedLayers]:
    layers, types = (part.fields.get(name) for name in ("num_hidden_layers", "layer_types"))
    if isinstance(layers, int) and isinstance(types, list) and len(types) != layers:
        yield UncountedLayers(model_type, layers, len(types))


def uniform_window(text: Config) -> int:
    """Return the window beside layers that are all of one type, which has none; 0 if there is none.

    Classes with ``use_sliding_window`` forget the window where it is false.
    """
    types, window = (text.fields.get(name) for name in ("layer_types", "sliding_window"))
    if not isinstance(types, list) or len(set(map(str, types))) != 1 or types[0] == SLIDING:
        return 0
    used = text.fields.get("use_sliding_window") is not False
    return window if used and isinstance(window, int) and window > 0 else 0


def named_layers(config: Config, text: Config) -> frozenset[NamedLayers]:
    """Return the types of layers that the parts list, beside those that are known everywhere."""
    if config.plain:
        return frozenset()
    parts = ((config.text("model_type"), config), (text_type(config, text), text))
    return frozenset(found for model_type, part in parts for found in _named(model_type, part))


def _named(model_type: str, part: Config) -> Iterator[NamedLayers]:
    types = part.fields.get("layer_types")
    if not isinstance(types, list) or not types:
        return
    names = [each if isinstance(each, str) and each not in EVERYWHERE else "" for each in types]
    if any(names):
        yield NamedLayers(model_type, tuple(dict.fromkeys(filter(None, names[:-1]))), names[-1])
