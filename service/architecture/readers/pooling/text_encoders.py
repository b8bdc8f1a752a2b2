"""Encoders of text, which see a prompt both ways, cache nothing and return vectors or scores: BERT to GTE.

Source: vLLM 0.32.0, bert.py, roberta.py, modernbert.py, bert_with_rope.py and colbert.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.recurrence import ShortConvolution
from service.architecture.pooling import (
    NO_WEIGHTS,
    HeadWeights,
    PoolingHead,
    SequencePooling,
    TokenPooling,
)
from service.architecture.readers.fields.pooling_fields import head_dtype, labels
from service.architecture.readers.recipes.family import Family
from service.architecture.readers.recipes.recipe import LAYER_NORM, Decoder
from service.architecture.readers.recipes.windows import no_layer

ABSOLUTE: Final = "absolute"
BERT: Final = Decoder(
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    gated=False,
    norms=2 * LAYER_NORM,
    windows=no_layer,
    own_keys=True,
    even_heads=True,
)
EVERY_THIRD: Final = 3
"""Layers of ModernBERT from one that sees all tokens to the next (transformers 5.10, ModernBertConfig)."""
LOCAL_TOKENS: Final = 128
"""Tokens that a query of its other layers sees, before and behind."""


def encoding(layers: tuple[DecoderLayer, ...]) -> tuple[DecoderLayer, ...]:
    """Return layers that see a prompt both ways, and cache nothing."""
    return tuple(
        replace(layer, mixer=replace(layer.mixer, encodes=True))
        if isinstance(layer.mixer, Attention | ShortConvolution)
        else layer
        for layer in layers
    )


def _bert(text: Config) -> tuple[DecoderLayer, ...]:
    return encoding(BERT(text))


def _bert_tables(text: Config) -> tuple[int, ...]:
    types = text.integer("type_vocab_size", default=2, minimum=0)
    return tuple(filter(None, (text.integer("max_position_embeddings"), types)))


def _bert_ends(text: Config) -> ModelEnds:
    return ModelEnds(norm_weights=0, embedding_norm_weights=LAYER_NORM, split_tables=_bert_tables(text))


def _rotary(text: Config) -> bool:
    return text.text("position_embedding_type", default=ABSOLUTE) != ABSOLUTE


def _roberta_ends(text: Config) -> ModelEnds:
    if _rotary(text):
        return _rope_ends(text)
    return ModelEnds(norm_weights=0, embedding_norm_weights=LAYER_NORM, roberta_tables=_bert_tables(text))


def _rope_ends(text: Config) -> ModelEnds:
    """Return the ends of an encoder with rotary positions (vLLM 0.32.0, BertWithRopeEmbedding)."""
    types = text.integer("type_vocab_size", default=2, minimum=0)
    return ModelEnds(
        norm_weights=0, embedding_norm_weights=LAYER_NORM, split_tables=(types,) if types else ()
    )


def _gte(text: Config) -> tuple[DecoderLayer, ...]:
    """Read GTE: a gated network of which only the second matrix has a bias (vLLM 0.32.0, GteNewModel)."""
    network = DenseFeedForward(text.integer("intermediate_size"), output_bias=True)
    return tuple(replace(layer, feed_forward=network) for layer in _bert(text))


def _nomic(text: Config) -> tuple[DecoderLayer, ...]:
    """Read NomicBert (vLLM 0.32.0, NomicBertModelConfig).

    Raises:
        InvalidConfig: some layers have experts, which are not modelled.
    """
    if text.integer("moe_every_n_layers", default=0, minimum=0):
        raise InvalidConfig(text.at("moe_every_n_layers"), "is set: NomicBert with experts is not modelled")
    gated = text.text("activation_function") == "swiglu"
    biased = text.boolean("qkv_proj_bias", default=True)
    read = replace(BERT, qkv_bias=biased, output_bias=biased, mlp_bias=biased, gated=gated)
    return encoding(read(text))


def _modern(text: Config) -> tuple[DecoderLayer, ...]:
    """Read ModernBERT, whose first layer has no norm before its attention."""
    bias = text.boolean("attention_bias")
    vectors = _norm_vectors(text)
    read = replace(BERT, qkv_bias=bias, output_bias=bias, mlp_bias=("mlp_bias",), gated=True)
    layers = encoding(replace(read, norms=2 * vectors)(text))
    network = replace(read.dense(text), gates_by_release=True)
    every = text.count("global_attn_every_n_layers", default=EVERY_THIRD)
    window = text.count("local_attention", default=LOCAL_TOKENS) // 2 + 1
    return tuple(
        replace(
            layer,
            mixer=replace(layer.mixer, sliding_window=window if index % every else None),
            feed_forward=network,
            norms=layer.norms if index else vectors,
        )
        if isinstance(layer.mixer, Attention)
        else layer
        for index, layer in enumerate(layers)
    )


def _norm_vectors(text: Config) -> int:
    return LAYER_NORM if text.boolean("norm_bias") else 1


def _modern_ends(text: Config) -> ModelEnds:
    vectors = _norm_vectors(text)
    return ModelEnds(norm_weights=vectors, embedding_norm_weights=vectors)


def _linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    return (inputs + bias) * outputs


def _head(
    text: Config, weights: HeadWeights = NO_WEIGHTS, tokens: TokenPooling = TokenPooling.ALL
) -> PoolingHead:
    return PoolingHead(SequencePooling.CLS, tokens, weights, head_dtype(text))


def _token_head(text: Config) -> PoolingHead:
    """Return a classifier of tokens, whose class leaves the pooling of sequences at its default."""
    weights = HeadWeights(classifier=_linear(text.integer("hidden_size"), labels(text)))
    return PoolingHead(weights=weights, dtype=head_dtype(text), by_token=True)


def _pooled_classifier(text: Config) -> PoolingHead:
    """Return a layer of the hidden size, which BERT calls its pooler, and a classifier."""
    hidden = text.integer("hidden_size")
    return _head(text, HeadWeights(_linear(hidden, labels(text)), pooler=_linear(hidden, hidden)))


def _roberta_classifier(text: Config) -> PoolingHead:
    hidden = text.integer("hidden_size")
    return _head(text, HeadWeights(_linear(hidden, hidden) + _linear(hidden, labels(text))))


def _modern_layer(text: Config) -> int:
    hidden = text.integer("hidden_size")
    return _linear(hidden, hidden, bias=text.boolean("classifier_bias")) + _norm_vectors(text) * hidden


def _modern_classifier(text: Config) -> PoolingHead:
    classifier = _linear(text.integer("hidden_size"), labels(text))
    return _head(text, HeadWeights(classifier, pooler=_modern_layer(text)))


def _modern_token_classifier(text: Config) -> PoolingHead:
    head = _token_head(text)
    return replace(head, weights=replace(head.weights, plain=_modern_layer(text)))


def _masked_words(text: Config) -> PoolingHead:
    """Return the head that predicts words: a layer with a norm, and a matrix for the vocabulary."""
    hidden = text.integer("hidden_size")
    words = _linear(hidden, text.integer("vocab_size"))
    weights = HeadWeights(plain=_linear(hidden, hidden) + LAYER_NORM * hidden + words)
    return PoolingHead(weights=weights, dtype=head_dtype(text), by_token=True)


def _splade(text: Config) -> PoolingHead:
    return _head(text, _masked_words(text).weights)


def _sparse_and_multi_vector(text: Config) -> PoolingHead:
    """Return the heads of BGE M3: a weight for each token, and a vector for each (BgeM3EmbeddingModel)."""
    hidden = text.integer("hidden_size")
    return _head(text, HeadWeights(_linear(hidden, 1) + _linear(hidden, hidden)))


def _colbert(text: Config) -> PoolingHead:
    """Return the head of ColBERT, whose projection of each token is made when the checkpoint is loaded.

    Source: vLLM 0.20.2 to 0.33.0, colbert.py ColBERTModel: a width in the config is used before its base
    class is set up.

    Raises:
        InvalidConfig: the config names the width of that projection, on which the engine fails.
    """
    for name in ("colbert_dim", "dim", "projection_dim"):
        if name in text:
            words = "is set: the engine fails on it (cannot assign module before Module.__init__() call)"
            raise InvalidConfig(text.at(name), words)
    return replace(_head(text), by_token=True)


def _colbert_vectors(text: Config) -> PoolingHead:
    """Return the head of a ColBERT of ModernBERT, whose projection is made with the checkpoint's weights."""
    return replace(_head(text), by_token=True)


def _family(
    layers: Callable[[Config], tuple[DecoderLayer, ...]],
    ends: Callable[[Config], ModelEnds],
    pooling: Callable[[Config], PoolingHead] = _head,
) -> Family:
    return Family(layers, tied=True, ends=ends, supports_pipeline=False, pooling=pooling)


_ROBERTA: Final = _family(_bert, _roberta_ends)
_ROBERTA_CLASSIFIER: Final = _family(_bert, _roberta_ends, _roberta_classifier)
_ROBERTA_TOKENS: Final = _family(_bert, _roberta_ends, _token_head)
_NEW: Final = _family(_gte, _rope_ends)

FAMILIES: Final[Mapping[str, Family]] = {
    "BertModel": _family(_bert, _bert_ends),
    "BertForMaskedLM": _family(_bert, _bert_ends, _masked_words),
    "BertSpladeSparseEmbeddingModel": _family(_bert, _bert_ends, _splade),
    "BertForSequenceClassification": _family(_bert, _bert_ends, _pooled_classifier),
    "BertForTokenClassification": _family(_bert, _bert_ends, _token_head),
    "HF_ColBERT": _family(_bert, _bert_ends, _colbert),
    "ColBERTModernBertModel": _family(_modern, _modern_ends, _colbert_vectors),
    "RobertaModel": _ROBERTA,
    "RobertaForMaskedLM": _ROBERTA,
    "XLMRobertaModel": _ROBERTA,
    "BgeM3EmbeddingModel": _family(_bert, _roberta_ends, _sparse_and_multi_vector),
    "RobertaForSequenceClassification": _ROBERTA_CLASSIFIER,
    "XLMRobertaForSequenceClassification": _ROBERTA_CLASSIFIER,
    "RobertaForTokenClassification": _ROBERTA_TOKENS,
    "XLMRobertaForTokenClassification": _ROBERTA_TOKENS,
    "ModernBertModel": _family(_modern, _modern_ends),
    "ModernBertForSequenceClassification": _family(_modern, _modern_ends, _modern_classifier),
    "ModernBertForTokenClassification": _family(_modern, _modern_ends, _modern_token_classifier),
    "GteModel": _NEW,
    "GteNewModel": _NEW,
    "GteNewForSequenceClassification": _family(_gte, _rope_ends, _pooled_classifier),
    "NomicBertModel": _family(_nomic, _rope_ends),
}
