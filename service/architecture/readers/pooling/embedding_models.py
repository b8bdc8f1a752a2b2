"""Decoders that return vectors or scores under classes of their own, most of which attend both ways.

Source: vLLM 0.33.0, llama.py, voyage.py, jina.py, lfm2.py, jamba.py, openai_privacy_filter.py and config.py,
which sets ``is_causal`` to false for the classes that attend both ways.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.pooling import HeadWeights, PoolingHead, SequencePooling
from service.architecture.readers.attention import dense, interleaved_windows
from service.architecture.readers.fields.pooling_fields import head_dtype, labels
from service.architecture.readers.pooling.text_encoders import encoding
from service.architecture.readers.recipes.family import Family
from service.architecture.readers.recurrent import short_convolutions, state_space

JINA_VECTOR: Final = 512
"""vLLM 0.20.2 and 0.33.0, jina.py JinaForRanking: width of the vectors that are compared."""


def _both_ways(family: Family, pooling: Callable[[Config], PoolingHead]) -> Family:
    def read(text: Config) -> tuple[DecoderLayer, ...]:
        return encoding(family.layers(text))

    return replace(family, layers=read, pooling=pooling)


def _vector(text: Config) -> PoolingHead:
    sequence = SequencePooling.MEAN if text.text("pooling", default="avg") == "avg" else SequencePooling.LAST
    return PoolingHead(sequence=sequence, dtype=head_dtype(text))


def _scores(text: Config) -> PoolingHead:
    """Return a classifier without biases, whose type is the head's."""
    weights = HeadWeights(classifier=text.integer("hidden_size") * labels(text))
    return replace(_vector(text), weights=weights)


def _voyage(text: Config) -> PoolingHead:
    """Return a projection in the model's type (VoyageQwen3BidirectionalEmbedModel)."""
    outputs = text.integer("num_labels", default=text.integer("hidden_size"))
    weights = HeadWeights(plain=text.integer("hidden_size") * outputs)
    return PoolingHead(SequencePooling.MEAN, weights=weights, dtype=head_dtype(text))


def _jina_ranking(text: Config) -> PoolingHead:
    weights = HeadWeights(plain=(text.integer("hidden_size") + JINA_VECTOR) * JINA_VECTOR)
    return PoolingHead(weights=weights, dtype=head_dtype(text), by_token=True)


def _jina_v5(text: Config) -> tuple[DecoderLayer, ...]:
    """Read jina-embeddings-v5: a decoder of Qwen3, or an encoder of Llama (JinaEmbeddingsV5Model.__new__)."""
    if text.boolean("is_decoder", default=True):
        return _QWEN3.layers(text)
    return encoding(_LLAMA.layers(text))


def _last(text: Config) -> PoolingHead:
    return PoolingHead(dtype=head_dtype(text))


def _privacy_filter(text: Config) -> PoolingHead:
    """Return a classifier with biases for each token (OpenAIPrivacyFilterForTokenClassification)."""
    weights = HeadWeights(classifier=(text.integer("hidden_size") + 1) * labels(text))
    return PoolingHead(weights=weights, dtype=head_dtype(text), by_token=True)


def _jamba(text: Config) -> PoolingHead:
    """Return a classifier beside the output layer, which the class keeps (JambaForSequenceClassification)."""
    bias = text.boolean("score_bias")
    weights = HeadWeights(classifier=(text.integer("hidden_size") + bias) * labels(text))
    return PoolingHead(weights=weights, dtype=head_dtype(text), keeps_output=True)


_LLAMA: Final = dense.FAMILIES["LlamaForCausalLM"]
_QWEN3: Final = dense.FAMILIES["Qwen3ForCausalLM"]

FAMILIES: Final[Mapping[str, Family]] = {
    "LlamaBidirectionalModel": _both_ways(_LLAMA, _vector),
    "LlamaBidirectionalForSequenceClassification": _both_ways(_LLAMA, _scores),
    "VoyageQwen3BidirectionalEmbedModel": _both_ways(_QWEN3, _voyage),
    "JinaForRanking": replace(_QWEN3, pooling=_jina_ranking, supports_pipeline=False),
    "JinaEmbeddingsV5Model": replace(_QWEN3, layers=_jina_v5, pooling=_last),
    "JambaForSequenceClassification": replace(state_space.FAMILIES["JambaForCausalLM"], pooling=_jamba),
    "OpenAIPrivacyFilterForTokenClassification": replace(
        _both_ways(interleaved_windows.FAMILIES["GptOssForCausalLM"], _privacy_filter),
        supports_pipeline=False,
    ),
    "Lfm2BidirectionalModel": replace(
        _both_ways(short_convolutions.FAMILIES["Lfm2ForCausalLM"], _vector), supports_pipeline=False
    ),
}
