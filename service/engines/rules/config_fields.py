"""What classes read of a config without which a release does not build them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigFieldRules:
    """What classes read of a config without which a release does not build them."""

    required_fields: frozenset[str]
    """Fields that classes read without a default, and which some config classes lack."""
    based_rotations: frozenset[str]
    """Types of configs whose class has a base of rotary positions of its own, which is written beside those
    of types of layers; empty: it is not.
    """
    nested_rotations_kept: bool
    """Rotary positions that are said for each type of layer stay as they are, whatever the class has."""
    scaled_rotations: frozenset[str]
    """Types of configs whose class has a rope_scaling of its own, for which rope_parameters are not read."""
    checked_rotations: frozenset[str]
    """Types of configs whose class checks that rope_scaling has what its type needs."""
    kept_rotations: frozenset[str]
    """Types of configs whose class knows the type of rope_scaling by its new name alone."""
    validated_rotations: bool
    """Every config class checks that rotary positions have what their type needs."""
    unvalidated_rotations: frozenset[str]
    """Types of configs whose class reads rope_parameters of types of layers alone, and checks no others."""
    even_heads: frozenset[str]
    """Classes that read no head_dim in some releases: their heads share the hidden size."""
    words_of_fields: Mapping[str, str]
    """What is raised and said where a field is absent, if the class looks for it itself."""
    multiplied_fields: frozenset[str]
    """Fields by which classes multiply, and which may be null."""
    vision_required: Mapping[str, str]
    """Classes that need a config of images, and what they raise and say where there is none."""
