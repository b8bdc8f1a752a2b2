"""MemoryFraction: `mem_fraction_static`, given or as SGLang chooses it, as an interval.

Source: SGLang 0.5.10 to 0.5.23, arg_groups/memory_hook.py `_handle_gpu_memory_settings` and
`adjust_mem_fraction_for_vlm`; read only.
"""

from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.sglang.releases import PoolRules
from service.sglang.server_args import SglangArgs

GIB_IN_MIB: Final = 1024
CHUNKS: Final = ((20, 2048), (60, 4096), (160, 8192))
"""Tokens of a prefill chunk on GPUs with less than so many GiB; 16384 on larger ones."""
LARGEST_CHUNK: Final = 16384
LARGE_GPU: Final = 60
"""GiB above which the floor of the reserve holds."""
RESERVE_MIB: Final = 512
CHUNK_MIB: Final = 1.5
"""MiB of the reserve for each token of a chunk."""
GRAPH_MIB: Final = 2
"""MiB of the reserve for each request of the largest graph."""
PREFILL_GRAPHS_MIB: Final = 400
"""At most what graphs of prefill take of the reserve, which depends on the attention backend; assumed."""
VISION: Final = (0.95, 0.76, 0.9975)
"""Factor for models with images: middle, least and most; it depends on the size of the vision tower."""


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


def default_chunk(gpu_mib: int) -> int:
    """Return `--chunked-prefill-size` where it is left out, by the GPU's memory."""
    for gib, tokens in CHUNKS:
        if gpu_mib < gib * GIB_IN_MIB:
            return tokens
    return LARGEST_CHUNK


def largest_graph(gpu_mib: int, ranks: int) -> int:
    """Return `--cuda-graph-max-bs` where it is left out, by the GPU's memory and the ranks (0.5.23)."""
    few = ranks < 4  # noqa: PLR2004 - the engine's own limit
    for gib, one, several in ((20, 8, 8), (35, 48, 160), (60, 32, 160), (160, 256, 512)):
        if gpu_mib < gib * GIB_IN_MIB:
            return one if few else several
    return 512


def automatic_fraction(
    model: ModelArchitecture, gpu_mib: int, args: SglangArgs, rules: PoolRules
) -> MemoryFraction:
    """Return the fraction, as given or as SGLang chooses it."""
    if args.mem_fraction_static is not None:
        share = args.mem_fraction_static
        return MemoryFraction(share, share, share, "--mem-fraction-static", Basis.GIVEN)
    chunk = args.chunked_prefill_size or default_chunk(gpu_mib)
    graph = args.cuda_graph_max_bs or largest_graph(gpu_mib, args.tp_size)
    reserve = RESERVE_MIB + CHUNK_MIB * max(chunk, 2048) + GRAPH_MIB * graph + args.tp_size / 8 * 1024
    graphs = (PREFILL_GRAPHS_MIB // 2, PREFILL_GRAPHS_MIB, 0)
    shares = [_share(gpu_mib, reserve + more, rules) for more in graphs]
    if model.multimodal:
        shares = [share * factor for share, factor in zip(shares, VISION, strict=True)]
    middle, low, high = shares
    words = "the automatic --mem-fraction-static of SGLang 0.5.10 to 0.5.23"
    return MemoryFraction(middle, min(low, middle), max(high, middle), words, Basis.COMPUTED)


def _share(gpu_mib: int, reserve: float, rules: PoolRules) -> float:
    if gpu_mib > LARGE_GPU * GIB_IN_MIB:
        reserve = max(reserve, rules.fraction_floor_mib)
    return max(0.0, round((gpu_mib - reserve) / gpu_mib, 3))
