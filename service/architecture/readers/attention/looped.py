"""Decoders that run their layers more than once, each pass with a cache of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.layers.attention import NoAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import NoFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import Family, dense, layer_types, num_layers
from service.architecture.readers.recipes.recipe import Decoder
from service.architecture.readers.recipes.windows import every_layer, model_window

FULL, SLIDING = "full_attention", "sliding_attention"
DORY_FULL: Final = 6
"""Dory without ``layer_types``: the layer of each eight that has full attention."""
MAX_PASSES: Final = 64
"""Upper limit of passes, which each cost time to plan; published models have two to four."""


def _passes(text: Config, name: str, default: int | None = None) -> int:
    return text.integer(name, default=default, maximum=MAX_PASSES)


def _again(layers: tuple[DecoderLayer, ...]) -> tuple[DecoderLayer, ...]:
    return tuple(replace(layer, repeats=True) for layer in layers)


def _ouro(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Ouro: all layers run several times, each pass with its own caches.

    Source: vLLM 0.26.0, ouro.OuroAttention: after the last layer comes the second pass of the first one.
    """
    once = Decoder(norms=4, windows=every_layer)(_split_evenly(text))
    return once + _again(once) * (_passes(text, "total_ut_steps", 4) - 1)


def _loop_coder(text: Config) -> tuple[DecoderLayer, ...]:
    """Read LoopCoder: from the second pass on, layers also attend to a sliding window of the new pass.

    Source: vLLM 0.32.0, iquest_loopcoder.LoopCoderAttention and LoopGateProjection.
    """
    mixer = replace(Decoder().attention(_split_evenly(text)), sliding_window=model_window(text))
    once = (
        DecoderLayer(replace(mixer, weights=replace(mixer.weights, pass_gate=True)), dense(text)),
    ) * num_layers(text)
    window = text.integer("loop_window_size", default=64)
    again = (DecoderLayer(replace(mixer, sliding_window=window), dense(text), repeats=True),) * len(once)
    return once + again * (_passes(text, "loop_num", 2) - 1)


def _split_evenly(text: Config) -> Config:
    """Return the config without ``head_dim``: these classes always divide the hidden size by the heads."""
    return replace(text, fields={**text.fields, "head_dim": None})


def _hrm(text: Config) -> tuple[DecoderLayer, ...]:
    """Read HRM-Text: two stacks, of which the low one runs several times before the high one.

    Source: vLLM 0.32.0, hrm_text.HrmTextModel and HrmTextAttention; transformers 5.10, HrmTextConfig.
    """
    depth = text.layers("num_layers_per_stack", "num_hidden_layers")
    mixer = replace(
        Decoder(
            own_keys=True,
            output_gate=True,
            qkv_bias=("attention_bias",),
            output_bias=("attention_bias",),
        ).attention(text)
    )
    stack = (DecoderLayer(mixer, dense(text, bias=text.boolean("mlp_bias")), norms=0),) * depth
    cycle = stack + _again(stack) * (_passes(text, "L_cycles", 3) - 1) + stack
    layers = cycle + _again(cycle) * (_passes(text, "H_cycles", 2) - 1)
    if len(layers) > MAX_LAYERS:
        raise InvalidConfig(text.at("H_cycles"), f"leads to more than {MAX_LAYERS} caches")
    return layers


def _dory(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Dory: each layer has attention or a network, and the middle layers run several times.

    Source: vLLM 0.33.0, dory.DoryAttention and transformers_utils/configs/dory.py.
    """
    count = num_layers(text)
    types = layer_types(text) or tuple(
        "mlp" if index % 2 else FULL if index % 8 == DORY_FULL else SLIDING for index in range(count)
    )
    window = text.integer("sliding_window", default=1024)
    mixer = Decoder(output_gate=True).attention(text)
    once = tuple(
        DecoderLayer(NoAttention(), dense(text), norms=1)
        if kind == "mlp"
        else DecoderLayer(
            replace(mixer, sliding_window=window if kind == SLIDING else None), NoFeedForward(), norms=1
        )
        for kind in types[:count]
    )
    first, last = (text.count(f"n_{name}_layers", default=0, minimum=0) for name in ("input", "output"))
    loops = _passes(text, "n_recurrent_loops", 1)
    if text.text("recurrent_kv_cache_mode", default="per_loop") != "per_loop":
        loops = 1
    outside = (DecoderLayer(NoAttention(), NoFeedForward(), norms=0),)
    again = outside * min(first, count) + once[first : max(first, count - last)]
    return once + _again((*again, *outside * (count - len(again)))) * (loops - 1)


FAMILIES: Final[Mapping[str, Family]] = {
    "DoryForCausalLM": Family(
        _dory,
        tied=False,
        supports_pipeline=False,
        supports_tensor=False,
        ends=lambda _: ModelEnds(norm_weights=0),
    ),
    "HrmTextForCausalLM": Family(
        _hrm, supports_pipeline=False, ends=lambda _: ModelEnds(), frame=ALL_EVERYWHERE
    ),
    "IQuestLoopCoderForCausalLM": Family(_loop_coder, supports_pipeline=False, frame=ALL_EVERYWHERE),
    "OuroForCausalLM": Family(
        _ouro,
        supports_pipeline=False,
        # The exit gate has one output and a bias, which is counted as one vector more.
        ends=lambda _: ModelEnds(norm_weights=2),
        frame=ALL_EVERYWHERE,
    ),
}
