"""Prediction layers (MTP) that a model's own config describes, by the engine's class for the model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from service.architecture.config import Config, InvalidConfig
from service.architecture.drafts import Joint
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import Draft, DraftSources
from service.architecture.readers.dense import LLAMA
from service.architecture.readers.family import Family, dense, num_layers

Reader: TypeAlias = Callable[[Config, Family], Draft]
"""Reads the draft from the text part of a config whose layers the family reads."""

MODULES: Final = "num_nextn_predict_layers"
MOST_MODULES: Final = 64


def read_own_draft(class_name: str, text: Config, family: Family) -> DraftSources:
    """Read the prediction layers of a config; a config whose layers cannot be read still has none."""
    reader = READERS.get(class_name)
    if reader is None:
        return DraftSources(unread=f"the prediction (MTP) layers of {class_name} are not modelled")
    try:
        return DraftSources(own=reader(text, family))
    except InvalidConfig as error:
        return DraftSources(unread=f"the config names no prediction (MTP) layers: {error}")


def _modules(text: Config, name: str, default: int | None = None) -> int:
    """Return the modules that a config names, at least one."""
    return text.integer(name, default=default, maximum=MOST_MODULES)


def _following(text: Config, family: Family, count: int) -> tuple[DecoderLayer, ...]:
    """Return the layers that the family would build after the model's last one."""
    total = num_layers(text)
    longer = replace(text, fields={**text.fields, "num_hidden_layers": total + count})
    return tuple(map(_selecting_anew, family.layers(longer)[total:]))


def _selecting_anew(layer: DecoderLayer) -> DecoderLayer:
    """Return a layer that has an indexer of its own: vLLM 0.24.0, DeepseekV2MLAAttention is_mtp_layer."""
    mixer = layer.mixer
    if not isinstance(mixer, MultiHeadLatentAttention) or mixer.indexer is None:
        return layer
    return replace(layer, mixer=replace(mixer, indexer=replace(mixer.indexer, reuses_selection=False)))


def _draft(class_name: str, text: Config, layers: tuple[DecoderLayer, ...]) -> Draft:
    hidden = text.integer("hidden_size")
    return Draft(
        class_name=class_name,
        layers=layers,
        hidden_size=hidden,
        vocab_size=text.integer("vocab_size"),
        joints=(Joint("eh_proj", 2 * hidden, quantizable=False),),
    )


def _deepseek(class_name: str) -> Reader:
    """Return a reader of modules with one block, two norms before it and an output after it.

    Source: vLLM 0.32.0, models/deepseek_mtp.py, glm4_moe_mtp.py and glm4_moe_lite_mtp.py.
    """

    def read(text: Config, family: Family) -> Draft:
        count, hidden = _modules(text, MODULES), text.integer("hidden_size")
        return replace(
            _draft(class_name, text, _following(text, family, count)),
            joints=(Joint("eh_proj", 2 * hidden, quantizable=False),) * count,
            first_number=num_layers(text),
            predicts=count,
            modules=count,
            norm_weights=3 * hidden * count,
            heads=count,
        )

    return read


def _mimo(text: Config, family: Family) -> Draft:
    """Source: vLLM 0.32.0, models/mimo_mtp.py."""
    count, hidden = _modules(text, MODULES), text.integer("hidden_size")
    draft = _draft("MiMoMTPModel", text, (family.layers(text)[0],) * count)
    return replace(
        draft,
        joints=(Joint("input_proj", 2 * hidden, quantizable=False),) * count,
        prefix="mtp_layers",
        predicts=count,
        modules=count,
        norm_weights=3 * hidden * count,
    )


def _ernie(text: Config, _: Family) -> Draft:
    """Source: vLLM 0.32.0, models/ernie_mtp.py: a dense Llama layer whatever the model's own are."""
    count, hidden = _modules(text, MODULES), text.integer("hidden_size")
    return replace(
        _draft("ErnieMTPModel", text, LLAMA(text)[:1] * count),
        joints=(Joint("mtp_linear_proj", 2 * hidden, quantizable=False),) * count,
        first_number=num_layers(text),
        predicts=count,
        modules=count,
        norm_weights=2 * hidden * count,
    )


def _qwen(class_name: str, name: str) -> Reader:
    """Return a reader of full attention layers with one projection before them all.

    Source: vLLM 0.32.0, models/qwen3_next_mtp.py and qwen3_5_mtp.py.
    """

    def read(text: Config, family: Family) -> Draft:
        count, hidden = _modules(text, name, default=1), text.integer("hidden_size")
        layers = family.layers(text)
        if count > len(layers):
            raise InvalidConfig(text.at(name), f"is more than the {len(layers)} layers of the model")
        full = next((layer.mixer for layer in layers if isinstance(layer.mixer, Attention)), None)
        if full is None:
            raise InvalidConfig(text.at("layer_types"), "has no full attention")
        built = tuple(DecoderLayer(full, layers[index].feed_forward) for index in range(count))
        return replace(
            _draft(class_name, text, built),
            joints=(Joint("mtp.fc", 2 * hidden, split=True),),
            prefix="mtp.layers",
            predicts=count if name in text else None,
            modules=text.count(MODULES, default=1),
            norm_weights=3 * hidden,
        )

    return read


def _mimo_v2(text: Config, family: Family) -> Draft:
    """Source: vLLM 0.32.0, models/mimo_v2_mtp.py: the first module alone, with sliding attention."""
    hidden = text.integer("hidden_size")
    mixers = (layer.mixer for layer in family.layers(text))
    sliding = next(
        (mixer for mixer in mixers if isinstance(mixer, Attention) and mixer.sliding_window is not None), None
    )
    if sliding is None:
        raise InvalidConfig(text.at("hybrid_layer_pattern"), "has no sliding attention")
    network = DenseFeedForward(text.integer("intermediate_size"))
    return replace(
        _draft("MiMoV2MTPModel", text, (DecoderLayer(sliding, network),)),
        prefix="mtp.layers",
        predicts=1,
        norm_weights=3 * hidden,
        unquantized=("o_proj",),
    )


def _nemotron(text: Config, family: Family) -> Draft:
    """Read blocks by a pattern of their own: vLLM 0.32.0, models/nemotron_h_mtp.py."""
    count, hidden = _modules(text, MODULES), text.integer("hidden_size")
    pattern = text.text("mtp_hybrid_override_pattern") or "".join(
        NEMOTRON_SIGNS.get(kind, "?") for kind in text.texts("mtp_layers_block_type")
    )
    key = "mtp_hybrid_override_pattern"
    if count != 1 or not pattern or set(pattern) - {"*", "E"} or len(pattern) > MOST_MODULES:
        raise InvalidConfig(text.at(key), "has other blocks than * and E, or more than one module")
    blocks = replace(text, fields={**text.fields, "hybrid_override_pattern": pattern})
    return replace(
        _draft("NemotronHMTPModel", text, family.layers(blocks)),
        joints=(Joint("mtp.layers.0.eh_proj", 2 * hidden, split=True),),
        prefix="mtp.layers",
        predicts=count,
        norm_weights=3 * hidden,
    )


def _like(
    class_name: str, alike: Callable[[DecoderLayer], bool], *, modules: str = MODULES, sparse: bool = True
) -> Reader:
    """Return a reader of modules built as the last of the model's own layers of some kind.

    ``sparse``: with the experts of the last one, or else with a plain network.

    Source: vLLM 0.32.0, models/glm5next/common/mtp.py, and models/hy_v4, kimi_k3, dots3_note and minimax_m3,
    each nvidia/mtp.py.
    """

    def read(text: Config, family: Family) -> Draft:
        count, hidden = _modules(text, modules, default=1), text.integer("hidden_size")
        layer = next((layer for layer in reversed(family.layers(text)) if alike(layer)), None)
        if layer is None:
            raise InvalidConfig(text.at("layer_types"), "has no layer as the prediction layers are")
        network = family.layers(text)[-1].feed_forward if sparse else dense(text)
        # None attends to residuals of earlier blocks, as Kimi K3's own layers do.
        built = _selecting_anew(replace(layer, feed_forward=network, norms=2))
        return replace(
            _draft(class_name, text, (built,) * count),
            joints=(Joint("eh_proj", 2 * hidden, quantizable=False),) * count,
            first_number=num_layers(text),
            predicts=count,
            modules=count,
            norm_weights=3 * hidden * count,
            heads=count,
        )

    return read


def _is_mla(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention)


def _selects_tokens(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention) and layer.mixer.indexer is not None


def _slides(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention) and layer.mixer.sliding_window is not None


def _selects_blocks(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, Attention) and layer.mixer.block_indexer is not None


NEMOTRON_SIGNS: Final[Mapping[str, str]] = {"full_attention": "*", "attention": "*", "moe": "E"}

READERS: Final[Mapping[str, Reader]] = {
    "DeepseekV3ForCausalLM": _deepseek("DeepSeekMTPModel"),
    "DeepseekV32ForCausalLM": _deepseek("DeepSeekMTPModel"),
    "GlmMoeDsaForCausalLM": _deepseek("DeepSeekMTPModel"),
    "Glm4MoeForCausalLM": _deepseek("Glm4MoeMTPModel"),
    "Glm4MoeLiteForCausalLM": _deepseek("Glm4MoeLiteMTPModel"),
    "MiMoForCausalLM": _mimo,
    "MiMoV2FlashForCausalLM": _mimo_v2,
    "MiMoV2ForCausalLM": _mimo_v2,
    "Ernie4_5_MoeForCausalLM": _ernie,
    "NemotronHForCausalLM": _nemotron,
    "Glm5NextForConditionalGeneration": _like("Glm5NextMTPModel", _is_mla),
    "HYV4ForCausalLM": _like("HYV4MTPModel", _selects_tokens),
    "KimiK3ForConditionalGeneration": _like("KimiK3MTPModel", _is_mla),
    "Dots3NoteForCausalLM": _like("Dots3NoteMTPModel", _slides, sparse=False),
    "MiniMaxM3SparseForConditionalGeneration": _like(
        "MiniMaxM3MTP", _selects_blocks, modules="num_mtp_modules"
    ),
    "Qwen3NextForCausalLM": _qwen("Qwen3NextMTP", MODULES),
    "Qwen3_5ForCausalLM": _qwen("Qwen3_5MTP", "mtp_num_hidden_layers"),
    "Qwen3_5ForConditionalGeneration": _qwen("Qwen3_5MTP", "mtp_num_hidden_layers"),
    "Qwen3_5MoeForCausalLM": _qwen("Qwen3_5MoeMTP", "mtp_num_hidden_layers"),
    "Qwen3_5MoeForConditionalGeneration": _qwen("Qwen3_5MoeMTP", "mtp_num_hidden_layers"),
}
"""Readers by the architecture class of the model."""
