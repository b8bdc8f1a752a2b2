"""Weights of sparse models against what real releases allocate on the meta device."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engines.releases import find_release
from service.memory.deployment import Deployment
from service.memory.weights import parameter_bytes_per_stage
from tests.accuracy.oracle import gpu_of
from tests.accuracy.recorded import Recorded

SPARSE = Recorded("sparse")
ROWS = [row for row in SPARSE.rows if "parameter_bytes_per_pp_rank" in row["expect"]]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_bytes_are_those_that_the_release_allocates(row: Mapping[str, Any]) -> None:
    serve, capability = row["serve"], gpu_of(row).compute_capability
    assert capability is not None
    deployment = Deployment(
        tensor_parallel_size=serve.get("tensor_parallel_size", 1),
        pipeline_parallel_size=serve.get("pipeline_parallel_size", 1),
        enable_expert_parallel=serve.get("enable_expert_parallel", False),
        compute_capability=(capability.major, capability.minor),
    )

    stages = parameter_bytes_per_stage(
        SPARSE.architecture(row["config"]), deployment, find_release(row["engine_version"])
    )

    assert list(stages) == pytest.approx(row["expect"]["parameter_bytes_per_pp_rank"], rel=2e-4)
