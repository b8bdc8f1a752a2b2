"""What layers with compressed attention hold in the profile run (DeepSeek V4 and V4.1).

Their model is not compiled, so that a layer's caller holds the streams it passed until the layer returns. In
the profile run a layer computes its projections and leaves the attention out; what it gathers keys in comes
from one pool, whose largest taker decides its size, and which then stays.

Source: vLLM 0.22.1 to 0.33.0, models/deepseek_v4/attention.py, nvidia/model.py and nvidia/flashmla.py
(forward_mqa without metadata), v1/worker/workspace.py WorkspaceManager.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.model import ModelArchitecture
from service.memory.profile_run import ProfileRun
from service.memory.weights.schemes.quantized import FLOAT32
from service.units import MIB, ceil_div

CHUNK: Final = 4
"""Number of prompts whose keys are gathered at once (PREFILL_CHUNK_SIZE)."""
KERNEL_HEADS: Final = (64, 128)
"""Query heads that the kernels of attention take; fewer are padded (get_padded_num_q_heads)."""
SCORES: Final = 512 * MIB
"""Room for an indexer's scores that is taken for a moment (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB)."""


@dataclass(frozen=True, slots=True)
class CompressedRun:
    """How a release runs such layers without metadata."""

    held: int
    """Copies of all hidden streams that are there while a layer attends."""
    pads_queries: bool
    """Queries are copied into as many heads as the kernel takes."""
    selects_after_queries: bool
    """Indexers select tokens once the queries are there, not before."""


def compressed_mixers(architecture: ModelArchitecture) -> tuple[CompressedAttention, ...]:
    """Return the layers' compressed attention, equal ones once."""
    mixers = (layer.mixer for layer in architecture.distinct_layers)
    return tuple(mixer for mixer in mixers if isinstance(mixer, CompressedAttention))


def compressed_peak(architecture: ModelArchitecture, constants: CompressedRun, run: ProfileRun) -> int:
    """Return the bytes of the tensors of the layer with most of them, without the pool.

    Either the queries are there and their padded copy, or an indexer's queries and its scores.
    """
    peaks = [0]
    for mixer in compressed_mixers(architecture):
        common = _common(mixer, architecture, constants, run)
        heads, size = run.shards.share(mixer.num_heads), mixer.head_size
        whole = kernel_heads(heads)
        padded = whole * size if constants.pads_queries and whole > heads else 0
        peaks.append(run.tokens * run.element_bytes * (common + heads * size + padded))
        indexer = mixer.indexer
        if indexer is None:
            continue
        there = (padded or heads * size) if constants.selects_after_queries else 0
        row = run.element_bytes * (common + there) + indexer.num_heads * indexer.head_dim
        peaks.append(run.tokens * row + SCORES)
    return max(peaks)


def kernel_heads(heads: int) -> int:
    """Return the query heads that a rank's output has room for."""
    return next((each for each in KERNEL_HEADS if heads <= each), heads)


def _common(
    mixer: CompressedAttention, architecture: ModelArchitecture, constants: CompressedRun, run: ProfileRun
) -> int:
    """Return the elements per token that are there in either case.

    The streams, a layer's input and its caller's, the output of attention, queries and keys of low rank
    before and after their norm, and what tokens are compressed by, in 32 bits.
    """
    mixing = architecture.hyper_connections
    streams = constants.held * (1 if mixing is None else mixing.copies) + 2
    output = kernel_heads(run.shards.share(mixer.num_heads)) * mixer.head_size
    low_rank = 2 * (mixer.q_lora_rank + mixer.head_size)
    gates = sum(_gates(mixer)) * FLOAT32 // run.element_bytes
    return streams * architecture.hidden_size + output + low_rank + gates


def _gates(mixer: CompressedAttention) -> Iterator[int]:
    """Yield the numbers from which a layer and its indexer compress a token: vectors and their gates."""
    copies = 2 * (2 if mixer.overlaps else 1)
    if mixer.compresses:
        yield copies * mixer.head_size
        if mixer.indexer is not None:
            yield copies * mixer.indexer.head_dim


def gathered_bytes(architecture: ModelArchitecture, contexts: int, run: ProfileRun) -> int:
    """Return the bytes in which keys are gathered: those of attention, or those of an indexer.

    ``contexts``: number of contexts of the greatest length for whose keys an indexer reserves room. A key
    of an indexer takes a byte for each element, and four for its scale.
    """
    sizes = [0]
    for mixer in compressed_mixers(architecture):
        groups = ceil_div(run.length, mixer.compress_ratio) if mixer.reads_compressed else 0
        rows = groups + mixer.sliding_window + run.tokens
        sizes.append(CHUNK * rows * mixer.head_size * run.element_bytes)
        if mixer.indexer is not None and mixer.reads_compressed:
            keys = contexts * run.length // mixer.compress_ratio
            sizes.append(keys * (mixer.indexer.head_dim + FLOAT32))
    return max(sizes)
