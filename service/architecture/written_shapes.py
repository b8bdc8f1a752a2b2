"""Sizes that do not fit together where the config's class checks them."""

from collections.abc import Iterator

from service.architecture.config import Config
from service.architecture.text_part import text_type
from service.architecture.traits import UnfitHeads


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
