"""The budget against the logs of real starts."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.gpus.catalog import find_gpu
from service.memory.budget_estimator import estimate_budget
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis, Estimate, WeightsEstimate
from service.memory.constants import constants_at
from service.memory.device import Ranks, device_total, non_torch_growth
from service.units import GIB, MIB
from tests.memory.recorded import (
    altered,
    bundled,
    capability,
    records,
)

HALF_DIGIT = 0.005 * GIB
"""Logs round to two digits."""


def printed(gib: float) -> Estimate:
    size = gib * GIB
    return Estimate(
        round(size),
        round(size - HALF_DIGIT),
        round(size + HALF_DIGIT),
        Basis.MEASURED,
        "printed by the engine",
    )


def inputs_of(row: dict[str, Any]) -> BudgetInputs:
    return BudgetInputs(
        release=Version(row["release"]),
        total=printed(row["total_gib"]),
        compute_capability=capability(row["compute_capability"]),
        gpu_memory_utilization=row["gpu_memory_utilization"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        max_num_seqs=row["max_num_seqs"],
        max_model_len=8192,
        tensor_parallel_size=row["tensor_parallel_size"],
        pipeline_parallel_size=row["pipeline_parallel_size"],
    )


def label(row: dict[str, Any]) -> str:
    return f"{row['model']}-{row['release']}-tp{row['tensor_parallel_size']}pp{row['pipeline_parallel_size']}"


STARTS = records("startups.json")
LLAMA = next(row for row in STARTS if row["config"] == "meta-llama/Llama-3.1-8B")


@pytest.mark.parametrize("row", [row for row in STARTS if row["model_loading_gib"]], ids=label)
def test_weights_are_those_that_loading_took(row: dict[str, Any]) -> None:
    architecture = altered(row["config"], row["overrides"], row["quantization_config"])

    weights = estimate_budget(architecture, inputs_of(row)).weights

    logged = row["model_loading_gib"] * GIB
    assert weights.bytes == pytest.approx(logged, rel=0.015)
    assert weights.parameter_bytes <= weights.bytes


def test_four_of_five_logs_lie_in_the_interval_of_weights() -> None:
    inside = []
    for row in STARTS:
        if row["model_loading_gib"]:
            architecture = altered(row["config"], row["overrides"], row["quantization_config"])
            weights = estimate_budget(architecture, inputs_of(row)).weights
            logged = row["model_loading_gib"] * GIB
            inside.append(weights.low - HALF_DIGIT <= logged <= weights.high + HALF_DIGIT)

    assert sum(inside) >= 0.8 * len(inside)


@pytest.mark.parametrize("row", STARTS, ids=label)
def test_what_is_left_for_the_cache_is_what_the_log_says(row: dict[str, Any]) -> None:
    architecture = altered(row["config"], row["overrides"], row["quantization_config"])

    budget = estimate_budget(architecture, inputs_of(row))
    left = budget.available_kv

    logged = row["available_kv_gib"] * GIB
    assert left.low - HALF_DIGIT <= logged <= left.high + HALF_DIGIT
    assert abs(left.bytes - logged) < max(0.2 * GIB, 0.015 * budget.requested.bytes)


def test_pinned_cache_memory_is_taken_as_given() -> None:
    pinned = replace(inputs_of(LLAMA), kv_cache_memory_bytes=12_390_980_648)

    left = estimate_budget(bundled(LLAMA["config"]), pinned).available_kv

    assert (left.bytes, left.low, left.high) == (12_390_980_648,) * 3
    assert left.basis is Basis.GIVEN


@pytest.mark.parametrize(
    ("release", "eager", "reserves"),
    [("0.19.1", False, False), ("0.20.2", False, True), ("0.20.2", True, False), ("0.32.0", False, True)],
)
def test_graphs_are_set_aside_from_0_20_on_unless_eager(release: str, eager: bool, reserves: bool) -> None:
    inputs = replace(inputs_of(LLAMA), release=Version(release), enforce_eager=eager)

    graphs = estimate_budget(bundled(LLAMA["config"]), inputs).cuda_graphs

    assert (graphs.bytes > 0) is reserves


@pytest.mark.parametrize(("release", "requested"), [("0.13.0", 89), ("0.14.0", 90)])
def test_the_share_is_rounded_as_the_release_does(release: str, requested: int) -> None:
    total = Estimate(99, 99, 99, Basis.GIVEN, "given")
    inputs = replace(inputs_of(LLAMA), release=Version(release), total=total, gpu_memory_utilization=0.9)

    # 99 x 0.9 is 89.1.
    assert estimate_budget(bundled(LLAMA["config"]), inputs).requested.bytes == requested


def test_quantizing_while_loading_halves_the_linear_layers() -> None:
    plain = inputs_of(LLAMA)
    resident = estimate_budget(bundled(LLAMA["config"]), replace(plain, quantization="fp8")).weights

    # A log of 0.19.0: "Model loading took 8.49 GiB" for Llama-3.1-8B with --quantization fp8.
    assert resident.low - HALF_DIGIT <= 8.49 * GIB <= resident.high + HALF_DIGIT


def test_bitsandbytes_stores_half_a_byte_and_a_scale_for_64() -> None:
    model = "Qwen/Qwen2.5-3B-Instruct"
    inputs = replace(inputs_of(LLAMA), release=Version("0.18.0"), max_num_batched_tokens=2048)
    section = {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["mlp"]}

    def weights(config: ModelArchitecture, method: str | None = None) -> WeightsEstimate:
        return estimate_budget(config, replace(inputs, quantization=method)).weights

    while_loading = weights(bundled(model), "bitsandbytes")
    stored = weights(altered(model, quantization=section | {"llm_int8_skip_modules": None}))
    in_eight = weights(altered(model, quantization={"quant_method": "bitsandbytes", "load_in_8bit": True}))
    skipped = weights(altered(model, quantization=section))
    # A log of 0.18.0: "Model loading took 2.07 GiB" with --quantization bitsandbytes.
    assert while_loading.low - HALF_DIGIT <= 2.07 * GIB <= while_loading.high + HALF_DIGIT
    assert stored.parameter_bytes == while_loading.parameter_bytes
    # 36 layers of 77,070,336 elements: half a byte more for each, a scale a row for one each 64 elements.
    rows = 2048 + 256 + 256 + 2048 + 11008 + 11008 + 2048
    elements = 2048 * (2048 + 256 + 256 + 2048 + 3 * 11008)
    assert in_eight.parameter_bytes - stored.parameter_bytes == 36 * (
        elements // 2 + 4 * rows - elements // 16
    )
    assert skipped.parameter_bytes - stored.parameter_bytes == 36 * 3 * 2048 * 11008 * 23 // 16


@pytest.mark.parametrize(("release", "charged"), [("0.26.0", 0), ("0.27.0", 256 * (128_256 + 4_008) * 4)])
def test_the_second_runner_counts_tokens_of_every_request(release: str, charged: int) -> None:
    """Llama 3.1: 128,256 words of 32 bits for each request, and a bit for each word of the vocabulary."""
    some = replace(inputs_of(LLAMA), release=Version(release), max_num_seqs=256, v2_model_runner=True)
    more = replace(some, max_num_seqs=512)
    architecture = bundled(LLAMA["config"])

    def peak(inputs: BudgetInputs) -> int:
        return estimate_budget(architecture, inputs).activation.bytes

    assert peak(more) - peak(some) == charged


def test_a_checkpoint_that_disagrees_widens_the_weights() -> None:
    architecture = bundled(LLAMA["config"])
    agreed = replace(inputs_of(LLAMA), checkpoint_bytes=16_060_522_496)
    twice = replace(agreed, checkpoint_bytes=2 * 16_060_522_496)

    assert estimate_budget(architecture, agreed).weights.basis is Basis.COMPUTED
    doubted = estimate_budget(architecture, twice).weights
    assert doubted.basis is Basis.ASSUMED
    assert doubted.high >= 2 * 16_060_522_496


def test_an_unknown_quantization_takes_the_checkpoints_size() -> None:
    unknown = altered(LLAMA["config"], quantization={"quant_method": "exl3", "bits": 4})
    small = replace(inputs_of(LLAMA), checkpoint_bytes=5_000_000_000)

    specified = estimate_budget(unknown, small).weights
    unset = estimate_budget(unknown, inputs_of(LLAMA)).weights

    assert specified.basis is Basis.ASSUMED
    assert specified.bytes == pytest.approx(5_000_000_000, rel=0.05)
    assert unset.high - unset.low > specified.high - specified.low


def test_a_gpu_of_the_catalog_brings_its_total() -> None:
    gpu = find_gpu("h100-sxm-80gb")

    total = device_total(gpu)

    assert (total.bytes, total.low, total.high) == (
        gpu.memory_bytes,
        gpu.memory_low_bytes,
        gpu.memory_high_bytes,
    )
    # Logs of H100 80GB cards print 79.19 GiB.
    assert total.low <= 79.19 * GIB + HALF_DIGIT
    assert total.high >= 79.19 * GIB - HALF_DIGIT
    assert total.basis is Basis.MEASURED


def test_memory_of_the_host_is_the_least_certain() -> None:
    plain = inputs_of(LLAMA)
    apart, shared = (
        estimate_budget(bundled(LLAMA["config"]), replace(plain, unified_memory=unified)).available_kv
        for unified in (False, True)
    )

    assert shared.high - shared.low > apart.high - apart.low
    assert shared.basis is Basis.ASSUMED


@pytest.mark.parametrize(
    ("release", "compute_capability", "several", "saved_mib"),
    [
        ("0.16.0", (9, 0), True, 0),
        ("0.19.0", (9, 0), True, 2155 - 560),
        ("0.33.0", (10, 3), True, 2130 - 560),
        ("0.23.0", (8, 9), True, 0),
        ("0.23.0", (12, 0), True, 0),
        ("0.23.0", (9, 0), False, 0),
    ],
)
def test_only_a_compiled_start_fuses_the_all_reduce(
    release: str, compute_capability: tuple[int, int], several: bool, saved_mib: int
) -> None:
    """vLLM 0.19.0 to 0.33.0, enable_allreduce_rms_fusion: several ranks of Hopper or data-center Blackwell.

    OPTIMIZATION_LEVEL_00, which --enforce-eager sets, leaves the pass out and with it FlashInfer's room.
    """
    constants = constants_at(Version(release)).device
    compiled, eager = (
        non_torch_growth(compute_capability, constants, Ranks(several, runs_eagerly), unified_memory=False)
        for runs_eagerly in (False, True)
    )

    assert compiled.bytes - eager.bytes == saved_mib * MIB
    assert eager.high <= compiled.high


@pytest.mark.parametrize(
    ("release", "compute_capability", "eager", "logged_gib"),
    [
        ("0.19.0", (8, 9), False, 0.21),
        ("0.11.0", (8, 6), False, 0.05),
        ("0.22.0", (7, 5), True, 0.32),
        ("0.23.0", (9, 0), True, 0.01),
        # sealed starts, which the bounds were not read from: what one leaves, and what one logs
        ("0.28.0", (8, 9), False, 0.26),
        ("0.10.2", (8, 9), False, 0.21),
    ],
    ids=["four L40S", "four RTX 3090", "two T4", "two H200 NVL", "two L4", "eight L40S"],
)
def test_ranks_apart_grow_little(
    release: str, compute_capability: tuple[int, int], eager: bool, logged_gib: float
) -> None:
    """What starts leave beside weights, activation and graphs; on Hopper only where no pass fuses."""
    constants = constants_at(Version(release)).device
    apart, joined = (
        non_torch_growth(
            compute_capability, constants, Ranks(several=True, eager=eager, joined=near), unified_memory=False
        )
        for near in (False, True)
    )
    assert apart.low <= logged_gib * GIB <= apart.high
    assert apart.bytes < joined.bytes


def test_a_pass_fuses_the_exchange_of_ranks_apart_too() -> None:
    constants = constants_at(Version("0.23.0")).device
    apart, joined = (
        non_torch_growth((9, 0), constants, Ranks(several=True, joined=near), unified_memory=False)
        for near in (False, True)
    )
    assert apart == joined
