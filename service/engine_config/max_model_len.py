"""How long a context a start allows."""

from typing import Final

from packaging.version import Version

from service.architecture.context_length import ContextLength
from service.architecture.model import ModelArchitecture
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.lengths import LengthRules, LongRopeDefault, YarnLength

ALREADY_SCALED: Final = frozenset({"su", "longrope", "llama3"})
"""Rope types whose config states the stretched length (vLLM 0.32.0, _get_and_verify_max_len)."""
YARN: Final = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
ORIGINAL: Final = "original_max_position_embeddings"
NEEDS_ORIGINAL: Final = (
    f"The release reads {ORIGINAL} of a YaRN config. Add it, beside the type and the factor: the length that "
    "the model was trained at."
)
DEFAULT_LENGTH: Final = 2048
"""vLLM 0.32.0, _get_and_verify_max_len: the length of a config that names none."""


def resolve_max_model_len(
    requested: int | None,
    architecture: ModelArchitecture,
    rules: LengthRules,
    release: Version,
    *,
    allows_longer: bool = False,
) -> tuple[int, bool]:
    """Return the context length, and whether the engine will shorten it to what fits.

    ``allows_longer`` says that the length may exceed what the config allows.

    Raises:
        EngineRefusal: the request exceeds what the config allows (stage ``config``).
    """
    context = architecture.context
    derived = _derived(architecture, rules)
    if requested == -1 and not rules.fits:
        raise EngineRefusal(
            Stage.CONFIG,
            "ModelConfig: max_model_len must be positive",
            type="ValidationError",
            detail=f"vLLM {release} cannot shorten the context to what fits.",
        )
    if requested is None or requested == -1:
        length = _default(context, derived, rules)
        if length < 1:
            raise EngineRefusal(
                Stage.MEMORY,
                "division by zero",
                type="ZeroDivisionError",
                detail="The config's scaling leaves a context without a token, which takes no block.",
            )
        return length, requested == -1
    if context.length is not None and requested > derived and not allows_longer:
        _refuse(requested, derived, context)
    return requested, False


def _derived(architecture: ModelArchitecture, rules: LengthRules) -> float:
    """Return the length that the config allows; Gemma 3 names its stretched one.

    Source: vLLM 0.32.0, config/model.py _get_and_verify_max_len, which asks for this model type too.

    Raises:
        EngineRefusal: the config lacks a length that the release reads (stage ``config``).
    """
    context = architecture.context
    if context.length is None:
        return DEFAULT_LENGTH
    if "gemma3" in architecture.model_type or not context.scalings:
        return context.length
    length, factor = float(context.length), 1.0
    for scaling in context.scalings:
        yarn = scaling.type in YARN
        if scaling.type in ALREADY_SCALED or (yarn and rules.yarn is YarnLength.AS_WRITTEN):
            continue
        factor = factor if scaling.factor is None else scaling.factor
        if scaling.type == "yarn" and scaling.original_length is not None:
            length = scaling.original_length
        elif scaling.type == "yarn" and rules.yarn_needs_original and context.original_length is None:
            raise EngineRefusal(Stage.CONFIG, f"'{ORIGINAL}'", type="KeyError", detail=NEEDS_ORIGINAL)
    return length * factor


def _default(context: ContextLength, derived: float, rules: LengthRules) -> int:
    long_rope = any(scaling.type == "longrope" for scaling in context.scalings)
    if long_rope and rules.long_rope_default is LongRopeDefault.ORIGINAL:
        return context.original_length or int(derived)
    return int(derived)


def _refuse(requested: int, derived: float, context: ContextLength) -> None:
    limit = context.model_max_length
    if limit is not None and requested <= limit:
        return
    raise EngineRefusal(
        Stage.CONFIG,
        f"ModelConfig: User-specified max_model_len ({requested}) is greater than the derived max_model_len "
        f"({context.key}={derived} or model_max_length={limit} in model's config.json). "
        "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        type="ValidationError",
    )
