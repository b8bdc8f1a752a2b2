"""MemoryFraction: `mem_fraction_static`, given or as SGLang chooses it, as an interval.

Source: SGLang 0.5.3 to 0.5.23, `_handle_gpu_memory_settings` and `adjust_mem_fraction_for_vlm`; before
them `ServerArgs.__post_init__`, where the reserve depends on the size of the GPU alone; read only.
Graphs of prefill are on unless the attention backend, the model's class or another flag switches them off.
"""

from dataclasses import dataclass
from typing import Final

from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.sglang.releases import PoolRules
from service.sglang.server_args import SglangArgs

GIB_IN_MIB: Final = 1024
LARGE_GPU: Final = 60
"""GiB above which the floor of the reserve holds."""
MANY_RANKS: Final = 4
"""Ranks from which graphs are larger."""
SMALLEST_CHUNK: Final = 2048
"""Tokens of a chunk that the reserve has room for at least."""
RANK_MIB: Final = 128
"""MiB of the reserve for each rank."""
RESERVE_MIB: Final = 512
"""MiB of it in any case, since 0.5.3."""
CHUNK_MIB: Final = 1.5
"""MiB of the reserve for each token of a chunk."""
PREFILL_TOKENS: Final = 16384
"""Tokens of a prefill that is not in chunks: the default of `--max-prefill-tokens`."""
GRAPH_MIB: Final = 2
"""MiB of the reserve for each request of the largest graph."""

PREFILL_SIZES: Final = ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256))
"""Tokens of the graphs of prefill: the most, and how far sizes up to them are apart; 512 above them.

Source: SGLang 0.5.10, `_generate_piecewise_cuda_graph_tokens`; 0.5.23,
`generate_prefill_cuda_graph_batch_sizes`.
"""
LARGE_PREFILL_STEP: Final = 512


@dataclass(frozen=True, slots=True)
class MemoryFraction:
    """The fraction of a GPU for weights and pools: middle, least and most."""

    middle: float
    low: float
    high: float
    source: str
    basis: Basis

    def left_out_of(self, free: Estimate) -> Estimate:
        """Return the bytes of the free memory that the fraction leaves out."""
        size, low, high = (round(free.bytes * (1 - share)) for share in (self.middle, self.high, self.low))
        return Estimate(size, min(size, low), max(size, high), self.basis, self.source)


def automatic_fraction(
    model: ModelArchitecture, gpu_mib: int, args: SglangArgs, rules: PoolRules
) -> MemoryFraction:
    """Return the fraction, as given or as SGLang chooses it."""
    if args.mem_fraction_static is not None:
        share = args.mem_fraction_static
        return MemoryFraction(share, share, share, "--mem-fraction-static", Basis.GIVEN)
    reserve, graphs = _reserve(gpu_mib, args, rules), _prefill_graphs(model, gpu_mib, args, rules)
    shares = [_share(gpu_mib, reserve + more, rules) for more in (graphs, graphs, 0)]
    if model.multimodal:
        shares = [share * factor for share, factor in zip(shares, rules.media_factors, strict=True)]
    middle, low, high = shares
    words = "the automatic --mem-fraction-static"
    return MemoryFraction(middle, min(low, middle), max(high, middle), words, Basis.COMPUTED)


def _reserve(gpu_mib: int, args: SglangArgs, rules: PoolRules) -> float:
    """Return the MiB outside the fraction, without graphs of prefill."""
    tier = rules.tier(gpu_mib)
    if tier.reserve_mib is not None:
        return tier.reserve_mib + tier.rank_mib * args.tp_size
    chunk = args.chunked_prefill_size or tier.chunk
    if chunk < 0:
        chunk = PREFILL_TOKENS
    by_size = tier.graph if args.tp_size < MANY_RANKS else tier.graph_many
    graph = args.cuda_graph_max_bs or by_size
    return RESERVE_MIB + CHUNK_MIB * max(chunk, SMALLEST_CHUNK) + GRAPH_MIB * graph + RANK_MIB * args.tp_size


def _prefill_graphs(model: ModelArchitecture, gpu_mib: int, args: SglangArgs, rules: PoolRules) -> int:
    """Return the MiB of the reserve for graphs of prefill that are not switched off."""
    if any(isinstance(layer.mixer, MultiHeadLatentAttention) for layer in model.layers):
        return rules.mla_prefill_graphs_mib
    tokens = args.chunked_prefill_size or rules.tier(gpu_mib).chunk
    if args.max_total_tokens is not None:
        tokens = min(tokens, args.max_total_tokens)
    return rules.prefill_graph_mib * len(_prefill_sizes(tokens))


def _prefill_sizes(tokens: int) -> list[int]:
    """Return the sizes of graphs of prefill of up to so many tokens."""
    sizes = [0]
    for most, step in (*PREFILL_SIZES, (tokens, LARGE_PREFILL_STEP)):
        sizes += range(sizes[-1] + step, most + 1, step)
    return [size for size in sizes[1:] if size <= tokens]


def _share(gpu_mib: int, reserve: float, rules: PoolRules) -> float:
    if gpu_mib > LARGE_GPU * GIB_IN_MIB:
        reserve = max(reserve, rules.fraction_floor_mib)
    return max(0.0, round((gpu_mib - reserve) / gpu_mib, 3))
