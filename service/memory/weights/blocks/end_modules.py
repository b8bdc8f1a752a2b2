"""Modules outside a decoder's layers: embeddings, the last norm, and the output layer or a pooling head."""

from collections.abc import Iterator
from typing import Final

from service.architecture.layers.hidden_streams import GatedResiduals
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ENDS_ONLY
from service.architecture.model import ModelArchitecture
from service.architecture.pooling import PoolingHead
from service.memory.parallelism import ELEMENT_BYTES
from service.memory.shards import Shards
from service.memory.weights.modules import (
    Linear,
    Modules,
    OutputEmbedding,
    PlainModule,
)
from service.memory.weights.schemes.quantized import FLOAT32, HALF
from service.memory.weights.weight_layout import StageLayout

ALIASES: Final = {"half": "float16", "float": "float32"}


def end_modules(
    architecture: ModelArchitecture, shards: Shards, layout: StageLayout, *, first: bool, last: bool
) -> Modules:
    """Yield what a pipeline stage with the first layer or the last one has before and after its layers.

    Encoders are apart.
    """
    hidden = architecture.hidden_size
    rows = (
        architecture.vocab_size
        if architecture.ends.whole_embedding
        else shards.vocabulary(architecture.vocab_size)
    )
    tied = _is_tied(architecture, layout)
    frame = ENDS_ONLY if architecture.class_name in layout.transformers_classes else architecture.frame
    ends = architecture.ends
    width = ends.embedding_size or hidden
    if first or (last and tied) or frame.embedding:
        yield PlainModule(rows * width)
    if first or frame.embedding:
        yield PlainModule((ends.embedding_norm_weights + ends.position_rows) * hidden)
        yield PlainModule(sum(_table_rows(ends, shards, layout)) * hidden)
        yield PlainModule(width * hidden if ends.embedding_size else 0)
    if ends.self_conditioning is not None:
        yield PlainModule((3 * ends.self_conditioning + 1) * hidden)
    if first and ends.ngrams is not None:
        grams = ends.ngrams
        yield PlainModule((shards.vocabulary(grams.rows) + grams.tables * hidden) * grams.width)
    if last or frame.norm:
        yield PlainModule(ends.norm_weights * hidden)
        yield PlainModule(width * hidden if ends.embedding_size else 0)
    yield from _merging(architecture, last=last)
    yield from _output(architecture, shards, layout, last=last, everywhere=frame.output)
    updates = architecture.alternating_updates
    if updates is not None:
        for place in ("altup_projections", "altup_unembed_projections"):
            for index in range(updates.num_inputs - 1):
                yield Linear(f"{place}.{index}", hidden, (shards.share(hidden),), router=True)
    extra = architecture.per_layer_embedding
    if extra is not None:
        all_layers = extra.size * len(architecture.layers)
        yield PlainModule(shards.vocabulary(extra.vocab_size) * all_layers + extra.size)
        outputs = (shards.share(all_layers),)
        yield Linear("per_layer_model_projection", hidden, outputs, splits_outputs=shards.splits)


def _is_tied(architecture: ModelArchitecture, layout: StageLayout) -> bool:
    """Whether the output shares the embedding: as the config says, or else by the release's default."""
    return architecture.tie_word_embeddings or (
        not architecture.declared.tying and architecture.class_name in layout.tied_when_unset
    )


def _output(
    architecture: ModelArchitecture, shards: Shards, layout: StageLayout, *, last: bool, everywhere: bool
) -> Modules:
    """Yield the output layer, or what a pooling model has in place of it, which every stage builds.

    Source: vLLM 0.20.2 and 0.33.0, qwen2_rm.py and adapters.py: no test of the stage; asked of both.
    """
    if architecture.pooling is not None:
        yield from _head(architecture.pooling, shards, layout)
    pools = architecture.pooling is not None and not architecture.pooling.keeps_output
    if pools or not (last or everywhere):
        return
    ends = architecture.ends
    width, size = ends.embedding_size or architecture.hidden_size, architecture.vocab_size
    outputs = shards.vocabulary(size)
    if ends.output_bias:
        yield PlainModule(size if ends.whole_embedding else outputs)
    name = architecture.class_name
    plain = ends.output_float32 or name in layout.plain_outputs
    if _is_tied(architecture, layout):
        if _stays_quantized(architecture, layout) and not plain and name not in layout.embedding_as_output:
            yield OutputEmbedding(outputs, width, tied=True)
        return
    if plain:
        yield PlainModule(outputs * width, FLOAT32 if ends.output_float32 else None)
    else:
        yield OutputEmbedding(outputs, width)


def _stays_quantized(architecture: ModelArchitecture, layout: StageLayout) -> bool:
    quantization = architecture.quantization
    return layout.quantized_tied_outputs and quantization is not None and quantization.output


def _table_rows(ends: ModelEnds, shards: Shards, layout: StageLayout) -> Iterator[int]:
    """Yield the rows of the tables that are padded and split as a vocabulary is, or were whole before."""
    yield from map(shards.vocabulary, ends.split_tables)
    yield from (
        map(shards.vocabulary, ends.roberta_tables) if layout.split_roberta_tables else ends.roberta_tables
    )


def _head(head: PoolingHead, shards: Shards, layout: StageLayout) -> Modules:
    """Yield what a pooling model has in place of the output layer."""
    named = ALIASES.get(head.dtype or "", head.dtype)
    size = FLOAT32 if named is None else ELEMENT_BYTES.get(named)
    weights = head.weights
    yield PlainModule(weights.classifier + shards.share(weights.split), size)
    yield PlainModule(weights.pooler, size if layout.pooler_in_head_dtype else None)
    yield PlainModule(weights.plain)


def _merging(architecture: ModelArchitecture, *, last: bool) -> Modules:
    """Yield the weights that merge the copies of the hidden state after the last layer.

    Source: vLLM 0.32.0, DeepseekV4Model, HYV4HCHeadLayer and Qwen4ExpModel.
    """
    mixing = architecture.hyper_connections
    if isinstance(mixing, GatedResiduals):
        inputs = mixing.copies * architecture.hidden_size
        yield PlainModule(inputs * (1 + 2 * mixing.rank) if last else 0, HALF)
    elif mixing is not None and not mixing.summed and (last or mixing.merged_everywhere):
        copies = mixing.copies
        yield PlainModule(copies * copies * architecture.hidden_size + copies + 1, FLOAT32)
