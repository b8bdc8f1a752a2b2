"""MemoryFraction: `mem_fraction_static`, given or as SGLang chooses it, as an interval.

Source: SGLang 0.5.3 to 0.5.23, `_handle_gpu_memory_settings` and `adjust_mem_fraction_for_vlm`; before
them `ServerArgs.__post_init__`, where the reserve depends on the size of the GPU alone; read only.
"""

from dataclasses import dataclass
from typing import Final

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
GRAPH_MIB: Final = 2
"""MiB of the reserve for each request of the largest graph."""


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
    reserve, most = _reserve(gpu_mib, args, rules), rules.prefill_graphs_mib
    shares = [_share(gpu_mib, reserve + more, rules) for more in (most // 2, most, 0)]
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
    by_size = tier.graph if args.tp_size < MANY_RANKS else tier.graph_many
    graph = args.cuda_graph_max_bs or by_size
    return RESERVE_MIB + CHUNK_MIB * max(chunk, SMALLEST_CHUNK) + GRAPH_MIB * graph + RANK_MIB * args.tp_size


def _share(gpu_mib: int, reserve: float, rules: PoolRules) -> float:
    if gpu_mib > LARGE_GPU * GIB_IN_MIB:
        reserve = max(reserve, rules.fraction_floor_mib)
    return max(0.0, round((gpu_mib - reserve) / gpu_mib, 3))
