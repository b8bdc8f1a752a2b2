"""CUDA graphs by hand, and laws of their size."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.memory.budget_estimator import estimate_budget
from service.memory.constants import constants_at
from service.memory.graphs import Capture, captured_graphs
from service.units import MIB
from tests.memory.recorded import bundled
from tests.memory.test_laws import INPUTS

CONSTANTS = constants_at(Version("0.27.1")).graphs
LLAMA, MIXTURE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B-Instruct-2507"


def capture(sequences: int, all_reduces: int = 0) -> Capture:
    return Capture(
        layers=32,
        sequences=sequences,
        batch_tokens=8192,
        step_tokens=1,
        blackwell=False,
        eager=False,
        v2_model_runner=False,
        largest=None,
        all_reduces=all_reduces,
    )


def test_nccl_keeps_a_plan_of_each_captured_sum() -> None:
    """256 requests: 51 sizes and 35 of them for decoding, 84 beyond the first of each; 64 sums at 0.1 MiB."""
    alone, several = (
        captured_graphs(bundled(LLAMA), CONSTANTS, capture(256, all_reduces=sums)) for sums in (0, 64)
    )
    assert several.bytes - alone.bytes == pytest.approx(84 * 64 * 0.1 * MIB, abs=MIB)


def test_work_space_of_experts_grows_with_the_largest_graph() -> None:
    """16 requests: graphs of 32 tokens at most, a sixteenth of 512; 7 sizes, 5 for decoding."""
    found = captured_graphs(bundled(MIXTURE), CONSTANTS, capture(16))
    assert found.bytes == pytest.approx((50 + 300 / 16 + 10 * (0.8 + 0.2 * 32)) * MIB, abs=MIB)


def test_only_ranks_without_nvlink_sum_by_nccl() -> None:
    assert not INPUTS.sums_by_nccl
    assert not replace(INPUTS, tensor_parallel_size=1, nvlink=False).sums_by_nccl
    several = replace(INPUTS, nvlink=False)
    assert several.sums_by_nccl
    architecture = bundled(LLAMA)
    linked = estimate_budget(architecture, replace(several, nvlink=True)).captured_graphs
    assert estimate_budget(architecture, several).captured_graphs.bytes > linked.bytes
