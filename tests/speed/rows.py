"""Published measurements of vLLM's speed."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "speed" / "rows.jsonl.gz"
_CONFIGS = {
    ("meta-llama/Llama-3.1-70B", "fp8"): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("meta-llama/Llama-3.1-70B", "nvfp4"): "nvidia/Llama-3.1-70B-Instruct-FP4",
    ("MiniMaxAI/MiniMax-M2.5", "nvfp4"): "nvidia/MiniMax-M2.5-NVFP4",
}
"""The checkpoint that ran, where a row names the model and how it was quantized."""
_EXPERT_PARALLEL = {
    ("MiniMaxAI/MiniMax-M2.5", "fp8", "b200-180gb", "0.17.0"),
    ("MiniMaxAI/MiniMax-M2.5", "fp8", "h200-sxm-141gb", "0.18.0"),
}
"""Series that ran with expert parallelism although their source, which states EP_SIZE 1, has it without.

Their scripts gave --enable-expert-parallel from EP_SIZE 1 on, the default, while these images were theirs:
SemiAnalysisAI/InferenceX, benchmarks/single_node/minimaxm2.5_fp8_b200.sh f342df18e (until bddbf4031 brought
0.19.0), minimaxm2.5_fp8_h200.sh 5e2c705d3 (until 8014ee637). Without it vLLM refuses 1536 / 8: blocks of 128.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured point."""

    id: str
    model: str
    checkpoint: str
    gpu: str
    version: str | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    expert_parallel: bool
    instances: int
    kv_cache_dtype: str | None
    flags: str
    prompt_tokens: float
    """On average."""
    output_tokens: float
    concurrency: int
    tpot_ms: float
    ttft_ms: float | None
    output_tokens_per_second: float | None
    """Of the whole run."""

    @property
    def throughput(self) -> float:
        """Output tokens per second at the stated concurrency, while all requests run."""
        return self.concurrency / self.tpot_ms * 1e3

    @property
    def gpus(self) -> int:
        """GPUs of all instances."""
        ranks = self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size
        return ranks * self.instances

    @property
    def lab(self) -> str:
        """Who made the model."""
        return self.model.partition("/")[0]


def read_rows(path: Path = DATA) -> tuple[Row, ...]:
    """Return the rows of a file; the first line has the sources."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return tuple(_row(row) for line in lines if "sources" not in (row := json.loads(line)))


def _row(row: dict[str, Any]) -> Row:
    mean = (1 + row["random_range_ratio"]) / 2 if row.get("random_range_ratio") else 1
    return Row(
        id=row["id"],
        model=row["model"],
        checkpoint=_CONFIGS.get((row["model"], row.get("quantization", "")), row["model"]),
        gpu=row["gpu"],
        version=row.get("version"),
        tensor_parallel_size=row["tp"],
        pipeline_parallel_size=row["pp"],
        data_parallel_size=row["dp"],
        expert_parallel=bool(row.get("ep"))
        or (row["model"], row.get("quantization"), row["gpu"], row.get("version")) in _EXPERT_PARALLEL,
        instances=row.get("instances", 1),
        kv_cache_dtype=row.get("kv_cache_dtype"),
        flags=row.get("flags", ""),
        prompt_tokens=row["input_len"] * mean,
        output_tokens=row["output_len"] * mean,
        concurrency=min(row["max_concurrency"], row.get("num_prompts", row["max_concurrency"])),
        tpot_ms=row["tpot_ms"],
        ttft_ms=row.get("ttft_ms"),
        output_tokens_per_second=row.get("output_tok_s"),
    )
