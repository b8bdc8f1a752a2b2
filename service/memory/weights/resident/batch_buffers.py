"""Buffers as long as one scheduler step that a model allocates while it is built.

A captured graph reads its inputs at fixed addresses, so the model keeps one buffer for the longest step. It
is allocated while weights load, and counts in "Model loading took".
"""

from collections.abc import Iterable, Iterator
from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.memory.weights.weight_stage import WeightStage
from service.units import round_up

BFLOAT16_BYTES: Final = 2
INDEX_BYTES: Final = 4
ROWS_PER_LOAD: Final = 4
"""Kernels of block-sparse attention load four rows of indices at once."""


def batch_buffers(architecture: ModelArchitecture, stage: WeightStage) -> Iterator[tuple[int, str]]:
    """Yield the bytes of each buffer of a stage that all releases have, and where they come from."""
    yield deep_feature_bytes(architecture, stage), "buffers for features of an encoder's inner layers"
    yield per_layer_bytes(architecture, stage), "the buffer for each layer's own embeddings"
    yield selection_bytes(architecture, stage), "the buffer for the tokens that indexers select"
    yield ngram_bytes(architecture, stage), "the buffers for embeddings of n-grams"


def deep_feature_bytes(architecture: ModelArchitecture, stage: WeightStage) -> int:
    """Return the bytes of the buffers through which encoders feed the decoder's first layers.

    Source: vLLM 0.11.0 and 0.33.0, Qwen3VLForConditionalGeneration: deepstack_input_embeds.
    """
    if not stage.encodes:
        return 0
    features = sum(tower.deep_features for tower in architecture.media.towers)
    return features * stage.batch_tokens * architecture.hidden_size * BFLOAT16_BYTES


def per_layer_bytes(architecture: ModelArchitecture, stage: WeightStage) -> int:
    """Return the bytes of the buffer for each layer's own embeddings; classes for text alone have none.

    Source: vLLM 0.10.2 to 0.33.0, Gemma3nForConditionalGeneration, Gemma4ForConditionalGeneration and
    Gemma4UnifiedForConditionalGeneration: per_layer_embeddings, of all layers on every stage.
    """
    extra = architecture.per_layer_embedding
    if extra is None or not architecture.multimodal:
        return 0
    return stage.batch_tokens * len(architecture.layers) * extra.size * BFLOAT16_BYTES


def selection_bytes(architecture: ModelArchitecture, stage: WeightStage) -> int:
    """Return the bytes of the buffer for what indexers select, which all layers of a stage share.

    A draft has one of its own.

    Source: vLLM 0.11.0 to 0.33.0, DeepseekV2Model, DeepseekV4Model, MiniMaxM3Model and their MTP layers:
    topk_indices_buffer.
    """
    size = _selected(architecture.layers, stage)
    if stage.layers.stop == len(architecture.layers):
        size += _selected(architecture.built_layers[stage.layers.stop :], stage)
    return size


def _selected(layers: Iterable[DecoderLayer], stage: WeightStage) -> int:
    return INDEX_BYTES * max((_selected_by(layer, stage) for layer in layers), default=0)


def _selected_by(layer: DecoderLayer, stage: WeightStage) -> int:
    """Return the number of indices that a layer selects for a step."""
    mixer = layer.mixer
    if isinstance(mixer, SharedCompressedAttention):
        return stage.batch_tokens * (mixer.selected_tokens + mixer.candidate_blocks)
    if isinstance(mixer, MultiHeadLatentAttention | CompressedAttention):
        return stage.batch_tokens * mixer.indexer.top_k if mixer.indexer is not None else 0
    if isinstance(mixer, Attention) and mixer.block_indexer is not None:
        heads = stage.shards.kv_heads(mixer.block_indexer.num_heads)
        return round_up(stage.batch_tokens, ROWS_PER_LOAD) * heads * mixer.block_indexer.top_k
    return 0


def ngram_bytes(architecture: ModelArchitecture, stage: WeightStage) -> int:
    """Return the bytes of the buffers into which embeddings of n-grams come from the host (DeepSeek V4.1).

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/common/engram.py Engram.staged_rows.
    """
    lookups = (layer.ngrams for layer in architecture.layers[stage.layers.start : stage.layers.stop])
    rows = sum(stage.shards.share(lookup.tables) * lookup.width for lookup in lookups if lookup is not None)
    return stage.batch_tokens * rows * BFLOAT16_BYTES
