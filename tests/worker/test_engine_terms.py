"""From what a release tells to the terms of a budget."""

import pytest

from service.units import GIB
from service.worker.engine_terms import Raw, cache, ranks

OLD = {
    "requested_memory": 75 * GIB,
    "weights": 15 * GIB,
    "peak_activation_memory": 2 * GIB,
    "non_torch_memory": GIB // 4,
    "cudagraph_memory_estimate": GIB,
    "init_free_memory": 78 * GIB,
}
"""vLLM 0.19.0, GPUWorker.determine_available_memory: available = requested - weights - peak - non-torch."""


def terms(report: Raw, log: str = "") -> dict[str, tuple[int, str]]:
    (rank,) = ranks([report], log)
    return {name: (reading["bytes"], reading["how"]) for name, reading in rank.items()}


def test_a_release_that_sets_no_graphs_aside() -> None:
    available = 75 * GIB - 15 * GIB - 2 * GIB - GIB // 4
    found = terms({**OLD, "available_kv_cache_memory_bytes": available})
    assert found["graphs_estimated"] == (0, "derived")
    assert found["non_torch"] == (GIB // 4, "measured")
    assert found["activation"] == (2 * GIB, "measured")
    assert found["free_before"] == (78 * GIB, "measured")


def test_a_release_that_sets_graphs_aside() -> None:
    available = 75 * GIB - 15 * GIB - 2 * GIB - GIB // 4 - GIB
    assert terms({**OLD, "available_kv_cache_memory_bytes": available})["graphs_estimated"][0] == GIB


def test_a_release_that_tells_what_is_consumed_in_all() -> None:
    """vLLM 0.32.0: available = requested - total_consumed - peak, and the peak includes the graphs."""
    report = {
        "requested_memory": 75 * GIB,
        "weights": 15 * GIB,
        "total_consumed": 15 * GIB + GIB // 2,
        "peak_activation_memory": 3 * GIB,
        "cudagraph_memory_estimate": GIB,
        "available_kv_cache_memory_bytes": 75 * GIB - 15 * GIB - GIB // 2 - 3 * GIB,
    }
    found = terms(report, "(x) Graph capturing finished in 12 secs, took 0.62 GiB\n")
    assert found["non_torch"] == (GIB // 2, "derived")
    assert found["activation"] == (2 * GIB, "derived")
    assert found["graphs_estimated"] == (GIB, "derived")
    assert found["graphs"] == (round(0.62 * GIB), "parsed")
    names = ("weights", "activation", "non_torch", "graphs_estimated", "available_kv")
    assert sum(found[name][0] for name in names) == found["requested"][0]


def test_what_a_release_does_not_tell_is_left_out() -> None:
    assert ranks([{"weights": 5}], "") == [{"weights": {"bytes": 5, "how": "measured"}}]
    assert cache([{"weights": 5}]) is None


def test_the_cache_is_told_without_the_override() -> None:
    """Worked by hand: 4 tensors of 64 blocks x 1 MiB make 4 MiB a block; 10 GiB hold 2,560 of them."""
    made = {"num_blocks": 64, "tensor_bytes": [64 << 20] * 4, "overlaid": False, "groups": [{}]}
    specified = [{"available_kv_cache_memory_bytes": size, "cache": made} for size in (11 * GIB, 10 * GIB)]
    assert cache(specified) == {"num_blocks": 2560, "bytes_per_block": 4 << 20, "groups": 1}
    # Three groups over one allocation of 256 MiB: each tells its whole size.
    over = {**made, "tensor_bytes": [256 << 20] * 3, "overlaid": True, "groups": [{}] * 3}
    specified = [{"available_kv_cache_memory_bytes": 10 * GIB, "cache": over}]
    assert cache(specified) == {"num_blocks": 2560, "bytes_per_block": 4 << 20, "groups": 3}


@pytest.mark.parametrize("log", ["", "Graph capturing finished"])
def test_graphs_are_not_made_up(log: str) -> None:
    assert "graphs" not in terms(OLD, log)
