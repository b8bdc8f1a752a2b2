"""Reads the memory figures of each of the engine's workers, under the engine's own names.

Releases use different names. Every figure that exists is reported; nothing is computed here.
"""

from typing import Any

FIELDS = (
    "requested_memory",
    "available_kv_cache_memory_bytes",
    "peak_activation_memory",
    "cudagraph_memory_estimate",
    "total_consumed",
    "non_torch_memory",
)
SNAPSHOT = ("free_memory", "total_memory", "torch_peak", "cuda_memory", "non_torch_memory")


class ProbeExtension:
    """The engine mixes this class into its worker class (``worker_extension_cls``)."""

    def probe_report(self) -> dict[str, Any]:
        """Return this rank's figures in bytes; None for a figure that this release does not have."""
        report: dict[str, Any] = {name: _number(getattr(self, name, None)) for name in FIELDS}
        snapshot = getattr(self, "init_snapshot", None)
        report.update({f"init_{name}": _number(getattr(snapshot, name, None)) for name in SNAPSHOT})
        runner = getattr(self, "model_runner", None)
        report["weights"] = _number(getattr(runner, "model_memory_usage", None))
        report["runner"] = None if runner is None else f"{type(runner).__module__}.{type(runner).__name__}"
        report["cache"] = _cache(getattr(runner, "kv_cache_config", None))
        return report


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _cache(config: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a class of the engine
    if config is None:
        return None
    groups = [
        {
            "kind": type(group.kv_cache_spec).__name__,
            "layers": len(group.layer_names),
            "block_size": group.kv_cache_spec.block_size,
            "page_size_bytes": group.kv_cache_spec.page_size_bytes,
        }
        for group in config.kv_cache_groups
    ]
    tensors = [each for each in config.kv_cache_tensors if not getattr(each, "host_resident", False)]
    return {
        "num_blocks": config.num_blocks,
        "tensor_bytes": [int(tensor.size) for tensor in tensors],
        # Later releases share one allocation among all groups; each tensor then states its whole size.
        "overlaid": any(hasattr(tensor, "layer_stride") for tensor in tensors),
        "groups": groups,
    }
