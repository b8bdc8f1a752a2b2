"""Rotary positions that a config writes in a form which a release does not take."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.traits import RotationForm, WrittenRotation
from service.architecture.written_rotations import NEEDED
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.config_fields import ConfigFieldRules
from service.nearest_names import cut

UNTYPED: Final = "ModelConfig: rope_parameters should have a 'rope_type' key"
CONFLICT: Final = (
    "ModelConfig: Found conflicts between 'rope_type={}' (modern field) and 'type={}' (legacy field). "
    "You should only specify one of them."
)
MERGED: Final = (
    "The config says its rotary positions for each type of layer, as transformers 5 writes them. The release "
    "runs with transformers 4.57, whose config class has a base of its own (rope_theta), and writes it "
    "beside them: the types are no longer found. Take vLLM 0.21.0 or later, or write rope_theta and "
    "rope_scaling as transformers 4 does."
)
NO_TYPE: Final = (
    "The config says no type of its rotary positions. Add rope_type: default where they are not scaled."
)
INCOMPLETE: Final = "The config class checks rope_scaling. Add {} to it."
MISSING: Final = "Missing required keys in `rope_scaling` for 'rope_type'='{}': {{{}}}"
"""transformers 4.57, modeling_rope_utils.py _check_received_keys. The others are of patch_rope_parameters:
vLLM 0.20.2, transformers_utils/config.py; asked of 0.20.2.
"""
NEW_NAME: Final = "rope_type"
VALIDATED: Final = "\"Missing required keys in `rope_parameters` for 'rope_type'='{}': {{{}}}\""
"""transformers 5.10 and 5.19, modeling_rope_utils.py _check_received_keys."""
COMPLETED: Final = "original_max_position_embeddings"
"""What the config class itself adds to the types that it knows: standardize_rope_params."""


def check_rotations(architecture: ModelArchitecture, rules: ConfigFieldRules) -> None:
    """Refuse rotary positions of which the release does not find a type.

    Raises:
        EngineRefusal: stage ``config``.
    """
    written = architecture.declared.rotations
    if rules.validated_rotations:
        _check_validated(written, rules)
    if not rules.based_rotations:
        return
    kept = {each.model_type for each in written if rules.nested_rotations_kept and _is_nested(each)}
    for found in sorted(written, key=lambda each: each.form.value):
        if found.model_type in kept and not found.scaling:
            continue
        refusal = _scaling_fault(found, rules) if found.scaling else _fault(found, rules)
        if refusal is not None:
            raise refusal


def _check_validated(written: frozenset[WrittenRotation], rules: ConfigFieldRules) -> None:
    """Refuse a type without what it needs: every class of transformers 5 does."""
    for found in sorted(written, key=lambda each: (each.model_type, each.types, each.missing)):
        kind, missing = found.types[0] or found.types[1], set(found.missing) - {COMPLETED}
        unchecked = found.model_type in rules.unvalidated_rotations and not found.scaling
        if not missing or unchecked:
            continue
        words = VALIDATED.format(kind, ", ".join(map(repr, sorted(missing))))
        detail = f"The config class checks its rotary positions. Add {' and '.join(sorted(missing))} to them."
        raise EngineRefusal(Stage.CONFIG, words, type="KeyError", detail=detail)


def _is_nested(found: WrittenRotation) -> bool:
    return found.form is RotationForm.NESTED and not found.scaling


def _fault(found: WrittenRotation, rules: ConfigFieldRules) -> EngineRefusal | None:
    if found.model_type in rules.scaled_rotations:
        return None
    if found.form is RotationForm.UNTYPED:
        return _refusal(UNTYPED, NO_TYPE)
    if found.form is RotationForm.CONFLICT:
        return _refusal(CONFLICT.format(*map(cut, found.types)))
    based = found.based or found.model_type in rules.based_rotations
    return _refusal(UNTYPED, MERGED) if found.form is RotationForm.NESTED and based else None


def _scaling_fault(found: WrittenRotation, rules: ConfigFieldRules) -> EngineRefusal | None:
    """Return what is raised of ``rope_scaling``, which classes of transformers 4 check themselves."""
    kept = found.model_type in rules.kept_rotations
    if found.form is RotationForm.CONFLICT:
        return _refusal(CONFLICT.format(*map(cut, found.types))) if kept else None
    if found.form is RotationForm.NESTED or found.model_type not in rules.checked_rotations:
        return None
    if found.form is RotationForm.UNTYPED:
        return _missing(None, (NEW_NAME,), NO_TYPE)
    kind = found.types[0] or found.types[1]
    renamed = () if found.types[0] or not kept or kind not in NEEDED else (NEW_NAME,)
    missing = (*found.missing, *renamed)
    return _missing(kind, missing, INCOMPLETE.format(" and ".join(missing))) if missing else None


def _missing(kind: str | None, names: tuple[str, ...], detail: str) -> EngineRefusal:
    words = MISSING.format(kind, ", ".join(map(repr, names)))
    return EngineRefusal(Stage.CONFIG, words, type="KeyError", detail=detail)


def _refusal(words: str, detail: str = "") -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, words, type="ValidationError", detail=detail)
