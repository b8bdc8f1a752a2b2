"""Which classes cannot tie their output to the embedding, and which cannot but tie it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TiedOutputRules:
    """Which classes cannot tie their output to the embedding, and which cannot but tie it."""

    tied_classes: frozenset[str]
    """Classes that refuse a config whose output is not tied to the embedding."""
    untied_classes: frozenset[str]
    """Classes that refuse a config whose output is tied to the embedding."""
    modelopt_untied_classes: frozenset[str]
    """Classes whose output cannot share the embedding of a ModelOpt checkpoint."""
    pipeline_untied: Mapping[str, str]
    """Classes that fail on a tied output in pipeline stages, of which another holds the embedding, and what
    they raise."""
    text_part_alone: bool
    """Whether the text part alone says if the output of a class of text and media is tied."""
    tied_as_whole: frozenset[str]
    """Classes of text and media whose output is tied as the whole config says even then."""
    tied_as_text: frozenset[str]
    """Classes of text and media whose output is tied as the text part of the config says, not the whole."""
    tied_by_either: frozenset[str]
    """Classes of text and media whose output is tied if the text part or the whole config says so."""
