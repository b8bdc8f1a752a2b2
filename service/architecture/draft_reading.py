"""Reads the config.json of a separate draft model, for every method that could use it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.drafts import DraftEmbedding, Joint
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.model import Draft, DraftCheckpoint, ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture

LLAMA: Final = "LlamaForCausalLM"
EAGLE_HEADS: Final[Mapping[str, str]] = {
    LLAMA: "EagleLlamaForCausalLM",
    "EagleLlamaForCausalLM": "EagleLlamaForCausalLM",
}
"""EAGLE heads of Llama layers, with the engine's class (vLLM 0.32.0, EAGLEConfig)."""
EAGLE3_HEADS: Final[Mapping[str, str]] = {
    LLAMA: "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3": "LlamaForCausalLMEagle3",
    "Eagle3LlamaForCausalLM": "Eagle3LlamaForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM": "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM": "Eagle3Qwen3vlForCausalLM",
    "Eagle3MiniMaxM2ForCausalLM": "Eagle3MiniMaxM2ForCausalLM",
}
"""EAGLE 3 heads of Llama layers (vLLM 0.32.0, models/registry.py)."""
AUXILIARY_STATES: Final = 3
"""Hidden states that an EAGLE 3 head joins, where its config does not say."""
SPECULATORS: Final = "speculators_model_type"


def read_draft_checkpoint(draft_id: str, config: Config) -> DraftCheckpoint:
    """Read the config of a draft for every method that could use it.

    Raises:
        InvalidConfig: it names no architecture, or is that of no draft.
    """
    config = _plain(config)
    class_name = next(iter(config.texts("architectures")), "")
    if not class_name:
        raise InvalidConfig(config.at("architectures"), "No model architectures are specified")
    model_type = config.text("model_type")
    try:
        if class_name in EAGLE_HEADS or class_name in EAGLE3_HEADS:
            return _llama_head(draft_id, model_type, class_name, config)
        return DraftCheckpoint(
            draft_id,
            model_type,
            whole=read_architecture(config),
            unread=f"drafts of class {class_name} are modelled as whole models alone",
        )
    except UnknownArchitecture as error:
        return DraftCheckpoint(draft_id, model_type, unread=str(error))


def _plain(config: Config) -> Config:
    """Return a config in the speculators format as the engine reads it: vLLM 0.32.0, SpeculatorsConfig."""
    if SPECULATORS not in config:
        return config
    kind = config.text(SPECULATORS)
    section = config.section("transformer_layer_config")
    if kind != "eagle3" or section is None or section.text("model_type", default="llama") != "llama":
        raise InvalidConfig(config.at(SPECULATORS), f"speculators of type {kind!r} are not modelled")
    specified = ("draft_vocab_size", "target_hidden_size", "norm_before_fc", "fc_norm")
    added: dict[str, Any] = {name: config.fields[name] for name in specified if name in config}
    return Config({**section.fields, **added, "architectures": ["Eagle3LlamaForCausalLM"]}, section.pointer)


def _llama_head(draft_id: str, model_type: str, class_name: str, config: Config) -> DraftCheckpoint:
    llama = replace(config, fields={**config.fields, "architectures": [LLAMA]})
    model = read_architecture(llama)
    eagle, eagle3 = EAGLE_HEADS.get(class_name), EAGLE3_HEADS.get(class_name)
    return DraftCheckpoint(
        draft_id,
        model_type,
        whole=model if class_name == LLAMA else None,
        eagle=None if eagle is None else _eagle(eagle, model),
        eagle3=None if eagle3 is None else _eagle3(eagle3, model, config),
        unread=f"drafts of class {class_name} are modelled as EAGLE heads alone",
    )


def _head(class_name: str, model: ModelArchitecture) -> Draft:
    return Draft(
        class_name=class_name,
        layers=model.layers,
        hidden_size=model.hidden_size,
        vocab_size=model.vocab_size,
        embedding=DraftEmbedding.AS_STORED,
        stored_as_model=False,
        quantization=model.quantization,
        rotary_tables=model.rotary_tables,
        context=model.context,
    )


def _eagle(class_name: str, model: ModelArchitecture) -> Draft:
    """Source: vLLM 0.32.0, models/llama_eagle.py: the first layer has no norm before it."""
    first, *others = model.layers
    return replace(
        _head(class_name, model),
        layers=(replace(first, norms=1), *others),
        joints=(Joint("fc", 2 * model.hidden_size),),
    )


def _eagle3(class_name: str, model: ModelArchitecture, config: Config) -> Draft:
    """Source: vLLM 0.32.0, models/llama_eagle3.py."""
    hidden = model.hidden_size
    joined = config.section("eagle_config") or Config({})
    layer_ids = joined.counts("eagle_aux_hidden_state_layer_ids")
    states = config.count("num_aux_hidden_states", default=len(layer_ids) or AUXILIARY_STATES)
    inputs = states * config.integer("target_hidden_size", default=hidden)
    used = joined.boolean("use_aux_hidden_state", default=True)
    before = joined.boolean("norm_before_fc", default=config.boolean("norm_before_fc"))
    rows = config.integer("draft_vocab_size", default=model.vocab_size)
    norms = hidden + (inputs * (before + config.boolean("fc_norm")) if used else 0)
    return replace(
        _head(class_name, model),
        layers=tuple(_with_hidden_norm(layer) for layer in model.layers),
        joints=(Joint("fc", inputs),) if used else (),
        norm_weights=norms,
        output_rows=rows,
        mapped_rows=rows if rows != model.vocab_size else 0,
        widened=True,
    )


def _with_hidden_norm(layer: DecoderLayer) -> DecoderLayer:
    return replace(layer, norms=layer.norms + 1)
