"""What published builds fail on, against what their users report."""

from dataclasses import replace
from typing import Any

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.quantization import read_quantization
from service.engine_config.unbuilt_kernels import stores_fp8_blocks
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

PRO_6000 = "rtx-pro-6000-blackwell-server-96gb"
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}


def candidate(
    model_id: str, gpu: str, release: str, *, section: dict[str, Any] | None = None, dtype: str = "auto"
) -> Candidate:
    architecture = bundled_architecture(model_id)
    if section is not None:
        config = read_document({"quantization_config": section})
        architecture = replace(architecture, quantization=read_quantization(config, config))
    request = PlanRequest(Model(model_id, None, "inline", architecture), (find_gpu(gpu),))
    flags = ServeFlags(max_model_len=8192, dtype=dtype)
    return dry_run(request, flags, rules_for(find_release(release)), request.gpus[0])


@pytest.mark.parametrize(
    ("release", "fails"),
    [
        ("0.23.0", False),  # vllm-project/vllm#47130: a regression of 0.24.0 against 0.23.0
        ("0.24.0", True),
        ("0.25.1", False),
        ("0.26.0", False),  # vllm-project/vllm#51884: MiniMax M2.7 on 4 of these works with 0.26.0,
        ("0.27.1", True),  # and fails with 0.27.1
        ("0.28.0", False),  # vllm-project/vllm#52035
    ],
)
def test_fp8_in_blocks_on_a_release_whose_deep_gemm_lacks_the_gpu(release: str, *, fails: bool) -> None:
    found = candidate("Qwen/Qwen3-32B", PRO_6000, release, section=BLOCKS)

    assert (found.verdict is Verdict.UNCERTAIN) is fails
    assert any("VLLM_USE_DEEP_GEMM=0" in doubt for doubt in found.doubts) is fails


@pytest.mark.parametrize(("release", "fails"), [("0.24.0", True), ("0.27.1", False)])
def test_a_type_that_deep_gemm_is_not_picked_for(release: str, *, fails: bool) -> None:
    """vllm-project/vllm#47169: 0.24.0 warms it up nevertheless; 0.27.1 asks each layer's kernel."""
    found = candidate("Qwen/Qwen3.6-27B-FP8", PRO_6000, release)

    assert any("VLLM_USE_DEEP_GEMM=0" in doubt for doubt in found.doubts) is fails


@pytest.mark.parametrize(
    ("gpu", "section", "dtype"),
    [
        ("h100-sxm-80gb", BLOCKS, "auto"),
        (PRO_6000, BLOCKS, "float16"),  # can_implement: bfloat16 only
        (PRO_6000, None, "auto"),
    ],
)
def test_what_does_not_reach_deep_gemm_on_12_x_is_not_doubted(
    gpu: str, section: dict[str, Any] | None, dtype: str
) -> None:
    found = candidate("Qwen/Qwen3-32B", gpu, "0.24.0", section=section, dtype=dtype)

    assert not any("DEEP_GEMM" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("section", "blocks"),
    [
        (BLOCKS, True),
        ({**BLOCKS, "weight_block_size": [128, 64]}, False),
        ({"quant_method": "fp8", "activation_scheme": "static"}, False),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, False),
    ],
)
def test_blocks_as_deep_gemm_reads_them(section: dict[str, Any], *, blocks: bool) -> None:
    config = read_document({"quantization_config": section})

    assert stores_fp8_blocks(read_quantization(config, config)) is blocks


@pytest.mark.parametrize(
    ("release", "starts"),
    [
        ("0.10.2", True),
        (
            "0.14.0",
            True,
        ),  # vllm-project/vllm#32732: the image says "CUDA Archs: 7.0 7.5 8.0 8.9 9.0 10.0 12.0"
        ("0.19.0", True),
        ("0.20.2", False),  # torch 2.11 has no sm_70
    ],
)
def test_volta_is_in_the_published_builds_up_to_0_19(release: str, *, starts: bool) -> None:
    found = candidate("Qwen/Qwen2.5-7B-Instruct", "v100-sxm2-32gb", release)

    assert (found.verdict is Verdict.STARTS) is starts
