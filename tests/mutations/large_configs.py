"""Configs of up to 16 MiB: lists of every module, overrides for each, deep nests, long strings."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from service.architecture.config import MAX_BYTES, MAX_CONTAINERS, MAX_DEPTH, MAX_TEXTS

PARTS: Final = ("gate_proj", "up_proj", "down_proj")
FORMS: Final = (
    "model.layers.{layer}.mlp.experts.{expert}.{part}",
    "model.language_model.layers.{layer}.mlp.experts.{expert}.{part}",
    "model.layers.{layer}.self_attn.{part}*",
    "*layers.{layer}.mlp.experts.{expert}*",
    "*layers.{layer}.mlp*{expert}",
    r"re:.*layers\.{layer}\.mlp\.experts\.{expert}\.{part}",
    r"re:model\.layers\.{layer}\.mlp\.experts\.{expert}.*{part}$",
    "{layer}.{expert}",
)
"""How an entry of a list is written."""
OF_GROUPS: Final = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}

Document = dict[str, Any]


def large(config: Mapping[str, Any], dice: random.Random) -> tuple[Document, str]:
    """Return a config made large, and how."""
    kind = dice.choice(sorted(KINDS))
    return {**config, **KINDS[kind](dice)}, f"large {kind}"


def _names(dice: random.Random, *forms: str) -> list[str]:
    """Return as many entries as fit, of one form or of several in turn."""
    forms = forms or tuple(dice.sample(FORMS, dice.choice((1, 1, 2, 3))))
    experts, names, size = dice.choice((8, 128, 512)), list[str](), 0
    while size < MAX_BYTES and len(names) < MAX_TEXTS:
        index = len(names)
        layer, expert = divmod(index // len(PARTS), experts)
        form = forms[index % len(forms)]
        names.append(form.format(layer=layer, expert=expert, part=PARTS[index % len(PARTS)]))
        size += len(names[-1]) + len('"", ')
    return names


def _section(**fields: object) -> Document:
    return {"quantization_config": fields}


def _overrides(dice: random.Random, names: list[str]) -> Document:
    """Return an object for each of as many names as fit, of one to four kinds."""
    parts = [{"bits": bits, "group_size": 64} for bits in dice.sample((2, 3, 4, 8, 16), dice.randint(1, 4))]
    most = min(len(names), MAX_CONTAINERS - 1000, MAX_BYTES // (len(names[0]) + 35))
    return {name: dict(dice.choice(parts)) for name in names[:most]}


def _listed(method: str, key: str, **fields: object) -> Callable[[random.Random], Document]:
    return lambda dice: _section(quant_method=method, **fields, **{key: _names(dice)})


def _targets(dice: random.Random) -> Document:
    names = _names(dice)
    step = -(-len(names) // dice.randint(1, 16))
    groups = {
        f"group_{begin}": {**OF_GROUPS, "targets": names[begin : begin + step]}
        for begin in range(0, len(names), step)
    }
    return _section(quant_method="compressed-tensors", format="float-quantized", config_groups=groups)


def _mixed(dice: random.Random) -> Document:
    names = _names(dice, FORMS[0])[:150_000]
    layers = {name: {"quant_algo": dice.choice(("FP8", "NVFP4")), "group_size": 16} for name in names}
    return _section(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)


def _dynamic(dice: random.Random) -> Document:
    forms = (
        "+:model.layers.{layer}.{expert}.{part}",
        r"-:.*\.{layer}\.{expert}\.{part}",
        r"-:{layer}\..*{part}",
    )
    overrides = _overrides(dice, _names(dice, *dice.sample(forms, dice.choice((1, 1, 2, 3)))))
    return _section(quant_method="gptq", bits=4, group_size=128, sym=True, desc_act=False, dynamic=overrides)


def _extra(dice: random.Random) -> Document:
    forms = (FORMS[0], r".*layers\.{layer}\.{expert}\.{part}", r"layers\.{layer}\..*{part}")
    extra = _overrides(dice, _names(dice, *dice.sample(forms, dice.choice((1, 1, 2, 3)))))
    return _section(quant_method="auto-round", bits=4, group_size=128, sym=True, extra_config=extra)


def _nest(dice: random.Random) -> Document:
    nest: Any = {}
    for _ in range(dice.choice((MAX_DEPTH - 2, MAX_DEPTH + 1, 300))):
        nest = [nest] if dice.random() < 0.5 else {"a": nest}
    return {dice.choice(("text_config", "quantization_config", "junk")): nest}


def _text(dice: random.Random) -> Document:
    text = dice.choice(("x", "a.", "*")) * (MAX_BYTES // 2)
    key = dice.choice(("model_type", "architectures", "torch_dtype", "junk", "quantization_config"))
    kinds: Mapping[str, Any] = {"architectures": [text], "quantization_config": {"quant_method": text}}
    return {key: kinds.get(key, text)}


def _scalars(dice: random.Random) -> Document:
    key = dice.choice(("layer_types", "eos_token_id", "rope_scaling", "junk"))
    values: Any = ["full_attention"] * 800_000 if key == "layer_types" else [1.5] * 3_000_000
    scaling = {"rope_type": "longrope", "long_factor": values, "short_factor": [1.0]}
    return {key: scaling if key == "rope_scaling" else values}


def _objects(dice: random.Random) -> Document:
    count = dice.choice((MAX_CONTAINERS - 100, MAX_CONTAINERS + 100, 4_000_000))
    return {"junk": [{} for _ in range(count)]}


KINDS: Final[Mapping[str, Callable[[random.Random], Document]]] = {
    "awq": _listed("awq", "modules_to_not_convert", bits=4, group_size=128, zero_point=True),
    "bitsandbytes": _listed("bitsandbytes", "llm_int8_skip_modules", load_in_4bit=True),
    "fp8": _listed("fp8", "modules_to_not_convert", weight_block_size=[128, 128]),
    "modelopt": _listed("modelopt", "ignore", quant_algo="NVFP4", group_size=16),
    "compressed-tensors": _listed(
        "compressed-tensors", "ignore", config_groups={"group_0": {**OF_GROUPS, "targets": ["Linear"]}}
    ),
    "quark": _listed("quark", "exclude", global_quant_config={"weight": {"dtype": "fp8_e4m3"}}),
    "auto-round blocks": _listed("auto-round", "block_name_to_quantize", bits=4, group_size=128),
    "targets": _targets,
    "mixed": _mixed,
    "dynamic": _dynamic,
    "extra_config": _extra,
    "nest": _nest,
    "text": _text,
    "scalars": _scalars,
    "objects": _objects,
}
