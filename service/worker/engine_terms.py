"""Converts the engine's own memory figures to the terms of a memory budget. Pure.

The code looks at the names of the figures, not at the release, since back-ports changed some of them:

- before 0.28: ``non_torch_memory``, and a peak of activations without the graphs;
- since 0.28: ``total_consumed``, which is weights and all other memory that stays in use, and a peak that
  includes the estimated graphs (the children leave the switch for that at its default, which is on).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.units import GIB

Raw = Mapping[str, Any]
_CAPTURED: Final = re.compile(r"Graph capturing finished in [\d.]+ secs?, took ([\d.]+) GiB")


def ranks(reports: Sequence[Raw], log: str) -> list[dict[str, Any]]:
    """Return each rank's readings in bytes, in the form of the API's input."""
    captured = [float(size) for size in _CAPTURED.findall(log)]
    graphs = round(max(captured) * GIB) if captured else None
    return [_rank(report, graphs) for report in reports]


def _rank(raw: Raw, graphs: int | None) -> dict[str, Any]:
    readings: dict[str, Any] = {}
    _put(readings, "free_before", raw.get("init_free_memory"))
    _put(readings, "requested", raw.get("requested_memory"))
    _put(readings, "weights", raw.get("weights"))
    _put(readings, "available_kv", raw.get("available_kv_cache_memory_bytes"))
    _put(readings, "graphs", graphs, "parsed")
    _put_rest(readings, raw)
    return readings


def _put_rest(readings: dict[str, Any], raw: Raw) -> None:
    """Add the three terms that the engine subtracts besides the weights."""
    names = ("requested_memory", "weights", "available_kv_cache_memory_bytes", "peak_activation_memory")
    requested, weights, available, peak = (raw.get(name) for name in names)
    if requested is None or weights is None or available is None or peak is None:
        return
    consumed, non_torch = raw.get("total_consumed"), raw.get("non_torch_memory")
    if consumed is not None:
        estimated = raw.get("cudagraph_memory_estimate") or 0
        _put(readings, "non_torch", consumed - weights, "derived")
        _put(readings, "activation", peak - estimated, "derived")
    elif non_torch is not None:
        estimated = requested - available - weights - peak - non_torch
        _put(readings, "non_torch", non_torch)
        _put(readings, "activation", peak)
    else:
        return
    _put(readings, "graphs_estimated", max(0, estimated), "derived")


def _put(readings: dict[str, Any], name: str, size: int | None, how: str = "measured") -> None:
    if size is not None:
        readings[name] = {"bytes": int(size), "how": how}


def cache_bytes(made: Raw) -> int:
    """Return the bytes of all tensors of a cache; overlaid tensors share one allocation."""
    sizes = made["tensor_bytes"]
    return int(max(sizes, default=0) if made["overlaid"] else sum(sizes))


def cache(reports: Sequence[Raw]) -> dict[str, int] | None:
    """Return the cache that the engine would allocate without the override of its blocks.

    The rank with the least memory for the cache decides. None if no rank reports a cache.
    """
    reported = [raw for raw in reports if raw.get("cache") and raw.get("available_kv_cache_memory_bytes")]
    if not reported:
        return None
    least = min(reported, key=lambda raw: int(raw["available_kv_cache_memory_bytes"]))
    made = least["cache"]
    per_block = cache_bytes(made) // made["num_blocks"]
    return {
        "num_blocks": int(least["available_kv_cache_memory_bytes"]) // per_block,
        "bytes_per_block": per_block,
        "groups": len(made["groups"]),
    }
