"""By which names lists of compressed-tensors reach experts, which changed with 0.32.0."""

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from tests.memory.recorded import bundled

NAMED_GATE = "RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8"
"""Its lists say `ffn.*(gate|up|down)_proj`; the model's class calls them w1, w3 and w2."""
ENTRIES = 162_660_547_545
"""Numbers in the checkpoint's tensors, as the Hub counts them: two 4-bit floats, or one scale, are one."""
EXPERTS = 43 * 256 * 3 * 4096 * 2048
"""Layers, experts, projections, and their sizes."""


@pytest.mark.parametrize("release", ["0.24.0", "0.31.0"])
def test_experts_are_reached_by_the_names_of_every_model(release: str) -> None:
    """By hand: half a byte a number and a byte for each 16; the rest has one or two bytes a number."""
    packed = EXPERTS // 2 + EXPERTS // 16
    size = parameter_bytes(bundled(NAMED_GATE), Parallelism(compute_capability=(10, 0)), Version(release))
    assert packed < ENTRIES <= size <= packed + 2 * (ENTRIES - packed)


@pytest.mark.parametrize(("release", "is_certain"), [("0.31.0", True), ("0.32.0", False), ("0.33.0", False)])
def test_experts_that_the_lists_name_otherwise_have_no_place(release: str, is_certain: bool) -> None:
    """The model is built, as real releases did that were asked without the checkpoint; reading it fails."""
    flags = ServeFlags(tensor_parallel_size=4, max_model_len=4096)
    start = dry_start(bundled(NAMED_GATE), flags, rules_for(Version(release)), find_gpu("b200-180gb"))
    assert any("KeyError" in each for each in start.unbuilt) != is_certain
