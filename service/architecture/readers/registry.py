"""Which architecture classes are known, and which are known but not modelled."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from service.architecture.readers import (
    block_sparse,
    compressed_attention,
    dense,
    encoder_decoder,
    expert_variants,
    gated_delta_net,
    group_sparse,
    heterogeneous,
    interleaved_windows,
    kimi_delta,
    learned_positions,
    linear_attention,
    looped,
    mla,
    moe,
    region_sparse,
    short_convolutions,
    sparse_mla,
    state_space,
)
from service.architecture.readers.family import Family, Wrapper
from service.architecture.readers.wrappers import WRAPPERS

FAMILIES: Final[Mapping[str, Family]] = {
    **block_sparse.FAMILIES,
    **compressed_attention.FAMILIES,
    **dense.FAMILIES,
    **encoder_decoder.FAMILIES,
    **expert_variants.FAMILIES,
    **gated_delta_net.FAMILIES,
    **group_sparse.FAMILIES,
    **heterogeneous.FAMILIES,
    **interleaved_windows.FAMILIES,
    **kimi_delta.FAMILIES,
    **learned_positions.FAMILIES,
    **linear_attention.FAMILIES,
    **looped.FAMILIES,
    **mla.FAMILIES,
    **moe.FAMILIES,
    **region_sparse.FAMILIES,
    **short_convolutions.FAMILIES,
    **sparse_mla.FAMILIES,
    **state_space.FAMILIES,
}
KNOWN: Final[Mapping[str, Family | Wrapper]] = {**FAMILIES, **WRAPPERS}


@cache
def _data() -> Mapping[str, Any]:
    text = resources.files("service.architecture.readers").joinpath("unmodelled.toml").read_text("utf-8")
    return tomllib.loads(text)


def unmodelled(class_name: str) -> str | None:
    """Return why a class that the engine knows is not read here, or ``None``."""
    return next(
        (str(entry["reason"]) for entry in _data()["unmodelled"] if class_name in entry["classes"]), None
    )
