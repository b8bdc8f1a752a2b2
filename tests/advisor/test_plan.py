from dataclasses import replace

import pytest

from service.advisor.candidates.admission import Waiting
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import Objective, Workload
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import UnknownPatch, UnknownRelease
from service.memory.budget_types import Basis
from tests.advisor.questions import (
    GEMMA,
    LLAMA,
    QWEN,
    ask,
    ask_all,
)


def test_every_dtype_of_the_release_is_tried_at_every_size() -> None:
    candidates = ask_all(version="0.19.0").candidates
    tried = {(c.kv_cache_dtype, c.tensor_parallel_size) for c in candidates}
    # fp8_e4m3 is stored as fp8. With bfloat16 attention fails in this release, so that it is not auto.
    dtypes = {"auto", "float16", "bfloat16", "fp8", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"}
    assert tried == {(dtype, size) for dtype in dtypes for size in (1, 2, 4, 8)}
    assert len(candidates) == len(tried)


def test_candidates_that_do_not_start_come_last() -> None:
    verdicts = [candidate.verdict for candidate in ask_all().candidates]
    order = [Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED]
    assert verdicts == sorted(verdicts, key=order.index)


def test_balanced_recommends_the_fewest_gpus_and_a_lossless_cache() -> None:
    best = ask_all().recommended
    assert best is not None
    assert (best.tensor_parallel_size, best.resolved_kv_cache_dtype) == (1, "bfloat16")


def test_tokens_recommends_the_most() -> None:
    plan = ask_all(objective=Objective.TOKENS)
    assert plan.recommended is not None
    assert plan.recommended.kv_cache is not None
    starting = [c.kv_cache.tokens for c in plan.candidates if c.verdict is Verdict.STARTS and c.kv_cache]
    assert plan.recommended.kv_cache.tokens == max(starting)


def test_accuracy_never_recommends_a_lossy_cache_while_a_plain_one_starts() -> None:
    best = ask_all(objective=Objective.ACCURACY).recommended
    assert best is not None
    assert best.resolved_kv_cache_dtype in {"bfloat16", "float16"}


def test_nothing_is_recommended_where_nothing_starts() -> None:
    plan = ask_all("deepseek-ai/DeepSeek-V3", flags=ServeFlags(tensor_parallel_size=1), gpu="t4-16gb")
    assert plan.recommended is None
    assert all(candidate.verdict is Verdict.REFUSED for candidate in plan.candidates)


def test_weights_beyond_the_device_are_an_out_of_memory() -> None:
    candidate = ask(
        GEMMA, flags=ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto"), gpu="rtx-3090-24gb"
    )
    assert candidate.error is not None
    assert (candidate.error.type, candidate.error.stage) == ("OutOfMemoryError", Stage.MEMORY)
    assert candidate.kv_cache is None


def test_pinned_cache_bytes_beyond_the_device_are_warned_about() -> None:
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", kv_cache_memory_bytes=100 << 30)
    candidate = ask(flags=flags)
    assert candidate.memory is not None
    assert candidate.memory.available_kv.basis is Basis.GIVEN
    assert any("do not fit in" in warning for warning in candidate.warnings)


def test_a_verdict_inside_the_memory_interval_is_uncertain() -> None:
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=131072)
    budget = ask(flags=flags).memory
    assert budget is not None
    per_token = 131072  # bytes of Llama 3.1 8B: 32 layers x 2 x 8 heads x 128 x 2
    middle = min(131072, budget.available_kv.bytes // per_token)
    wide = [
        ask(
            flags=ServeFlags(
                tensor_parallel_size=1, kv_cache_dtype="auto", gpu_memory_utilization=share / 1000
            )
        )
        for share in range(300, 500, 5)
    ]
    verdicts = {candidate.verdict for candidate in wide}
    assert middle > 0
    assert verdicts >= {Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED}
    for candidate in wide:
        if candidate.verdict is Verdict.UNCERTAIN:
            assert "only a real start can measure" in candidate.warnings[0]


@pytest.mark.parametrize(
    ("dtype", "version", "gpu", "words"),
    [
        ("fp8_e5m2", "0.20.2", "h100-sxm-80gb", "Unrecognized FP8 dtype"),
        ("fp8", "0.20.2", "rtx-3090-24gb", "fp8e4nv not supported"),
    ],
)
def test_what_fails_at_its_first_attention_is_never_a_plain_yes(
    dtype: str, version: str, gpu: str, words: str
) -> None:
    model = GEMMA if gpu.startswith("rtx") else LLAMA
    flags = ServeFlags(
        tensor_parallel_size=2, kv_cache_dtype=dtype, kv_cache_memory_bytes=16 << 30, max_model_len=8192
    )
    candidate = ask(model, version, flags, gpu=gpu)
    assert candidate.verdict is Verdict.UNCERTAIN
    assert words in candidate.warnings[0]


def test_int8_per_token_head_is_fine_where_fp8_is_not() -> None:
    flags = ServeFlags(
        tensor_parallel_size=8,
        kv_cache_dtype="int8_per_token_head",
        kv_cache_memory_bytes=8 << 30,
        max_model_len=8192,
    )
    assert ask(GEMMA, "0.24.0", flags, gpu="rtx-3090-24gb").verdict is Verdict.STARTS


def test_a_cache_beyond_the_device_is_never_a_sure_start() -> None:
    # 62.5 GB of bfloat16 weights on two ranks are more than either card has.
    flags = ServeFlags(
        tensor_parallel_size=2, kv_cache_dtype="auto", kv_cache_memory_bytes=12390980648, max_model_len=131072
    )
    candidate = ask(GEMMA, "0.19.0", flags, gpu="rtx-3090-24gb")
    assert candidate.verdict is Verdict.UNCERTAIN
    assert candidate.kv_cache is not None
    assert "do not fit in" in candidate.warnings[0]
    roomy = ask(GEMMA, "0.19.0", flags, gpu="h100-sxm-80gb")
    assert roomy.verdict is Verdict.STARTS
    # Given blocks are no smaller than given bytes: 100,000 of 1,310,720 B are 122 GiB.
    blocks = replace(flags, kv_cache_memory_bytes=None, num_gpu_blocks_override=100_000)
    assert ask(GEMMA, "0.19.0", blocks, gpu="h100-sxm-80gb").verdict is Verdict.UNCERTAIN


def test_each_fix_that_is_named_was_tried() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1,
        kv_cache_dtype="turboquant_k8v4",
        max_model_len=8192,
        kv_cache_memory_bytes=4 << 30,
        max_num_seqs=32,
    )
    error = ask(QWEN, "0.20.2", flags).error
    assert error is not None
    dtypes = [
        fix.removeprefix("--kv-cache-dtype ") for fix in error.fix if fix.startswith("--kv-cache-dtype")
    ]
    assert dtypes
    for dtype in dtypes:
        assert ask(QWEN, "0.20.2", replace(flags, kv_cache_dtype=dtype)).verdict is Verdict.STARTS


def test_a_dtype_whose_size_is_not_modelled_is_uncertain() -> None:
    candidate = ask(
        "deepseek-ai/DeepSeek-V3", flags=ServeFlags(tensor_parallel_size=8, kv_cache_dtype="fp8_ds_mla")
    )
    assert candidate.verdict is not Verdict.STARTS
    assert candidate.kv_cache is None


def test_admission_says_why_the_next_request_waits() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=8192, kv_cache_memory_bytes=4 << 30
    )
    admission = ask(flags=flags, workload=Workload(4000, concurrent_requests=9)).admission
    assert admission is not None
    assert admission.blocks == 250  # 4000 / 16
    assert admission.free_blocks == 2047  # 4 GiB / (16 x 131,072) less the null block
    assert admission.admitted_at_once == 8
    # With three tokens of the answer one holds 251 blocks: 7 x 251 + 250 = 2007 fit, 8 x 251 + 250 do not.
    assert (admission.blocks_after_prefill, admission.waits_for) == (251, Waiting.BLOCKS)
    assert (
        "8 of 9 requests run at once; the next one finds 39 free blocks and waits." in admission.explanation
    )


def test_a_recurrent_state_takes_one_block_however_long_the_prompt() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=32768, kv_cache_memory_bytes=20 << 30
    )
    admission = ask(QWEN, flags=flags, workload=Workload(30_000)).admission
    assert admission is not None
    assert {group.blocks for group in admission.groups if group.kind == "mamba"} == {1}


def test_giant_blocks_are_warned_about_where_prefix_caching_is_on() -> None:
    flags = ServeFlags(
        tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=32768, kv_cache_memory_bytes=20 << 30
    )
    assert any("prefix caching rarely hits" in warning for warning in ask(QWEN, "0.32.0", flags).warnings)
    assert not any("prefix caching rarely hits" in warning for warning in ask(QWEN, "0.26.0", flags).warnings)


def test_the_same_question_has_the_same_answer() -> None:
    assert ask_all() == ask_all()


def test_unknown_releases_and_patches_are_refused() -> None:
    with pytest.raises(UnknownRelease):
        ask_all(version="0.9.0")
    with pytest.raises(UnknownPatch):
        ask_all(patches=("vllm#1",))


@pytest.mark.parametrize(("version", "planned"), [("0.34.0.dev5", "0.33.0"), ("0.23.1rc1.dev531", "0.24.0")])
def test_a_version_that_was_not_checked_never_starts_for_sure(version: str, planned: str) -> None:
    """The figures are those of the release that stands for it; only how sure they are differs."""
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=8192, kv_cache_dtype="auto")
    sure, unsure = ask(LLAMA, planned, flags), ask(LLAMA, version, flags)
    assert sure.verdict is Verdict.STARTS
    assert unsure.verdict is Verdict.UNCERTAIN
    assert unsure.kv_cache == sure.kv_cache
    assert unsure.doubts == (unsure.rules.doubt, *sure.doubts)
    assert version in unsure.doubts[0]


def test_a_refusal_in_doubt_stays_a_refusal_and_says_so() -> None:
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="nvfp4_ds_mla")
    for too_long in (flags, replace(flags, kv_cache_dtype="auto", max_model_len=1 << 30)):
        sure, unsure = ask(LLAMA, "0.33.0", too_long), ask(LLAMA, "0.34.0", too_long)
        assert sure.verdict is unsure.verdict is Verdict.REFUSED
        assert unsure.error is not None
        assert sure.error is not None
        assert replace(unsure.error, fixes=()) == replace(sure.error, fixes=())
        assert unsure.error.fix == sure.error.fix
        assert unsure.doubts == (unsure.rules.doubt, *sure.doubts)
