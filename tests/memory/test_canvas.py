"""DiffusionGemma against what vLLM 0.24.0, 0.28.0 and 0.33.0 built and logged.

The rows are the engine's own answers: parameters on the meta device, blocks and tokens of 20 GB of cache.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.accuracy.oracle import GPU_OF_CAPABILITY

ANSWERS: Mapping[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "canvas.json.gz").read_bytes())
)


def planned(row: Mapping[str, Any]) -> Candidate:
    architecture = read_architecture(read_document(ANSWERS["configs"][row["config"]]))
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    flags, rules = ServeFlags(**row["flags"]), rules_for(Version(row["release"]))
    request = PlanRequest(Model("org/canvas", None, "inline", architecture), (gpu,), serve=flags)
    return dry_run(request, flags, rules, gpu)


@pytest.mark.parametrize("row", ANSWERS["rows"], ids=lambda row: f"{row['config']}-{row['release']}")
def test_blocks_tokens_and_requests_are_the_engines(row: Mapping[str, Any]) -> None:
    made = planned(row)
    assert made.start is not None
    assert made.kv_cache is not None
    cache = made.kv_cache

    assert made.start.engine_config.max_num_seqs == row["expect"]["max_num_seqs"]
    assert (cache.num_blocks, cache.tokens) == (row["expect"]["num_blocks"], row["expect"]["tokens"])
    assert f"{cache.max_concurrency:.2f}" == f"{float(row['expect']['concurrency']):.2f}"


@pytest.mark.parametrize("row", ANSWERS["rows"], ids=lambda row: f"{row['config']}-{row['release']}")
def test_parameters_are_the_engines(row: Mapping[str, Any]) -> None:
    architecture = read_architecture(read_document(ANSWERS["configs"][row["config"]]))
    deployment = Parallelism(
        tensor_parallel_size=row["flags"].get("tensor_parallel_size", 1),
        compute_capability=tuple(row["capability"]),
        dtype="bfloat16",
    )
    built = parameter_bytes_per_stage(architecture, deployment, Version(row["release"]))

    assert max(built) == row["expect"]["parameters"]


def test_the_sampler_is_a_doubt() -> None:
    """262,144 logits of four bytes, three times, are 3 MiB a token."""
    assert any("3.0 MiB a token" in doubt for doubt in planned(ANSWERS["rows"][0]).doubts)
