"""Which architecture classes are known, and which are known but not modelled."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from service.architecture.families import (
    classic,
    deepseek,
    deepseek_v4,
    delta,
    dense,
    dots3_note,
    encoder_decoder,
    gemma,
    glm5_next,
    gpt_oss,
    hy_v4,
    inkling,
    linear,
    llama,
    minimax_m3,
    muse_spark,
    odd,
    per_layer,
    qwen,
    qwen4_exp,
    qwen_gdn,
    several_caches,
    shared_state,
    sparse,
    state_space,
    step5,
)
from service.architecture.families.family import Family, Wrapper
from service.architecture.families.wrappers import WRAPPERS

FAMILIES: Final[Mapping[str, Family]] = {
    **dense.FAMILIES,
    **classic.FAMILIES,
    **sparse.FAMILIES,
    **per_layer.FAMILIES,
    **llama.FAMILIES,
    **qwen.FAMILIES,
    **qwen_gdn.FAMILIES,
    **qwen4_exp.FAMILIES,
    **gemma.FAMILIES,
    **glm5_next.FAMILIES,
    **gpt_oss.FAMILIES,
    **deepseek.FAMILIES,
    **deepseek_v4.FAMILIES,
    **minimax_m3.FAMILIES,
    **hy_v4.FAMILIES,
    **state_space.FAMILIES,
    **step5.FAMILIES,
    **linear.FAMILIES,
    **delta.FAMILIES,
    **dots3_note.FAMILIES,
    **shared_state.FAMILIES,
    **several_caches.FAMILIES,
    **encoder_decoder.FAMILIES,
    **muse_spark.FAMILIES,
    **odd.FAMILIES,
    **inkling.FAMILIES,
}
KNOWN: Final[Mapping[str, Family | Wrapper]] = {**FAMILIES, **WRAPPERS}


@cache
def _data() -> Mapping[str, Any]:
    text = resources.files("service.architecture.families").joinpath("unmodelled.toml").read_text("utf-8")
    return tomllib.loads(text)


def unmodelled(class_name: str) -> str | None:
    """Return why a class that the engine knows is not read here, or ``None``."""
    return next(
        (str(entry["reason"]) for entry in _data()["unmodelled"] if class_name in entry["classes"]), None
    )
