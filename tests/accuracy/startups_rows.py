"""Rows of real starts: what was told of model, GPU, flags and release, and what the engine logged."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "startups"
NAMES = ("startups.jsonl", "memory-rows.jsonl", "found.jsonl", "unfitted.jsonl")

Row = Mapping[str, Any]


def read_rows(source: Path) -> tuple[Row, ...]:
    """Return the rows of one file, or of those of a folder, compressed or not."""
    if source.is_file():
        return tuple(_as_startup(number, row) for number, row in enumerate(_lines(source)))
    found = [path for name in NAMES for path in (source / name, source / f"{name}.gz") if path.exists()]
    if not found:
        raise FileNotFoundError(f"none of {', '.join(NAMES)} in {source}")
    return tuple(row for path in found for row in read_rows(path))


def _lines(path: Path) -> Iterator[Row]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _as_startup(number: int, row: Row) -> Row:
    """Return a row of budget terms under the names that the rows of starts have."""
    if "measured_gib" not in row:
        return row
    flags, logged = row["flags"] or {}, row["measured_gib"]
    return {
        "id": f"m{number:02}" if row["quality"] == "full debug log" else f"x{number:02}",
        "source": row["src"],
        "status": "ok",
        "non_upstream_or_non_gpu": False,
        "model": row["model"],
        "vllm_version": row["engine"].removeprefix("vllm "),
        "gpu": row["gpu"],
        "tensor_parallel_size": flags.get("tp"),
        "pipeline_parallel_size": flags.get("pp"),
        "kv_cache_dtype": flags.get("kv_cache_dtype"),
        "other_flags": _quantization(flags) + _dtype(flags),
        "model_loading_gib": logged.get("weights"),
        "available_kv_gib": logged.get("available_kv"),
        "peak_activation_gib": logged.get("activation_peak"),
        "non_torch_gib": logged.get("non_torch_increase"),
        "cuda_graph_estimate_gib": logged.get("cudagraph_est"),
        "cuda_graph_gib": logged.get("cudagraph_actual"),
        "kv_cache_tokens": logged.get("kv_tokens"),
        **{name: flags.get(name) for name in _ALIKE},
    }


_ALIKE = ("max_model_len", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization")


def _quantization(flags: Row) -> str:
    # Other methods name what the checkpoint is; this one quantizes it while it loads.
    return "--quantization fp8 " if flags.get("quant") == "fp8" else ""


def _dtype(flags: Row) -> str:
    return f"--dtype {flags['dtype']}" if "dtype" in flags else ""
