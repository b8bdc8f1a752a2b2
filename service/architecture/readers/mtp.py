"""Prediction layers (MTP) that a model's own config describes, by the engine's class for the model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from service.architecture.config import Config, InvalidConfig
from service.architecture.drafts import Joint, MarkovHead
from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.hidden_streams import HyperConnections
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import Draft, DraftSources
from service.architecture.readers.attention.dense import LLAMA
from service.architecture.readers.recipes.family import Family, dense, num_layers

Reader: TypeAlias = Callable[[Config, Family], Draft]
"""Reads the draft from the text part of a config whose layers the family reads."""

MODULES: Final = "num_nextn_predict_layers"
MOST_MODULES: Final = 64


def read_own_draft(class_name: str, text: Config, family: Family) -> DraftSources:
    """Read the prediction layers of a config; a config whose layers cannot be read still has none."""
    parallel = _parallel(class_name, text, family)
    reader = READERS.get(class_name)
    if reader is None:
        unread = f"the prediction (MTP) layers of {class_name} are not modelled"
        return DraftSources(unread=unread, parallel=parallel)
    try:
        return DraftSources(own=reader(text, family), parallel=parallel)
    except InvalidConfig as error:
        unread = f"the config names no prediction (MTP) layers: {error}"
        return DraftSources(unread=unread, parallel=parallel)


def _parallel(class_name: str, text: Config, family: Family) -> Draft | None:
    """Read the layers that draft a block of tokens at once; ``None`` where a config names none."""
    reader = PARALLEL_READERS.get(class_name)
    if reader is None or TARGETS not in text:
        return None
    try:
        return reader(text, family)
    except InvalidConfig:
        return None


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


def _window_layer(text: Config, family: Family) -> DecoderLayer:
    """Return the last layer with attention to its window alone.

    Source: vLLM 0.20.2, 0.28.0 and 0.32.0, DeepseekV4Attention: beyond the model's own layers nothing is
    compressed, whatever ``compress_ratios`` says.
    """
    layer = family.layers(text)[-1]
    if not isinstance(layer.mixer, CompressedAttention):
        raise InvalidConfig(text.at("compress_ratios"), "has no compressed attention")
    if isinstance(layer.mixer, SharedCompressedAttention):
        mixer = replace(
            layer.mixer, compress_ratio=0, compresses_tokens=False, selected_tokens=0, indexer=None
        )
        return replace(layer, mixer=mixer, ngrams=None)
    return replace(layer, mixer=replace(layer.mixer, compress_ratio=1, indexer=None))


def _mixed_weights(text: Config, family: Family, layers: int, heads: int) -> int:
    """Return the 32-bit weights that mix the copies of hidden states in layers, and merge them after."""
    mixing = family.hyper_connections(text)
    if not isinstance(mixing, HyperConnections):
        return 0
    inputs = mixing.copies * text.integer("hidden_size")
    mixed = 2 * (mixing.rows * inputs + mixing.rows + mixing.scales)
    return layers * mixed + heads * (mixing.copies * inputs + mixing.copies + 1)


def _deepseek_v4(text: Config, family: Family) -> Draft:
    """Source: vLLM 0.20.2, models/deepseek_v4_mtp.py; 0.28.0 and 0.32.0, deepseek_v4/nvidia/mtp.py."""
    count, hidden = _modules(text, MODULES), text.integer("hidden_size")
    return replace(
        _draft("DeepSeekV4MTPModel", text, (_window_layer(text, family),) * count),
        joints=(Joint("e_proj", hidden), Joint("h_proj", hidden)) * count,
        first_number=num_layers(text),
        predicts=count,
        modules=count,
        norm_weights=3 * hidden * count,
        float32_weights=_mixed_weights(text, family, count, count),
        heads=count,
    )


def _dspark(text: Config, family: Family) -> Draft:
    """Read the layers of a DeepSeek V4 that draft a block of tokens at once.

    Source: vLLM 0.25.1, 0.28.0 and 0.32.0, deepseek_v4/nvidia/dspark.py DSparkDeepseekV4Model: a Markov head
    of two tables, and a head that tells the confidence.
    """
    hidden, vocabulary = text.integer("hidden_size"), text.integer("vocab_size")
    count = _modules(text, "n_mtp_layers", DSPARK_LAYERS)
    markov = MarkovHead(
        rank=text.integer("dspark_markov_rank"),
        rows=vocabulary,
        outputs=text.integer("draft_vocab_size", default=vocabulary),
        tells_confidence=text.boolean("enable_confidence_head", default=True),
        block=text.integer("dspark_block_size") if "dspark_block_size" in text else None,
    )
    return replace(
        _draft("DSparkDraftModel", text, (_window_layer(text, family),) * count),
        joints=(Joint("main_proj", hidden * len(text.counts(TARGETS))),),
        first_number=num_layers(text),
        predicts=_modules(text, MODULES) if MODULES in text else None,
        norm_weights=2 * hidden,
        float32_weights=_mixed_weights(text, family, count, 1),
        markov=markov,
    )


def _dspark_v41(text: Config, family: Family) -> Draft:
    """Read the same layers of a DeepSeek V4.1, which have fewer experts and nothing to merge copies with.

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/nvidia/dspark.py and model.py DeepseekV4MoE.
    """
    count = _modules(text, "n_mtp_layers", _modules(text, MODULES, DSPARK_LAYERS))
    layer = _window_layer(text, family)
    experts = layer.feed_forward
    if isinstance(experts, MixtureOfExperts):
        experts = replace(
            experts,
            num_experts=text.count("dspark_n_routed_experts", default=experts.num_experts),
            experts_per_token=text.count("dspark_num_experts_per_tok", default=experts.experts_per_token),
        )
    draft = _dspark(text, family)
    block = None if draft.markov is None else draft.markov.block
    return replace(
        draft,
        class_name="DSparkV41DraftModel",
        predicts=block or draft.predicts,
        layers=(replace(layer, feed_forward=experts),) * count,
        float32_weights=_mixed_weights(text, family, count, 0),
        markov=None if draft.markov is None else replace(draft.markov, stacks_keys=False),
    )


def _is_mla(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention)


def _selects_tokens(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention) and layer.mixer.indexer is not None


def _slides(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, MultiHeadLatentAttention) and layer.mixer.sliding_window is not None


def _selects_blocks(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, Attention) and layer.mixer.block_indexer is not None


TARGETS: Final = "dspark_target_layer_ids"
DSPARK_LAYERS: Final = 3
"""vLLM 0.25.1 to 0.32.0, DSparkDeepseekV4Model, where ``n_mtp_layers`` does not tell."""
NEMOTRON_SIGNS: Final[Mapping[str, str]] = {"full_attention": "*", "attention": "*", "moe": "E"}

PARALLEL_READERS: Final[Mapping[str, Reader]] = {
    "DeepseekV4ForCausalLM": _dspark,
    "DeepseekV41ForCausalLM": _dspark_v41,
}
"""Readers of layers that draft a block at once, by the architecture class of the model."""
READERS: Final[Mapping[str, Reader]] = {
    "DeepseekV3ForCausalLM": _deepseek("DeepSeekMTPModel"),
    "DeepseekV32ForCausalLM": _deepseek("DeepSeekMTPModel"),
    "DeepseekV4ForCausalLM": _deepseek_v4,
    "GlmMoeDsaForCausalLM": _deepseek("DeepSeekMTPModel"),
    "HYV3ForCausalLM": _deepseek("HYV3MTPModel"),
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
