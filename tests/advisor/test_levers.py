"""Levers: each is the difference of two plans, made apart."""

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.lever_costs import LeverCost
from service.advisor.candidates.plan_types import Candidate
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES
from tests.advisor.questions import (
    DEEPSEEK,
    GEMMA,
    LLAMA,
    QWEN,
    ask,
    ask_all,
)

MODELS = (GEMMA, LLAMA, QWEN, "openai/gpt-oss-20b", "mistralai/Mistral-7B-v0.1", "deepseek-ai/DeepSeek-V3")
GPUS = ("h100-sxm-80gb", "rtx-3090-24gb", "b200-180gb", "h200-sxm-141gb")


@pytest.mark.parametrize("seed", range(20))
def test_every_lever_is_the_difference_of_two_plans(seed: int) -> None:
    random = Random(seed)
    model, gpu, version = random.choice(MODELS), random.choice(GPUS), random.choice(("0.24.0", "0.32.0"))
    workload = Workload(random.choice((500, 16_001)), 200, 8) if random.random() < 0.6 else None
    flags = ServeFlags(
        max_model_len=random.choice((4096, 32_768)),
        kv_cache_dtype=random.choice((None, "auto")),
        tensor_parallel_size=random.choice((None, 1, 4, 8)),
    )
    plan = ask_all(model, version, flags, gpu=gpu, workload=workload, with_levers=True)
    if plan.recommended is None or plan.recommended.kv_cache is None:
        assert not plan.levers
        return
    assert plan.levers
    for lever in plan.levers:
        if lever.layout:
            continue  # its figures are those of all ranks together: below
        changed, to = plan.recommended.flags, lever.version or version
        if lever.flag is not None:
            one: dict[str, Any] = {lever.flag: lever.value}
            changed = replace(changed, **one)
        patches = () if lever.patch is None else (lever.patch,)
        after = ask(model, to, changed, gpu=gpu, patches=patches, workload=workload)
        before = ask(model, version, plan.recommended.flags, gpu=gpu, workload=workload)
        assert effect(lever) == difference(before, after), lever.change
        assert lever.cost


def test_data_parallel_attention_holds_the_cache_of_every_rank() -> None:
    """Tensor parallel ranks of MLA store one cache eight times; eight replicas of attention store eight."""
    flags = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=8, max_model_len=32_768)
    plan = ask_all(DEEPSEEK, flags=flags, gpu="h200-sxm-141gb", with_levers=True)
    assert plan.recommended is not None
    lever = next(each for each in plan.levers if each.layout)
    spread: dict[str, Any] = dict(lever.layout)
    after = ask(DEEPSEEK, flags=replace(flags, **spread), gpu="h200-sxm-141gb")
    assert after.gpus == plan.recommended.gpus
    assert after.kv_cache is not None
    assert plan.recommended.kv_cache is not None
    assert lever.tokens == 8 * after.kv_cache.tokens - plan.recommended.kv_cache.tokens
    assert lever.command == after.command
    assert not any(each.layout for each in ask_all(LLAMA, flags=flags, with_levers=True).levers)


@pytest.mark.parametrize(("gpu", "unpacks"), [("h200-sxm-141gb", True), ("b200-180gb", False)])
def test_fp4_weights_are_unpacked_where_there_are_no_fp4_units(gpu: str, *, unpacks: bool) -> None:
    """Tensor cores multiply FP4 from compute capability 10.0 on; below, vLLM warns of weight-only Marlin."""
    siblings = ("nvidia/Llama-3.1-8B-NVFP4",)
    plan = ask_all(LLAMA, gpu=gpu, siblings=siblings, with_levers=True)
    lever = next(each for each in plan.levers if each.checkpoint == siblings[0])
    assert (LeverCost.PREFILL in lever.costs) is unpacks
    assert ("unpacked to 16 bits" in lever.cost) is unpacks
    assert lever.command.startswith(f"vllm serve {siblings[0]}")


@pytest.mark.parametrize(
    ("checkpoint", "gpu", "tokens"),
    [
        # Dense 16-bit operations a second over bytes a second, of the datasheets: an element takes two
        # of each.
        ("Qwen/Qwen3-32B-AWQ", "h100-sxm-80gb", 989 / 3.35),
        ("RedHatAI/Qwen3-32B-NVFP4A16", "b200-180gb", 2250 / 8.0),
        ("Qwen/Qwen3-32B-FP8", "a100-sxm-80gb", 312 / 2.039),
        ("Qwen/Qwen3-32B-FP8", "h100-sxm-80gb", None),
        ("RedHatAI/Qwen3-32B-quantized.w8a8", "a100-sxm-80gb", None),
    ],
)
def test_unpacked_weights_say_from_which_step_they_are_slower(
    checkpoint: str, gpu: str, tokens: float | None
) -> None:
    """Ampere multiplies 8-bit integers and no 8-bit floats; nothing multiplies 4-bit integers in vLLM."""
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384)
    plan = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, gpu=gpu, siblings=(checkpoint,), with_levers=True)
    (lever,) = (each for each in plan.levers if each.checkpoint == checkpoint)
    named = re.search(r"more than about ([\d,]+) tokens a step", lever.cost)

    assert (LeverCost.PREFILL in lever.costs) is (tokens is not None)
    assert (named is None) is (tokens is None)
    if named is not None:
        assert int(named[1]) == pytest.approx(tokens, rel=0.05)


def test_weights_rounded_online_are_unpacked_on_ampere() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384)
    for gpu, costs in (
        ("a100-sxm-80gb", ("accuracy", "start_time", "prefill")),
        ("h100-sxm-80gb", ("accuracy", "start_time")),
    ):
        found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, gpu=gpu, with_levers=True).levers
        (lever,) = (each for each in found if each.flag == "quantization")
        assert lever.costs == costs


def effect(lever: Lever) -> tuple[float | None, ...]:
    sizes = (lever.tokens, lever.available_bytes, lever.max_concurrency, lever.estimated_max_model_len)
    return (*sizes, lever.admitted_at_once)


def difference(before: Candidate, after: Candidate) -> tuple[float | None, ...]:
    one, other = before.kv_cache, after.kv_cache
    assert one is not None
    assert other is not None
    admitted = None
    if before.admission is not None and after.admission is not None:
        admitted = after.admission.admitted_at_once - before.admission.admitted_at_once
    return (
        other.tokens - one.tokens,
        other.available_bytes - one.available_bytes,
        other.max_concurrency - one.max_concurrency,
        other.estimated_max_model_len - one.estimated_max_model_len,
        admitted,
    )


def test_levers_are_ranked_as_an_expert_tries_them() -> None:
    """What costs nothing, then accuracy by what is published, then speed; details and ruined answers last.

    Published: fp8 loses hardly anything, TurboQuant of 3 bits 20.59 % of perplexity. Fewer tokens a batch
    are no lever of a start that compiles: 8,192 x (2 x 5,120 + 3 x 25,600) x 2 bytes and 128 MiB are 1.45
    GiB, and the copy of 151,936 x 5,120 x 2 bytes and 20 MiB is 1.47.
    """
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    named = ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-AWQ", "RedHatAI/Qwen3-32B-NVFP4A16")
    found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, with_levers=True, siblings=named).levers
    order = [lever.change for lever in found]

    assert order[:6] == [
        "--gpu-memory-utilization 0.95",
        "checkpoint Qwen/Qwen3-32B-FP8",
        "--quantization fp8_per_tensor",
        "--kv-cache-dtype fp8",
        "checkpoint Qwen/Qwen3-32B-AWQ",
        "--kv-cache-dtype nvfp4",
    ]
    eager, places = order.index("--enforce-eager"), {each: place for place, each in enumerate(order)}
    # Nothing is published of these: last of what costs accuracy, before what costs speed.
    for unpublished in ("--kv-cache-dtype fp8_e5m2", "checkpoint RedHatAI/Qwen3-32B-NVFP4A16"):
        assert places["--kv-cache-dtype nvfp4"] < places[unpublished] < eager
    # Figures of one model, on a kernel that the engine tries last.
    assert places["--kv-cache-dtype int4_per_token_head"] > eager
    assert places["--kv-cache-dtype int4_per_token_head"] > places["--kv-cache-dtype turboquant_4bit_nc"]
    assert places["--kv-cache-dtype turboquant_3bit_nc"] > places["--tensor-parallel-size 2"] > eager
    # 512 requests at most free 0.30 of 7.13 GiB: less than a twentieth.
    assert order[-1] == "--max-num-seqs 512"


@pytest.mark.parametrize(
    ("gpu", "slow"), [("h100-sxm-80gb", True), ("l40s-48gb", True), ("b200-180gb", False)]
)
def test_an_nvfp4_cache_costs_time_of_prompts_where_fa2_reads_it(gpu: str, slow: bool) -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    found = ask_all(LLAMA, "0.33.0", flags, gpu=gpu, with_levers=True).levers
    (lever,) = [each for each in found if each.change == "--kv-cache-dtype nvfp4"]
    assert (LeverCost.PREFILL in lever.costs) is slow
    assert ("Prompts take longer" in lever.cost) is slow


def test_a_lever_says_what_it_costs_in_one_word_group() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    named = ("Qwen/Qwen3-32B-FP8",)
    found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, with_levers=True, siblings=named).levers
    costs = {lever.change: lever.costs for lever in found}

    assert costs["--gpu-memory-utilization 0.95"] == ("free",)
    assert costs["checkpoint Qwen/Qwen3-32B-FP8"] == ("accuracy",)
    assert costs["--quantization fp8_per_tensor"] == ("accuracy", "start_time")
    assert costs["--enforce-eager"] == ("speed",)
    assert costs["--kv-cache-dtype int4_per_token_head"] == ("accuracy", "speed")
    assert costs["--kv-cache-dtype turboquant_3bit_nc"] == ("much_accuracy", "speed")
    assert costs["--tensor-parallel-size 2"] == ("gpus",)


def test_gains_below_a_twentieth_come_last_whatever_they_cost() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=65_536, kv_cache_dtype="auto")
    workload = Workload(16_001, 200, 64)
    found = ask_all(GEMMA, "0.32.0", flags, gpu="h200-sxm-141gb", workload=workload, with_levers=True)
    assert found.recommended is not None
    assert found.recommended.admission is not None
    now = found.recommended.admission
    parts = [
        max(
            (lever.completed_without_preemption or 0) / now.completed_without_preemption,
            (lever.admitted_at_once or 0) / now.admitted_at_once,
        )
        for lever in found.levers
    ]
    small = [part < 0.05 for part in parts]
    assert True in small
    assert False in small
    assert small == sorted(small)


def test_a_limit_that_the_workload_does_not_reach_is_free() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    without = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, with_levers=True).levers
    workload = Workload(4000, 200, 16)
    found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, with_levers=True, workload=workload).levers
    seqs = {lever.change: lever.costs for lever in (*without, *found) if lever.flag == "max_num_seqs"}

    assert seqs["--max-num-seqs 512"] == ("free",)
    assert {lever.costs for lever in without if lever.flag == "max_num_seqs"} == {("requests",)}


def test_8_bit_integer_activations_are_no_lever_on_blackwell() -> None:
    """CUTLASS has no such kernels from compute capability 10.0 on: vLLM's pull request 25935."""
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    named = ("org/Qwen3-32B-quantized.w8a8", "Qwen/Qwen3-32B-AWQ")
    checkpoints = {}
    for gpu in ("h100-sxm-80gb", "b200-180gb"):
        found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, gpu=gpu, with_levers=True, siblings=named).levers
        checkpoints[gpu] = [each.checkpoint for each in found if each.checkpoint]

    assert checkpoints["h100-sxm-80gb"] == list(named)
    assert checkpoints["b200-180gb"] == ["Qwen/Qwen3-32B-AWQ"]


def test_quantized_weights_are_levers_by_their_loss() -> None:
    """Of Qwen3-32B, 31,205,621,760 elements lie in linear layers that are quantized (64 layers).

    A layer has 5120 x (64 + 2 x 8) x 128 of queries, keys and values, 64 x 128 x 5120 of the output and
    3 x 5120 x 25,600 of the feed-forward part. 16 bits take two bytes each, FP8 one.
    """
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=21_504, kv_cache_dtype="auto")
    named = ("Qwen/Qwen3-32B-AWQ", "org/Qwen3-32B-of-no-format")
    found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags, with_levers=True, siblings=named).levers
    by_change = {lever.change: lever for lever in found}
    fp8, cache = by_change["--quantization fp8_per_tensor"], by_change["--kv-cache-dtype fp8"]
    elements = 64 * 5120 * ((64 + 16) * 128 + 64 * 128 + 3 * 25_600)

    assert elements == 31_205_621_760
    # Besides, scales, and what loading leaves behind.
    assert 0.995 * elements < fp8.available_bytes <= elements * 1.005
    assert fp8.loss == cache.loss
    assert found.index(fp8) < found.index(cache)
    # AWQ: 4 bits, and of each 128 inputs a scale of 16 bits and a zero point of 4.
    awq = by_change["checkpoint Qwen/Qwen3-32B-AWQ"]
    saved = elements * (2 - 0.5 - 2.5 / 128)
    assert 0.99 * saved < awq.available_bytes < 1.01 * saved
    assert (awq.checkpoint, awq.flag) == ("Qwen/Qwen3-32B-AWQ", None)
    assert found.index(awq) > found.index(cache)
    assert "checkpoint org/Qwen3-32B-of-no-format" not in by_change


def test_weights_that_are_quantized_already_are_no_lever() -> None:
    for model, method in (("openai/gpt-oss-20b", None), ("Qwen/Qwen3-32B", "fp8_per_tensor")):
        flags = ServeFlags(
            tensor_parallel_size=1, max_model_len=8192, kv_cache_dtype="auto", quantization=method
        )
        named = (f"{model}-AWQ",)
        found = ask_all(model, "0.33.0", flags, with_levers=True, siblings=named).levers
        assert found
        assert not any(lever.flag == "quantization" or lever.checkpoint for lever in found)


def test_a_shorter_length_alone_is_no_lever() -> None:
    """Half the maximum length doubles the concurrency in the log; the cache holds what it held."""
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    for model in (LLAMA, "Qwen/Qwen3-32B"):
        found = ask_all(model, "0.33.0", flags, with_levers=True).levers
        assert found
        assert "max_model_len" not in {lever.flag for lever in found}


def test_of_a_window_that_two_batches_reserve_for_the_lever_is_one_batch_or_a_smaller_one() -> None:
    # vLLM 0.26 and later: (1024 - 1 + 2 x 8192) / 16 + 1 = 1089 blocks of a window are reserved for a request
    # of the maximum length, and 577 without asynchronous scheduling.
    flags = ServeFlags(
        tensor_parallel_size=1, max_model_len=65_536, kv_cache_dtype="auto", max_num_batched_tokens=8192
    )
    found = ask_all(GEMMA, "0.32.0", flags, gpu="h200-sxm-141gb", with_levers=True).levers
    gains = {lever.change: lever.max_concurrency for lever in found}
    assert gains["--no-async-scheduling"] > 0
    assert gains["--max-num-batched-tokens 2048"] > gains["--max-num-batched-tokens 4096"] > 0


def test_a_patch_and_a_release_are_levers() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=131_072,
        max_num_batched_tokens=8192,
        num_gpu_blocks_override=24_000,
        kv_cache_dtype="auto",
    )
    plan = ask_all(
        GEMMA, "0.19.0", flags, gpu="h200-sxm-141gb", workload=Workload(65_536, 0, 4), with_levers=True
    )
    found = {lever.patch or lever.version: lever for lever in plan.levers if lever.flag is None}
    # One session of 65,536 tokens at once becomes nine: see the failures of spring 2026.
    assert found["vllm#39866"].admitted_at_once == 8
    assert str(RELEASES[-1]) in found


def test_what_is_already_so_is_no_lever() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=4096,
        kv_cache_dtype="auto",
        async_scheduling=False,
        enforce_eager=True,
    )
    workload, newest = Workload(8000, 200, 8), str(RELEASES[-1])
    found = ask_all(LLAMA, newest, flags, workload=workload, with_levers=True).levers
    changes = {lever.change for lever in found}
    assert changes
    assert changes.isdisjoint({"--no-async-scheduling", "--enforce-eager", f"vLLM {newest}"})
    # 4096 tokens are less than the 8200 that are needed: only half of them is tried.
    assert {lever.value for lever in found if lever.flag == "max_model_len"} <= {2048}


def test_a_patch_that_is_built_in_is_no_lever() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=65_536, kv_cache_dtype="auto")
    patches = ("vllm#39866",)
    found = ask_all(GEMMA, "0.19.0", flags, gpu="h200-sxm-141gb", patches=patches, with_levers=True).levers
    assert found
    assert "vllm#39866" not in {lever.patch for lever in found}


def test_what_does_not_start_has_no_levers() -> None:
    plan = ask_all("deepseek-ai/DeepSeek-V3", flags=ServeFlags(tensor_parallel_size=1), with_levers=True)
    assert plan.recommended is None or plan.recommended.kv_cache is None
    assert plan.levers == ()


def test_there_are_no_levers_unless_requested() -> None:
    assert ask_all().levers == ()


def test_levers_give_something_and_name_a_stored_format_once() -> None:
    """fp8 and fp8_e4m3 are stored alike on CUDA: vLLM 0.20.0, csrc/attention/dtype_fp8.cuh."""
    flags = ServeFlags(tensor_parallel_size=2, max_model_len=16_384, kv_cache_dtype="auto")
    found = ask_all(LLAMA, "0.33.0", flags, with_levers=True).levers
    dtypes = [lever.value for lever in found if lever.flag == "kv_cache_dtype"]

    assert found
    assert all(f"{lever.max_concurrency:.2f}" > "0.00" for lever in found)
    assert len({"fp8", "fp8_e4m3"} & set(dtypes)) == 1
    assert not any(lever.change == "--tensor-parallel-size 1" for lever in found)
