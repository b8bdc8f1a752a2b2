"""A context longer than the config allows: which keys of the config a start has to replace for it."""

import shlex
from dataclasses import replace
from typing import Any, Final

from service.advisor.request.plan_request import Model
from service.architecture.context_length import RopeScaling
from service.architecture.layers.attention import Attention
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.engines.rules.lengths import LengthRules, YarnLength

LENGTH_KEY: Final = "max_position_embeddings"
MOST_FACTOR: Final = 4.0
"""Largest factor that is offered. Source: model cards of Qwen2.5 and Qwen3, which publish YaRN with 4.0."""
TRAINED_LENGTHS: Final = {("qwen3", 40_960): 32_768, ("qwen3_moe", 40_960): 32_768}
"""Length that YaRN scales, by ``model_type`` and the config's length, where cards name a shorter one.

The config's length is the trained one and 8,192 positions more, a reserve for prompts. Source: model cards of
Qwen3-8B and Qwen3-235B-A22B, Processing Long Texts: factor 4.0 of 32,768 for 131,072 tokens, 2.0 for 65,536.
"""
STEP: Final = 4096
"""Tokens by which a length is rounded up that a workload asks for."""
SCALED: Final = (
    "YaRN scales positions of short prompts too, which can lower the quality of their answers. Where the "
    "model's card publishes a factor and an original length, use those."
)


def longer_context(model: Model, flags: ServeFlags, needed: int, rules: LengthRules) -> str:
    """Return in sentences the flags for requests of ``needed`` tokens, or why there are none.

    The length is rounded up to a multiple of ``STEP`` where that can be had too.
    """
    own = model.architecture.context.length or 0
    rounded = -(-needed // STEP) * STEP
    why = ""
    for length in (rounded, needed):
        asked = f"--max-model-len {length}"
        if length <= own:
            return f"Plan with {asked}, which they fit."
        found = stretched(model, replace(flags, max_model_len=length), rules)
        if not isinstance(found, str) and found[0].hf_overrides is not None:
            overrides = shlex.quote(found[0].hf_overrides.text)
            return f"Plan with {asked} --hf-overrides {overrides}, which they fit. {SCALED}"
        why = found if isinstance(found, str) else why
    return why


def stretched(model: Model, flags: ServeFlags, rules: LengthRules) -> tuple[ServeFlags, Model] | str:
    """Return flags with YaRN for the length in ``flags`` and the model that they make, or why there are none.

    From 0.30.0 on the engine does not multiply the length by YaRN's factor, so the length is replaced too.
    Replaced dictionaries replace the whole value, so the base of the angles is written again.
    Source: vLLM 0.30.0 to 0.32.0, config/model.py _get_and_verify_max_len, ModelConfig._apply_dict_overrides.
    """
    asked, architecture = flags.max_model_len, model.architecture
    context, table = architecture.context, next(iter(architecture.rotary_tables), None)
    if asked is None or context.length is None:
        return "The config names no length that could be scaled."
    if rules.yarn is not YarnLength.AS_WRITTEN:
        return "How this release scales rotary positions by --hf-overrides is not planned."
    if table is None or context.key != LENGTH_KEY or not _is_plain(architecture):
        return "Its positions cannot be scaled by one key of the config, so no way past this is planned."
    scaling = _scaling(architecture, asked)
    if scaling is None:
        return (
            f"{asked:,} tokens are more than YaRN is published for: {MOST_FACTOR:g} times the length, or "
            "what the scaling in the config says."
        )
    given: dict[str, Any] = {} if flags.hf_overrides is None else flags.hf_overrides.document()
    own = given.get("rope_parameters") or given.get("rope_scaling") or {}
    rope = {
        **own,
        "rope_type": scaling.type,
        "rope_theta": float(table.base),
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_length,
    }
    rest = {key: value for key, value in given.items() if key != "rope_scaling"}
    overrides = {**rest, "rope_parameters": rope, LENGTH_KEY: asked}
    positions = int((scaling.factor or 1.0) * (scaling.original_length or asked))
    changed = replace(
        architecture,
        context=replace(context, length=asked, scalings=(scaling,)),
        rotary_tables=(replace(table, positions=positions),),
    )
    return replace(flags, hf_overrides=JsonObject.of(overrides)), replace(model, architecture=changed)


def _is_plain(architecture: ModelArchitecture) -> bool:
    """Whether all layers rotate whole heads by one table, and the config says nothing else of positions."""
    if architecture.multimodal or architecture.files is not None or len(architecture.rotary_tables) != 1:
        return False
    (table,), context = architecture.rotary_tables, architecture.context
    if context.model_max_length is not None or table.multimodal or not _is_number(table.base):
        return False
    mixers = {layer.mixer for layer in architecture.layers}
    return all(isinstance(mixer, Attention) and mixer.head_size == table.width for mixer in mixers)


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _scaling(architecture: ModelArchitecture, asked: int) -> RopeScaling | None:
    """Return the scaling for a length: the one that the config has, or YaRN from the trained length."""
    context = architecture.context
    known = [each for each in context.scalings if each.type != "default"]
    if known:
        (first, *others) = known
        reach = (first.factor or 0) * (first.original_length or 0)
        return first if not others and first.type == "yarn" and asked <= reach else None
    configured = context.length or asked
    length = TRAINED_LENGTHS.get((architecture.model_type, configured), configured)
    factor = asked / length
    return RopeScaling("yarn", factor, length) if factor <= MOST_FACTOR else None
