"""What fewer GPUs do with quantized weights, and the two layouts of a mixture of experts, in one sentence."""

import re
from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import GpuPlan
from service.advisor.plan import plan
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from service.units import GIB
from tests.advisor.questions import DEEPSEEK, ask_all
from tests.advisor.test_combined_fixes import GEMMA, GPTQ
from tests.advisor.test_fixes import requested


def planned(model: str, gpu: str, *siblings: str, **more: object) -> GpuPlan:
    request = requested(model, gpu, "0.33.0", ServeFlags(), **more)
    return plan(replace(request, siblings=siblings)).plans[0]


def test_one_gpu_is_said_to_be_enough_for_a_4_bit_checkpoint() -> None:
    """Gemma 3 27B: 51 GiB of 16 bits take several RTX 4090, 15.7 GiB of 4 bits one of them."""
    found = planned(GEMMA, "rtx-4090-24gb", GPTQ)
    said = re.search(
        r"One GPU is sure to start with a context of ([\d,]+) tokens.*?: checkpoint (\S+)", found.reason
    )

    assert found.recommended is not None
    assert found.recommended.gpus > 1
    assert said is not None
    assert said[2] == GPTQ
    # What is left beside the weights, by 10 x 2 x 16 x 128 B a token, is the most that could be said.
    assert 16_384 <= int(said[1].replace(",", "")) < (0.92 * 23.52 - 15.7) * GIB / (10 * 2 * 16 * 128)


def test_one_gpu_is_not_said_to_be_enough_where_the_weights_alone_take_more() -> None:
    """Qwen3-32B: 31.2 billion weights of 8 bits and 1.56 of 16 take 32 GiB of 23.5."""
    found = planned("Qwen/Qwen3-32B", "rtx-4090-24gb", "Qwen/Qwen3-32B-FP8")
    assert "One GPU is sure" not in found.reason


def test_more_gpus_are_no_news_where_one_is_recommended() -> None:
    assert "sure to start" not in planned("Qwen/Qwen3-8B", "h100-sxm-80gb", "Qwen/Qwen3-8B-AWQ").reason


def test_a_checkpoint_that_holds_the_whole_context_is_named_beside_a_shortened_one() -> None:
    """Qwen3-8B on an L4: 16 bits take 15.3 of 20.3 GiB, 8 bits 8.8 and leave 40,960 x 147,456 B the room."""
    found = planned("Qwen/Qwen3-8B", "l4-24gb", "Qwen/Qwen3-8B-FP8")

    assert found.recommended is not None
    assert found.recommended.gpus == 1
    assert found.recommended.flags.max_model_len is not None
    assert found.recommended.flags.max_model_len < 40_960 < (0.92 * 22.04 - 8.8 - 2.5) * GIB / 147_456
    said = "One GPU is sure to start with a context of 40,960 tokens"
    assert found.reason.split(". ")[2].startswith(said)
    assert "checkpoint Qwen/Qwen3-8B-FP8" in found.reason


NVLINK = "GPUs of this type have no NVLink"


def test_ranks_without_nvlink_are_spared_by_weights_of_8_bits() -> None:
    """Gemma 4 31B on RTX 5090: 58 GiB of 16 bits hold the whole context on 8, 30 GiB of 8 bits fit in 2."""
    found = planned("google/gemma-4-31B-it", "rtx-5090-32gb")

    assert found.recommended is not None
    assert found.recommended.gpus == 2
    assert found.recommended.flags.quantization == "fp8_per_tensor"
    assert NVLINK in found.reason
    assert "One GPU is sure to start" in found.reason


@pytest.mark.parametrize(("count", "named"), [(None, True), (1, False)])
def test_nvlink_is_named_only_where_another_gpu_is_a_choice(count: int | None, *, named: bool) -> None:
    """Qwen3-32B on L40S: 8-bit weights fit in one; with one GPU alone there is no second to exchange with."""
    asked = requested("Qwen/Qwen3-32B", "l40s-48gb", "0.33.0", ServeFlags()).with_count(count)
    found = plan(asked).plans[0]

    assert found.recommended is not None
    assert found.recommended.gpus == 1
    assert found.recommended.flags.quantization == "fp8_per_tensor"
    assert (NVLINK in found.reason) is named


@pytest.mark.parametrize("siblings", [(), ("Qwen/Qwen3-32B-FP8",)])
def test_weights_that_each_start_rounds_are_held_against_a_published_checkpoint(
    siblings: tuple[str, ...],
) -> None:
    """Qwen3-32B on an L40S: 61 GiB are read at each start, or 32 of the checkpoint in FP8."""
    found = planned("Qwen/Qwen3-32B", "l40s-48gb", *siblings)

    assert found.recommended is not None
    assert found.recommended.flags.quantization == "fp8_per_tensor"
    assert ("reads the 16-bit weights" in found.reason) is bool(siblings)


def test_levers_that_cannot_be_are_said_to_be_none() -> None:
    """Nothing starts on one RTX 4090, so there is nothing to change."""
    asked = requested(GEMMA, "rtx-4090-24gb", "0.33.0", ServeFlags(), with_levers=True).with_count(1)
    near = nearest_refused(plan(asked).plans[0].candidates)
    assert near is not None
    assert near.error is not None
    assert any("--include levers" in each for each in near.error.notes)
    without = nearest_refused(plan(replace(asked, with_levers=False)).plans[0].candidates)
    assert without is not None
    assert without.error is not None
    assert not any("--include levers" in each for each in without.error.notes)


@pytest.mark.parametrize("workload", [None, Workload(8000, 1000, 64)])
def test_layouts_of_experts_are_compared_on_the_same_gpus(workload: Workload | None) -> None:
    """DeepSeek-V3.1 on 8 H200: ranks of tensor parallel latent attention store the same cache each.

    Ranks with attention of their own store different requests, beside whole attention weights each.
    """
    found = ask_all(DEEPSEEK, "0.33.0", gpu="h200-sxm-141gb", workload=workload)
    said = re.search(
        r"\(--data-parallel-size 8 --enable-expert-parallel\) on the same 8 GPUs would hold (\d+) requests "
        r"of 163,840 tokens instead of (\d+\.\d)( and give [\d.]+ times the tokens per second)?",
        found.reason,
    )
    assert found.recommended is not None
    assert found.recommended.kv_cache is not None
    assert said is not None
    # At most 8 times as many; the attention weights of 61 layers on every rank take less than half of that.
    assert 4 < float(said[1]) / float(said[2]) < 8
    assert (said[3] is None) == (workload is None)


def test_ranks_stay_where_nvlink_joins_them() -> None:
    """Mistral Small 3.2: 44.8 GiB of 16 bits on RTX A6000 of 47.4, which bridges join in pairs at most."""
    model = "mistralai/Mistral-Small-3.2-24B-Instruct-2506"
    plain = requested(model, "rtx-a6000-48gb", "0.33.0", ServeFlags())
    (gpu,) = plain.gpus
    bridged = replace(plain, gpus=(gpu.with_nvlink_promised(),))
    alone, pair = plan(plain).plans[0], plan(bridged).plans[0]

    assert alone.recommended is not None
    assert alone.recommended.gpus == 1
    assert "which is bought apart" in alone.reason
    assert pair.recommended is not None
    assert (pair.recommended.gpus, pair.recommended.flags.quantization) == (2, None)
    assert "NVLink" not in pair.reason
