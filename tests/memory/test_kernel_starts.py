"""Which kernels three to five releases find for quantized weights, by GPU, type and flag.

`kernel_starts.json.gz` holds what vLLM 0.19.0 to 0.33.0 answered: Quark's fp8 on compute capability 8.0,
W4A8 on 10.0, formats of compressed-tensors that do not fit their groups, AutoRound's fp8 in blocks (whose
activations 0.29.0 wants to be called ``fp``), and AWQ in bfloat16 beside ``--quantization awq``; the bytes of
parameters of tensor parallel rank 0, or the exception.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from tests.accuracy.oracle import GPU_OF_CAPABILITY
from tests.accuracy.weights import WITHIN

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "kernel_starts.json.gz").read_bytes())
)
ROWS: Final = DATA["rows"]
NAMES: Final = sorted({row["layout"] for row in ROWS})


def architecture_of(row: Mapping[str, Any]) -> ModelArchitecture:
    stored = {"torch_dtype": row["dtype"], "quantization_config": DATA["layouts"][row["layout"]]}
    return read_architecture(read_document(DATA["bases"][row["config"]] | stored))


def refusal_of(row: Mapping[str, Any]) -> EngineRefusal | InvalidConfig | None:
    flags = ServeFlags(
        tensor_parallel_size=row["tp"], quantization=row.get("quantization"), max_model_len=1024
    )
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    try:
        dry_start(architecture_of(row), flags, rules_for(Version(row["release"])), gpu)
    except (EngineRefusal, InvalidConfig) as refusal:
        return refusal
    return None


@pytest.mark.parametrize("layout", NAMES)
def test_what_a_release_builds_is_not_refused_and_weighs_the_same(layout: str) -> None:
    for row in ROWS:
        if row["layout"] == layout and "error" not in row:
            assert refusal_of(row) is None, row
            deployment = Parallelism(
                tensor_parallel_size=row["tp"],
                dtype=row["dtype"],
                compute_capability=(row["capability"][0], row["capability"][1]),
            )
            ours = parameter_bytes(architecture_of(row), deployment, Version(row["release"]))
            assert abs(ours / row["parameters"] - 1) <= WITHIN, (row, ours)


@pytest.mark.parametrize("layout", NAMES)
def test_what_a_release_refuses_is_refused_in_its_words(layout: str) -> None:
    for row in ROWS:
        if row["layout"] == layout and "error" in row:
            refusal = refusal_of(row)
            assert isinstance(refusal, EngineRefusal), row
            assert refusal.type == row["error"], (row, refusal)
            words = (
                refusal.message.partition(": ")[2] if row["error"] == "ValidationError" else refusal.message
            )
            assert words[:40] in " ".join(row["message"].split()), (row, refusal)
