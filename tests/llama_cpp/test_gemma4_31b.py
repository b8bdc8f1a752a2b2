"""Gemma 4 31B on two GPUs with 11.54 GiB of cache each: the figures of llama.cpp's own library.

The contexts of one sequence, of the server's default and with `--swa-full` were created with the library
itself (0c1e57098, two devices over RPC, `no_alloc`); the others follow from its formula by hand.
"""

import pytest

from service.llama_cpp.builds import build_named
from service.llama_cpp.device_layout import layer_split
from service.llama_cpp.largest_context import CacheDemand, cache_demand, largest_context
from service.llama_cpp.log_lines import CacheLog
from service.llama_cpp.model_layers import llama_model
from service.llama_cpp.server_flags import ServerFlags, SplitMode
from service.units import MIB
from tests.accuracy.oracle import bundled_architecture

BUDGET = int(11.54 * 1024 * MIB)
MODEL = llama_model(bundled_architecture("google/gemma-4-31B-it"))
BUILD = build_named(None)[1]
LAYOUT = layer_split(60, (1, 1), None)


def fits(demand: CacheDemand) -> bool:
    return max(demand.device_bytes) <= BUDGET


@pytest.mark.parametrize(
    ("flags", "context", "each", "mib"),
    [
        (ServerFlags(parallel=1), 262_144, 262_144, 10_864),
        (ServerFlags(), 254_464, 254_464, 11_812),
        (ServerFlags(parallel=4), 238_592, 59_648, 11_816),
        (ServerFlags(parallel=1, swa_full=True), 26_368, 26_368, 11_742),
        (ServerFlags(parallel=1, swa_full=True, split_mode=SplitMode.TENSOR), 27_392, 27_392, 11_770),
        (ServerFlags(parallel=1, cache_type_k="q8_0", cache_type_v="q8_0"), 262_144, 262_144, 5_772),
        (
            ServerFlags(parallel=1, swa_full=True, cache_type_k="q8_0", cache_type_v="q8_0"),
            49_920,
            49_920,
            11_810,
        ),
    ],
)
def test_the_largest_context(flags: ServerFlags, context: int, each: int, mib: int) -> None:
    demand = largest_context(MODEL, flags, BUILD, LAYOUT, fits)
    assert demand is not None
    assert (demand.context.n_ctx, demand.context.n_ctx_seq) == (context, each)
    assert round(max(demand.device_bytes) / MIB + 0.01) == mib


def test_the_layers_are_31_and_29() -> None:
    """61 units on 1:1, the output matrix the last; `--swa-full` with 26,624 cells needs 11,856 MiB."""
    assert [len(LAYOUT.layers_on(device)) for device in (0, 1)] == [31, 29]
    assert LAYOUT.output == 1
    demand = cache_demand(MODEL, ServerFlags(ctx_size=26_624, parallel=1, swa_full=True), BUILD, LAYOUT)
    assert max(demand.device_bytes) == 11_856 * MIB
    assert not fits(demand)


def test_three_to_one() -> None:
    """60 layers and the output: layers below 0.75 x 61 = 45.75 are on the first device."""
    layout = layer_split(60, (3, 1), None)
    assert [len(layout.layers_on(device)) for device in (0, 1)] == [46, 14]


def test_the_server_default_has_four_slots_in_one_cache() -> None:
    demand = cache_demand(MODEL, ServerFlags(ctx_size=8192), BUILD, LAYOUT)
    assert demand.context.unified
    assert [cache.cells for cache in demand.caches.cells] == [8192, 4608]


def test_the_lines_of_the_log() -> None:
    demand = cache_demand(MODEL, ServerFlags(ctx_size=262_144, parallel=1), BUILD, LAYOUT)
    assert CacheLog(MODEL, demand, LAYOUT, BUILD).lines() == (
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 262144 cells",
        "llama_kv_cache:      CUDA0 KV buffer size = 10240.00 MiB",
        "llama_kv_cache:      CUDA1 KV buffer size = 10240.00 MiB",
        (
            "llama_kv_cache: size = 20480.00 MiB (262144 cells,  10 layers,  1/1 seqs), "
            "K (f16): 10240.00 MiB, V (f16): 10240.00 MiB"
        ),
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 1536 cells",
        "llama_kv_cache:      CUDA0 KV buffer size =   624.00 MiB",
        "llama_kv_cache:      CUDA1 KV buffer size =   576.00 MiB",
        (
            "llama_kv_cache: size = 1200.00 MiB (  1536 cells,  50 layers,  1/1 seqs), "
            "K (f16):  600.00 MiB, V (f16):  600.00 MiB"
        ),
    )
