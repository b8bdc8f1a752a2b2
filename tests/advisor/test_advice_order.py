"""The order of advice, by cases worked out by hand and by what published commands do."""

import pytest

from service.advisor.candidates.advice import FALLBACK_BACKENDS, LIMITS, STEPS, Step
from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.steps_of_advice import Asked, requests_of, step_of
from service.advisor.plan import plan
from service.advisor.ranking.service_level import completed_of, serves
from service.advisor.request.plan_request import EngineChoice, Model, Objective, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from service.memory.budget_types import Basis
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import DEEPSEEK, LLAMA, QWEN, ask, ask_all

H100 = "h100-sxm-80gb"
L4 = "l4-24gb"
QWEN_8B = "Qwen/Qwen3-8B"


def best(found: GpuPlan) -> Candidate:
    assert found.recommended is not None, found.reason
    return found.recommended


def counted(model: str, gpu: str, count: int, workload: Workload | None = None) -> GpuPlan:
    request = PlanRequest(
        Model(model, None, "bundled", bundled_architecture(model)),
        (find_gpu(gpu),),
        EngineChoice.of("0.32.0"),
        workload=workload,
        counts=(count,),
        siblings=("org/quantized-FP8",),
    )
    return plan(request).plans[0]


def test_every_step_says_why_and_who_does_so() -> None:
    assert set(STEPS) == set(Step)
    assert all(step.words and step.source for step in STEPS.values())
    groups = [step.group for step in STEPS.values()]
    assert groups == sorted(groups)
    first, *_, last = STEPS
    assert (first, last) == (Step.FULL_LENGTH, Step.OTHER_CACHE)


def test_a_model_with_room_gets_no_flags_at_all() -> None:
    """Llama 3.1 8B: 15 GiB of weights and 16 GiB for 131,072 tokens of 128 KiB, on 79 GiB."""
    found = ask_all(LLAMA)

    assert best(found).command == f"vllm serve {LLAMA}"
    assert "the whole context of 131,072 tokens with a lossless cache" in found.reason


def test_a_card_that_is_too_small_for_the_context_gets_a_shorter_one() -> None:
    """On a 4090 (23.6 GiB at 92 %) 15 GiB of weights leave about 5 GiB: 128 KiB a token, 40,000 tokens."""
    found = ask_all(LLAMA, gpu="rtx-4090-24gb")
    chosen = best(found)

    assert (chosen.gpus, chosen.kv_cache_dtype, chosen.verdict) == (1, "auto", Verdict.STARTS)
    assert chosen.flags.max_model_len is not None
    assert 30_000 < chosen.flags.max_model_len < 45_000
    assert chosen.flags.max_model_len % 1024 == 0
    assert f"a context of {chosen.flags.max_model_len:,} tokens" in found.reason


def test_the_shorter_context_is_sure_to_fit() -> None:
    """The length is that of the low end of the memory, where the engine asks for no more than there is."""
    chosen = best(ask_all(LLAMA, gpu="rtx-4090-24gb"))
    assert chosen.memory is not None
    assert chosen.flags.max_model_len is not None
    bytes_per_token = 32 * 2 * 8 * 128 * 2

    assert chosen.memory.available_kv.basis is not Basis.GIVEN
    low = chosen.memory.available_kv.low
    assert chosen.flags.max_model_len * bytes_per_token <= low
    assert (chosen.flags.max_model_len + 2048) * bytes_per_token > low


def test_a_length_that_the_request_gives_is_never_shortened() -> None:
    found = ask_all(LLAMA, gpu="rtx-4090-24gb", flags=ServeFlags(max_model_len=65_536))

    assert {each.flags.max_model_len for each in found.candidates} == {65_536}


def test_one_start_that_is_asked_about_stays_one_candidate() -> None:
    flags = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1)
    candidate = ask(LLAMA, flags=flags, gpu="rtx-4090-24gb")

    assert candidate.verdict is Verdict.REFUSED
    assert candidate.error is not None
    assert any(fix.startswith("--max-model-len") for fix in candidate.error.fix)


def test_a_shorter_context_serves_the_workload_or_is_not_taken() -> None:
    long = Workload(60_000, 1_000, 1)
    found = ask_all(LLAMA, gpu="rtx-4090-24gb", workload=long)

    assert serves(best(found), long)
    shortened = [each.flags.max_model_len for each in found.candidates if each.flags.max_model_len]
    assert all(length >= 61_000 for length in shortened)


@pytest.mark.parametrize("gpu", [L4, "a10g-24gb", "rtx-4090-24gb"])
def test_a_small_model_does_not_take_a_second_card(gpu: str) -> None:
    chosen = best(ask_all(LLAMA, "0.33.0", gpu=gpu))

    assert chosen.gpus == 1
    assert chosen.kv_cache_dtype == "auto"
    assert (chosen.flags.max_model_len or 0) >= LIMITS.tokens


def test_several_gpus_hold_more_than_one_request() -> None:
    """Qwen3-VL-235B: 438 GiB of weights leave 4 H200 no room for two long requests; the recipe takes 8."""
    found = ask_all("Qwen/Qwen3-VL-235B-A22B-Instruct", "0.19.0", gpu="h200-sxm-141gb")

    assert best(found).gpus == 8
    assert best(found).kv_cache_dtype == "auto"
    whole = [each for each in found.candidates if each.gpus == 4 and not each.flags.max_model_len]
    starting = [each for each in whole if each.verdict is Verdict.STARTS and each.quality.bits >= 8]
    assert starting
    assert all(requests_of(each) < 2 for each in starting)
    assert "4 GPUs would hold only" in found.reason


def test_half_a_board_is_taken_only_with_room_for_four() -> None:
    """GLM-4.6-FP8 on H200: four GPUs hold 2.1 requests of 202,752 tokens; the recipe takes eight."""
    board = find_gpu("h200-sxm-141gb").nvlink_domain
    asked = Asked(ServeFlags(), node=8, nvlink=board)

    assert [asked.requests(gpus) for gpus in (1, 2, 4, 8)] == [1, 2, 4, 2]
    assert [Asked(ServeFlags(), node=8).requests(gpus) for gpus in (1, 2, 4, 8)] == [1, 2, 2, 2]
    assert Asked(ServeFlags(max_model_len=1000), node=8, nvlink=board).requests(4) == 1
    assert Asked(ServeFlags(), workload=Workload(10), node=8, nvlink=board).requests(4) == 1


def test_fewer_sequences_make_a_single_card_enough() -> None:
    """Qwen3.6 35B on one RTX PRO 6000: the recipe's answer to too few Mamba blocks is --max-num-seqs."""
    found = ask_all("Qwen/Qwen3.6-35B-A3B", "0.29.0", gpu="rtx-pro-6000-blackwell-workstation-96gb")
    chosen = best(found)

    assert chosen.gpus == 1
    assert chosen.verdict is Verdict.STARTS
    assert chosen.flags.max_num_seqs is not None
    assert chosen.start is not None
    assert chosen.kv_cache is not None
    assert chosen.flags.max_num_seqs <= chosen.kv_cache.num_blocks


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("Qwen/Qwen2.5-32B-Instruct", "0.28.0"),
        ("openai/gpt-oss-120b", "0.28.0"),
        ("openai/gpt-oss-120b", "0.33.0"),
        ("google/gemma-3-27b-it", "0.33.0"),
        (QWEN_8B, "0.33.0"),
    ],
)
def test_no_cache_that_nobody_runs_is_recommended(model: str, version: str) -> None:
    """Of 2,579 published commands on NVIDIA GPUs none has another cache than auto or fp8."""
    for gpu in (H100, L4, "b200-180gb"):
        found = ask_all(model, version, gpu=gpu)
        if found.recommended is not None:
            assert found.recommended.kv_cache_dtype in {"auto", "fp8"}


def test_the_objective_tokens_still_takes_the_densest() -> None:
    chosen = best(ask_all(LLAMA, "0.33.0", objective=Objective.TOKENS))

    assert chosen.quality.bits < 8


def test_names_of_one_cache_are_one_candidate() -> None:
    """vLLM 0.32.0: fp8 is fp8_e4m3 on CUDA, and bfloat16 what auto is for a bfloat16 model."""
    found = ask_all(LLAMA, "0.32.0")
    names = {each.kv_cache_dtype for each in found.candidates}

    assert {"auto", "fp8"} <= names
    assert not names & {"fp8_e4m3", "bfloat16"}


def test_an_unusual_backend_comes_after_the_usual_ones() -> None:
    assert {"TRITON_ATTN", "TRITON_MLA", "FLEX_ATTENTION"} <= FALLBACK_BACKENDS
    assert not {"FLASH_ATTN", "FLASHINFER", "FLASHMLA", "CUTLASS_MLA"} & FALLBACK_BACKENDS


def test_weights_that_do_not_fit_one_card_are_quantized_by_the_engine() -> None:
    """Qwen3 8B has 15.3 GiB of bfloat16 weights, a 4060 Ti 15.6 GiB of memory; 8 bits take half."""
    found = counted(QWEN_8B, "rtx-4060-ti-16gb", 1)
    chosen = best(found)

    assert chosen.flags.quantization == "fp8_per_tensor"
    assert "--quantization fp8_per_tensor" in chosen.command
    assert "org/quantized-FP8" in found.reason


def test_a_checkpoint_that_is_quantized_is_not_quantized_again() -> None:
    found = ask_all("Qwen/Qwen3-235B-A22B-FP8", gpu="a100-sxm-80gb")

    assert {each.flags.quantization for each in found.candidates} == {None}


def test_ranks_with_whole_experts_are_candidates_of_models_with_experts_alone() -> None:
    """One of tensor parallel attention and one of data parallel attention, on as many GPUs as are tried."""
    layouts = {
        (each.tensor_parallel_size, each.data_parallel_size)
        for each in ask_all(QWEN).candidates
        if each.flags.enable_expert_parallel
    }

    assert layouts == {(8, 1), (1, 8)}
    assert not any(each.flags.enable_expert_parallel for each in ask_all(LLAMA).candidates)


def test_data_parallel_attention_divides_the_cache_of_mla() -> None:
    """A latent vector is the same on every tensor parallel rank; data parallel ranks hold a cache each."""
    found = ask_all(DEEPSEEK, gpu="h200-sxm-141gb")
    plain, data = (
        next(
            each
            for each in found.candidates
            if (each.tensor_parallel_size, each.data_parallel_size) == ranks and each.kv_cache_dtype == "auto"
        )
        for ranks in ((8, 1), (1, 8))
    )

    assert plain.memory is not None
    assert data.memory is not None
    assert data.engines == 8
    assert requests_of(data) > 2 * requests_of(plain)
    assert "each of the 8 tensor parallel ranks stores the whole cache" in found.reason


def test_a_workload_beyond_one_cache_gets_a_cache_for_each_rank() -> None:
    """8 x H200 with tensor parallel MLA hold 3.8 x 163,840 tokens: fewer than 400 requests of 9,216."""
    heavy = Workload(8192, 1024, 400)
    chosen = best(ask_all(DEEPSEEK, gpu="h200-sxm-141gb", workload=heavy))

    assert (chosen.data_parallel_size, chosen.enable_expert_parallel, chosen.gpus) == (8, True, 8)
    assert completed_of(chosen) >= 400


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_no_more_gpus_are_taken_than_there_are(count: int) -> None:
    found = counted(LLAMA, H100, count)
    chosen = best(found)

    assert found.count == count
    assert all(each.all_gpus <= count for each in found.candidates)
    assert chosen.replicas == count // chosen.gpus


def test_replicas_multiply_what_one_holds() -> None:
    chosen = best(counted(LLAMA, H100, 8))

    assert (chosen.gpus, chosen.replicas) == (1, 8)
    assert chosen.kv_cache is not None
    assert chosen.all_tokens == 8 * chosen.kv_cache.tokens
    assert chosen.all_requests == 8 * chosen.kv_cache.max_concurrency


def test_gpus_that_are_there_are_used_before_the_context_is_cut() -> None:
    """gpt-oss-120b: one H100 holds two thirds of the context, two hold fourteen requests of all of it."""
    alone, several = (best(counted("openai/gpt-oss-120b", H100, count)) for count in (1, 8))

    assert (alone.gpus, alone.flags.max_model_len is None) == (1, False)
    assert (several.gpus, several.replicas, several.flags.max_model_len) == (2, 4, None)


def test_replicas_share_a_workload() -> None:
    """One replica of Llama 3.1 8B finishes about 48 requests of 9,216 tokens, eight finish 300 together."""
    shared = Workload(8192, 1024, 300)
    chosen = best(counted(LLAMA, H100, 8, shared))

    assert chosen.admission is not None
    assert chosen.admission.completed_without_preemption < 300
    assert serves(chosen, shared)
    assert chosen.all_gpus <= 8


def test_a_node_is_left_only_where_one_is_not_enough() -> None:
    """DeepSeek V3 in FP8 has 626 GiB of weights: more than four GPUs of 186 GB leave for a long context."""
    found = ask_all("deepseek-ai/DeepSeek-V3", "0.28.0", gpu="gb200-186gb")
    rack = find_gpu("gb200-186gb").nvlink_domain
    asked = Asked(ServeFlags(), node=4, nvlink=rack, full_length=163_840)

    assert best(found).gpus == 8
    assert step_of(best(found), asked) is Step.NEXT_NODE
