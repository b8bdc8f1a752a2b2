"""Which windows a release finds in a config, beside those of each layer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Which windows a release finds in a config, beside those of each layer."""

    of_one_type: bool
    """Whether a window stands for all layers where layer_types name one type, whatever it is."""
    own: frozenset[str]
    """Classes whose layers take no window of the whole model's."""
    text_unread: frozenset[str]
    """Classes that transformers' own code runs without the windows of their text part."""
