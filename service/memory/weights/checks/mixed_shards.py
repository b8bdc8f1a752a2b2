"""Fused modules of which a checkpoint's lists take some projections and not others, which releases refuse."""

from collections.abc import Callable
from typing import Final

from service.architecture.quantization import AUTO_ROUND
from service.engines.rules.layouts import LayoutRules
from service.memory.weights.modules import Linear, Module
from service.memory.weights.names.module_names import PREFIXES, module_names
from service.memory.weights.schemes.module_schemes import (
    AWQ_METHODS,
    COMPRESSED_TENSORS,
    NAME_LISTS,
    ModuleSchemes,
)

SKIPPED: Final = (
    "Detected some but not all shards of {layer} are quantized. All shards of fused layers to have the same "
    "precision."
)
INCONSISTENT: Final = "Fused module '{layer}' requires consistent quant config for {shards}"
WHOLE_NAMES: Final = NAME_LISTS - AWQ_METHODS
"""Methods that look for whole names in their lists."""
BY_SCHEME: Final = frozenset({COMPRESSED_TENSORS, "quark"})
"""Methods that look for names and expressions, and speak of schemes."""


def mixed_shards(sizes: ModuleSchemes, module: Module, rules: LayoutRules) -> str | None:
    """Return what a release says of a module of which only some projections are quantized, else ``None``.

    A list that names the fused module itself decides about all of it.

    Source: vLLM 0.10.2 to 0.33.0, utils/quant_utils.py is_layer_skipped; should_ignore_layer of
    compressed_tensors/utils.py and quark/utils.py; 0.14.0 to 0.33.0, get_layer_config of AutoRound's.
    """
    quantization = sizes.quantization
    if quantization is None or not isinstance(module, Linear) or not module.quantizable:
        return None
    words = _words(quantization.method, rules, by_modelopt=quantization.by_modelopt)
    if words is None or not (quantization.ignored or quantization.method in AUTO_ROUND):
        return None
    prefixes, fused, shards = sizes.shards_of(module)
    if len(shards) < 2 or sizes.spelling.leaves(module.name):  # noqa: PLR2004 - one is not fused
        return None
    prefix = "" if prefixes == PREFIXES else prefixes[0]
    if quantization.method in AUTO_ROUND:
        schemes = {sizes.group_scheme(shard, prefixes) for shard in shards}
        mixed = len(schemes) > 1 and not sizes.names_whole(fused, prefixes)
    else:
        listed = _listed(sizes)
        found = [listed(shard, prefixes) for shard in shards]
        by_name = quantization.method in NAME_LISTS or quantization.by_modelopt
        whole = listed(fused, prefixes) and (sizes.layout.fused_names or not by_name)
        mixed = any(found) and not all(found) and not whole
    if not mixed:
        return None
    last = [shard.rpartition(".")[2] for shard in shards]
    names = [prefix + shard for shard in shards]
    return words.format(layer=prefix + fused, shards=names if quantization.method in AUTO_ROUND else last)


def _words(method: str, rules: LayoutRules, *, by_modelopt: bool) -> str | None:
    if method in NAME_LISTS or by_modelopt:
        return SKIPPED
    if method in BY_SCHEME:
        return rules.mixed_shards_refusal
    return INCONSISTENT if method in AUTO_ROUND else None


def _listed(sizes: ModuleSchemes) -> Callable[[str, tuple[str, ...]], bool]:
    quantization = sizes.quantization
    if quantization is not None and (quantization.by_modelopt or quantization.method in WHOLE_NAMES):
        return module_names(quantization.ignored).lists
    return sizes.ignores
