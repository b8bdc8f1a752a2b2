"""Rotary positions that a config writes in a form which some releases do not take."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.text_part import text_type
from service.architecture.traits import RotationForm, WrittenRotation

BASES: Final = (
    "rope_theta",
    "rotary_emb_base",
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_emb_fraction",
    "original_max_position_embeddings",
)
"""Fields that the engine writes into the object: vLLM 0.12.0 to 0.21.0, patch_rope_parameters."""
LAYER_TYPES: Final = frozenset(
    {"full_attention", "sliding_attention", "chunked_attention", "linear_attention"}
)
"""Names of types of layers: transformers 4.57, ALLOWED_LAYER_TYPES."""
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "dynamic": ("factor",),
    "linear": ("factor",),
    "llama3": ("factor", "high_freq_factor", "low_freq_factor", "original_max_position_embeddings"),
    "longrope": ("long_factor", "short_factor"),
    "yarn": ("factor",),
}
"""What each type needs: transformers 4.57, ROPE_VALIDATION_FUNCTIONS."""
SAME: Final = frozenset({("longrope", "su"), ("default", "mrope")})
"""New and old names of types that are taken together: vLLM 0.20.2, patch_rope_parameters_dict."""


def written_rotations(config: Config, text: Config) -> frozenset[WrittenRotation]:
    """Return the forms of the whole config and of its text part that are not an object with one type."""
    if config.plain:
        return frozenset()
    parts = ((config.text("model_type"), config), (text_type(config, text), text))
    return frozenset(found for model_type, part in parts for found in _of_part(model_type, part))


def _of_part(model_type: str, part: Config) -> Iterator[WrittenRotation]:
    scaling = _object(part, "rope_scaling")
    written = scaling or _object(part, "rope_parameters")
    if not written:
        return
    based = any(part.fields.get(name) is not None for name in BASES)
    nested = LAYER_TYPES.issuperset(written)
    if nested:
        yield WrittenRotation(RotationForm.NESTED, model_type, bool(scaling), based)
    for each in written.values() if nested else (written,):
        if not isinstance(each, Mapping):
            continue
        types = str(each.get("rope_type") or ""), str(each.get("type") or "")
        missing = tuple(name for name in NEEDED.get(types[0] or types[1], ()) if name not in each)
        form = _form(each) or (RotationForm.INCOMPLETE if missing else None)
        if form is not None:
            yield WrittenRotation(form, model_type, bool(scaling), based, types, missing)


def _form(written: Mapping[str, Any]) -> RotationForm | None:
    new, old = (written.get(name) for name in ("rope_type", "type"))
    if new is None:
        return RotationForm.UNTYPED if old is None else RotationForm.OLD_NAME
    if old is None or new == old or (new, old) in SAME:
        return None
    return RotationForm.CONFLICT


def _object(part: Config, name: str) -> Mapping[str, Any]:
    written = part.fields.get(name)
    return written if isinstance(written, Mapping) else {}
