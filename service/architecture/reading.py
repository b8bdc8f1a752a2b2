"""Reads a config.json into a ModelArchitecture, by the reader of its architecture class."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.context_length import read_context_length
from service.architecture.encoders.siglip import TEXT_SECTIONS
from service.architecture.layers.attention import NoAttention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer
from service.architecture.layers.hidden_streams import AlternatingUpdates
from service.architecture.layers.model_ends import PerLayerEmbedding
from service.architecture.model import ModelArchitecture
from service.architecture.pooling import PoolingHead
from service.architecture.quantization import read_quantization, unnamed_quantization
from service.architecture.readers.fields.config_classes import UNKNOWN, ConfigClass, class_of, config_class
from service.architecture.readers.fields.pooling_fields import read_pooling_fields
from service.architecture.readers.mtp import read_own_draft
from service.architecture.readers.pooling.text_encoders import encoding
from service.architecture.readers.recipes.family import Family, Wrapper
from service.architecture.readers.registry import (
    FAMILIES,
    KNOWN,
    attends_both_ways,
    conversion_of,
    decoder_of,
    pools,
    stores_nothing,
    unmodelled,
)
from service.architecture.rotary import read_rotary_tables
from service.architecture.size_faults import size_faults
from service.architecture.text_part import null_fields, own_text, text_part, text_type
from service.architecture.traits import (
    DEFAULT_STATE_CHUNK,
    ClassLimits,
    DeclaredFields,
    MediaInputs,
    StateFields,
)
from service.architecture.written_rotations import written_rotations
from service.architecture.written_shapes import named_layers, uncounted_layers, unfit_heads, uniform_window
from service.nearest_names import cut, nearest, quoted

DTYPES: Final = frozenset({"bfloat16", "float16", "float32"})
STATE_DTYPES: Final = ("auto", "float32", "float", "float16", "half", "bfloat16")
"""Types that a recurrent state may have: vLLM 0.32.0, utils/torch_utils.py STR_DTYPE_TO_TORCH_DTYPE."""
EXPERT_COUNTS: Final = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
POOLING: Final = (
    "is one of a pooling model, which embeds, ranks or classifies and generates no text: its layers are not "
    "modelled"
)
"""Why there is no plan for some models that return vectors or scores."""
NO_CACHE: Final = (
    "; it is an encoder, for which the engine keeps no KV cache: its weights and one batch are all"
)
"""What is said beside it of an encoder."""


class UnknownArchitecture(ValueError):
    """No reader knows this architecture class, so the model is refused.

    Attributes:
        class_name: what the config names.
        nearest: known classes with similar names; none for a class of the engine that is not modelled.
        reason: why a class of the engine is not modelled or not planned, or ``None``.
    """

    def __init__(self, class_name: str) -> None:
        self.class_name = cut(class_name)
        self.reason = unmodelled(class_name)
        self.nearest: tuple[str, ...] = ()
        if self.reason is not None:
            super().__init__(f"the architecture {quoted(class_name)} is not modelled yet: {self.reason}")
            return
        if pools(class_name):
            self.reason = POOLING + (NO_CACHE if stores_nothing(class_name) else "")
            super().__init__(f"the architecture {quoted(class_name)} {self.reason}")
            return
        self.nearest = nearest(class_name, KNOWN, cutoff=0.5)
        hint = f"; the nearest known ones are {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"the architecture {quoted(class_name)} is not known{hint}")


def with_modelopt_file(document: Mapping[str, Any], modelopt: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a config.json with the quantization of ModelOpt's own file, where it names none itself.

    Source: vLLM 0.32.0, transformers_utils/config.py get_config.
    """
    if modelopt is None or document.get("quantization_config") is not None:
        return document
    return {**document, "quantization_config": modelopt}


OF_TEXT: Final = "ForCausalLM"
OF_MEDIA: Final = "ForConditionalGeneration"


def read_architecture(config: Config) -> ModelArchitecture:
    """Read a model's config.json.

    Raises:
        UnknownArchitecture: its architecture class has no reader.
        InvalidConfig: a field is missing, of the wrong type or out of range.
    """
    named, class_name = _classes(config)
    return _read(config, named, class_name, _by_suffix(config, class_name))


def _by_suffix(config: Config, class_name: str) -> ModelArchitecture | None:
    """Return the model as the class for text and media reads it, which runs it where its own is not listed.

    Source: vLLM 0.22.0, models/registry.py _normalize_arch; asked of 0.19.0, 0.22.1 and 0.24.0.
    """
    other = class_name.removesuffix(OF_TEXT) + OF_MEDIA
    if not class_name.endswith(OF_TEXT) or other not in KNOWN or "vision_config" not in config:
        return None
    return _read(config, other, other)


def _read(
    config: Config, named: str, class_name: str, by_suffix: ModelArchitecture | None = None
) -> ModelArchitecture:
    entry = KNOWN[class_name]
    conversion = None if named == class_name else conversion_of(named)
    if isinstance(entry, Wrapper):
        text, family = _wrapped(config, entry)
    else:
        text, family = text_part(config, whole=entry.reads_whole), entry
    layers = _layers(named, class_name, text, family)
    return ModelArchitecture(
        class_name=class_name,
        model_type=config.text("model_type"),
        dtype=_dtype(config, text, pools=family.pools or conversion is not None),
        hidden_size=text.integer("hidden_size"),
        vocab_size=text.integer("vocab_size"),
        layers=layers,
        tie_word_embeddings=_tied(config, text, family),
        context=read_context_length(text),
        quantization=read_quantization(config, text),
        unnamed_quantization=unnamed_quantization(config, text),
        multimodal=family.multimodal,
        media=_media(config, text, family),
        class_limits=ClassLimits(family.supports_pipeline, family.supports_tensor, family.only_backend),
        declared=_declared(config, text, family, class_name),
        states=StateFields(
            dtype=_state_dtype(text),
            chunk=text.optional_integer("mamba_chunk_size", "chunk_size") or DEFAULT_STATE_CHUNK,
            counted=family.counted_state(text),
            declared=family.declares_states,
        ),
        per_layer_embedding=_per_layer_embedding(text),
        alternating_updates=_alternating_updates(text),
        hyper_connections=family.hyper_connections(text),
        frame=family.frame,
        ends=family.ends(text),
        rotary_tables=read_rotary_tables(text, layers),
        weights_checked=family.weights_checked,
        encoder_tokens=None if family.encoder_tokens is None else family.encoder_tokens(text),
        attending_layers=()
        if family.attending_layers is None
        else _sharing_equal_mixers(family.attending_layers(text)),
        attentions_per_layer=family.attentions_per_layer,
        by_suffix=by_suffix,
        drafts=read_own_draft(class_name, text, family),
        named_class="" if named == class_name else named,
        pooling=_pooling_head(config, text, family),
        pooling_fields=read_pooling_fields(
            config,
            text,
            conversion,
            in_float32=_named_dtype(config, text) == "float32",
        ),
    )


def _pooling_head(config: Config, text: Config, family: Family) -> PoolingHead | None:
    if family.token_pooling is not None:
        return family.token_pooling(config, text)
    return None if family.pooling is None else family.pooling(text)


def _layers(named: str, class_name: str, text: Config, family: Family) -> tuple[DecoderLayer, ...]:
    layers = family.layers(text)
    if attends_both_ways(named, class_name, text):
        layers = encoding(layers)
    layers = _sharing_equal_mixers(layers)
    if all(isinstance(layer.mixer, NoAttention) for layer in layers):
        raise InvalidConfig(text.pointer, "no layer of the model mixes tokens")
    return layers


def _sharing_equal_mixers(layers: tuple[DecoderLayer, ...]) -> tuple[DecoderLayer, ...]:
    """Make equal mixers one object, so that a plan computes each type of layer once."""
    seen: dict[Mixer, Mixer] = {}
    return tuple(replace(layer, mixer=seen.setdefault(layer.mixer, layer.mixer)) for layer in layers)


def _classes(config: Config) -> tuple[str, str]:
    """Return the class that a config names, and the one whose layers the engine builds for it."""
    names = config.texts("architectures")
    if not names:
        raise InvalidConfig("/architectures", f"No model architectures are specified{_likely_class(config)}")
    for name in names:
        if name in KNOWN:
            return name, name
        decoder = decoder_of(name)
        if decoder is not None:
            return name, decoder
    raise UnknownArchitecture(names[0])


def _state_dtype(text: Config) -> str | None:
    """Return the type of recurrent states that a config names."""
    for name in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        specified = text.text(name)
        if specified and specified not in STATE_DTYPES:
            raise InvalidConfig(text.at(name), f"is none of {', '.join(STATE_DTYPES)}")
        if specified:
            return specified
    return None


def _likely_class(config: Config) -> str:
    """Return a hint: the known class whose name is the ``model_type`` plus ``ForCausalLM``."""
    stem = config.text("model_type").replace("_", "").replace("-", "").lower()
    likely = [name for name in KNOWN if stem and name.lower() == f"{stem}forcausallm"]
    return f"; {likely[0]} generates text for this model_type" if likely else ""


def _wrapped(config: Config, wrapper: Wrapper) -> tuple[Config, Family]:
    """Return the text part of a multimodal config, and the reader of its class."""
    section: Config | None = config
    is_flat = wrapper.may_be_flat and config.section(wrapper.sections[0]) is None
    sections = () if is_flat else wrapper.sections
    for name in sections:
        section = section.section(name) if section is not None else None
    if section is None:
        raise InvalidConfig(config.at(wrapper.sections[0]), "is missing")
    if not sections:
        section = next((part for name in TEXT_SECTIONS if (part := config.section(name))), config)
    class_ = _wrapped_class(config, section, wrapper)
    outermost = section is config
    own = own_text(config, class_of(config)) if outermost else section
    return class_.view(own), _inner(own, class_, wrapper, outermost=outermost)


def _wrapped_class(config: Config, section: Config, wrapper: Wrapper) -> ConfigClass:
    if section.plain:
        return UNKNOWN
    own = section.text("model_type") if section is not config else ""
    outer = class_of(config)
    return config_class(own or outer.text or wrapper.model_type or config.text("model_type"))


def _inner(section: Config, class_: ConfigClass, wrapper: Wrapper, *, outermost: bool) -> Family:
    named = () if outermost else section.texts("architectures")
    specified = wrapper.inner_of(section) if wrapper.inner_of is not None else wrapper.inner
    candidates = (specified,) if specified is not None else (*named, class_.architecture)
    inner = next((name for name in candidates if name in FAMILIES), None)
    if inner is None and any(isinstance(KNOWN.get(name), Wrapper) for name in named):
        raise InvalidConfig(section.at("architectures"), "names a class of text and media for the text part")
    if inner is None:
        raise UnknownArchitecture(next((name for name in candidates if name), section.text("model_type")))
    return replace(
        FAMILIES[inner],
        class_name=inner,
        multimodal=True,
        bidirectional_media=wrapper.bidirectional_media,
        largest_media_item=wrapper.largest_media_item,
        splits_media_heads=wrapper.splits_media_heads,
        supports_pipeline=wrapper.supports_pipeline and FAMILIES[inner].supports_pipeline,
        towers=wrapper.towers,
        declares_states=wrapper.declares_states,
        token_pooling=wrapper.token_pooling,
        lacks=wrapper.lacks or FAMILIES[inner].lacks,
    )


def _experts_declared(text: Config) -> bool:
    """Return whether the config declares experts, by the first present field or by a block.

    Source: vLLM 0.33.0, ModelArchConfigConvertorBase.get_num_experts.
    """
    name = next((name for name in EXPERT_COUNTS if name in text), None)
    specified = 0 if name is None else text.fields[name]
    if isinstance(specified, list):
        specified = next(iter(specified), 0)
    if isinstance(specified, int) and specified > 0:
        return True
    blocks = text.fields.get("block_configs")
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and block.get("block_type") == "moe" for block in blocks
    )


def _per_layer_embedding(text: Config) -> PerLayerEmbedding | None:
    size = text.integer("hidden_size_per_layer_input", default=0, minimum=0)
    if not size:
        return None
    rows = text.integer("vocab_size_per_layer_input", default=text.integer("vocab_size"))
    return PerLayerEmbedding(rows, size)


def _alternating_updates(text: Config) -> AlternatingUpdates | None:
    if "altup_num_inputs" not in text:
        return None
    return AlternatingUpdates(text.count("altup_num_inputs"), text.integer("laurel_rank", default=64))


def _media(config: Config, text: Config, family: Family) -> MediaInputs:
    towers = None if family.towers is None else family.towers(class_of(config).with_vision(config))
    return MediaInputs(
        towers=towers or (),
        towers_known=not family.multimodal or towers is not None,
        bidirectional=family.bidirectional_media(text),
        largest_item=family.largest_media_item,
        heads=_media_heads(config) if family.splits_media_heads else None,
        width=_media_width(config) if family.splits_media_heads else None,
    )


def _declared(config: Config, text: Config, family: Family, class_name: str) -> DeclaredFields:
    return DeclaredFields(
        text_class=bool(text.texts("architectures")),
        experts=_experts_declared(text),
        tying="tie_word_embeddings" in config or "tie_word_embeddings" in text,
        vision=config.section("vision_config") is not None,
        thinker=config.section("thinker_config") is not None,
        untied=not text.boolean("tie_word_embeddings", default=True),
        text_tied=_tied(text, text, family),
        attention_layers=family.attention_layers_specified,
        head_size=text.optional_integer("head_dim", minimum=0) or None,
        num_layers=text.optional_integer("num_hidden_layers", maximum=MAX_LAYERS),
        absent=family.lacks(config, text),
        null=tuple(name for name in family.multiplies if name not in text),
        null_fields=null_fields(config, text),
        rotations=written_rotations(config, text),
        unfit_heads=unfit_heads(config, text),
        uncounted_layers=uncounted_layers(config, text),
        size_faults=size_faults(config, text),
        named_layers=named_layers(config, text),
        uniform_window=uniform_window(text),
        text_type=text_type(config, text),
        without_key_heads="num_key_value_heads" not in text,
        text_model=family.class_name or class_name,
        hidden_act=text.text("hidden_act") or None,
        hidden_activation=text.text("hidden_activation") or None,
    )


def _media_heads(config: Config) -> int | None:
    encoder = _vision(config) or config.section("audio_config")
    return None if encoder is None else encoder.optional_integer("num_heads", "num_attention_heads")


def _media_width(config: Config) -> int | None:
    vision = _vision(config)
    return None if vision is None else vision.optional_integer("intermediate_size")


def _vision(config: Config) -> Config | None:
    """Return the part on images: Qwen's Omni models have it in their thinker, Bagel calls it otherwise."""
    within = config.section("thinker_config") or config
    return within.section("vision_config") or within.section("vit_config")


def _dtype(config: Config, text: Config, *, pools: bool) -> str:
    """Return the dtype of the weights; float32, also where the config names none, becomes a type of 16 bits.

    Source: vLLM 0.32.0, ModelArchConfigConvertorBase.get_torch_dtype and _resolve_auto_dtype.
    """
    named = _named_dtype(config, text)
    if named != "float32":
        return named
    return "float16" if pools else "bfloat16"


def _named_dtype(config: Config, text: Config) -> str:
    named = config.text("dtype", "torch_dtype") or text.text("dtype", "torch_dtype")
    named = named.removeprefix("torch.") or "float32"
    if named not in DTYPES:
        raise InvalidConfig("/dtype", f"{quoted(named)} is not one of {', '.join(sorted(DTYPES))}")
    return named


def _tied(config: Config, text: Config, family: Family) -> bool:
    if family.tied is not None:
        return family.tied
    inner = text.boolean("tie_word_embeddings", default=family.tied_by_default)
    return config.boolean("tie_word_embeddings", default=inner)
