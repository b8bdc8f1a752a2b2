"""The three failures that this service grew out of, in the numbers that people reported."""

import pytest

from service.advisor.candidates.admission import Admission, Waiting
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import find_release, rules_for
from service.kv_cache.formats import cache_format
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    SpecLayers,
    StateSpec,
)
from service.kv_cache.unification import unify_page_sizes
from tests.advisor.questions import (
    GEMMA,
    LLAMA,
    QWEN,
    ask,
)

AVAILABLE = 12_390_980_648
"""11.54 GiB, as two RTX 3090 logged."""


def gemma_flags(dtype: str = "auto", batched: int = 2048) -> ServeFlags:
    return ServeFlags(
        tensor_parallel_size=2,
        max_model_len=131072,
        max_num_batched_tokens=batched,
        kv_cache_memory_bytes=AVAILABLE,
        kv_cache_dtype=dtype,
    )


def test_gemma_4_logs_25_200_tokens_and_1_87() -> None:
    cache = ask(GEMMA, "0.19.0", gemma_flags()).kv_cache
    assert cache is not None
    assert (cache.num_blocks, cache.tokens) == (9453, 25_200)
    assert round(cache.max_concurrency, 4) == 1.8678
    assert cache.log_lines == (
        "GPU KV cache size: 25,200 tokens",
        "Maximum concurrency for 131,072 tokens per request: 1.87x",
    )
    assert [group.layers for group in cache.groups] == [10] * 6
    assert {group.page_size_bytes for group in cache.groups} == {131_072}
    assert [group.block_size for group in cache.groups if group.kind == "full_attention"] == [32]


@pytest.mark.parametrize(
    ("version", "batched", "tokens", "concurrency"),
    [
        ("0.19.0", 8192, 25_200, "1.35"),
        ("0.20.2", 2048, 244_817, "1.87"),
        ("0.32.0", 2048, 217_334, "1.66"),
    ],
)
def test_gemma_4_by_release_and_batch(version: str, batched: int, tokens: int, concurrency: str) -> None:
    cache = ask(GEMMA, version, gemma_flags(batched=batched)).kv_cache
    assert cache is not None
    assert (cache.tokens, f"{cache.max_concurrency:.2f}") == (tokens, concurrency)


def test_int8_per_token_head_does_not_exist_in_0_19_0() -> None:
    error = ask(GEMMA, "0.19.0", gemma_flags("int8_per_token_head")).error
    assert error is not None
    assert (error.type, error.stage) == ("ValidationError", Stage.DTYPE)
    assert "'fp8_e5m2'" in error.message


def test_page_factors_520_and_1032_do_not_divide_in_0_20_2() -> None:
    candidate = ask(GEMMA, "0.20.2", gemma_flags("int8_per_token_head"))
    error = candidate.error
    assert error is not None
    assert candidate.verdict is Verdict.REFUSED
    assert (error.type, error.stage) == ("NotImplementedError", Stage.PAGE_SIZE)
    assert error.message == (
        "The page size of the layer is not divisible by the maximum page size. "
        "Cannot unify by adjusting block_size."
    )
    assert "66,560" in error.detail
    assert "33,024" in error.detail
    assert any("vllm#40391" in fix for fix in error.fix)


def test_patch_40391_pads_the_factor_to_1040() -> None:
    flags = gemma_flags("int8_per_token_head")
    cache = ask(GEMMA, "0.20.2", flags, patches=("vllm#40391",)).kv_cache
    assert cache is not None
    (full,) = (group for group in cache.groups if group.kind == "full_attention")
    assert full.page_size_bytes // (full.block_size * 2) == 1040
    assert full.unpadded_page_size_bytes // (full.block_size * 2) == 1032


def test_0_32_0_pads_whole_pages_and_says_what_that_wastes() -> None:
    candidate = ask(GEMMA, "0.32.0", gemma_flags("int8_per_token_head"))
    cache = candidate.kv_cache
    assert cache is not None
    assert (cache.num_blocks, cache.tokens, f"{cache.max_concurrency:.2f}") == (18_616, 249_059, "1.90")
    assert any("10 x (66,560 - 33,024) bytes per block" in warning for warning in candidate.warnings)


@pytest.mark.parametrize(
    ("version", "patches", "async_scheduling", "per_group"),
    [
        ("0.19.0", (), None, 1001),
        ("0.19.1", (), None, 1001),
        ("0.20.2", (), None, 577),
        ("0.19.0", ("vllm#39866",), None, 576),
        ("0.32.0", (), None, 1001),
        ("0.32.0", (), False, 577),
    ],
)
def test_sliding_window_admission_of_16_001_tokens(
    version: str, patches: tuple[str, ...], async_scheduling: bool | None, per_group: int
) -> None:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=65536,
        max_num_batched_tokens=8192,
        kv_cache_memory_bytes=60 << 30,
        kv_cache_dtype="auto",
        async_scheduling=async_scheduling,
    )
    admission = ask(
        GEMMA, version, flags, gpu="h200-sxm-141gb", patches=patches, workload=Workload(16_001)
    ).admission
    assert admission is not None
    sliding = [group.blocks for group in admission.groups if group.kind == "sliding_window"]
    assert sliding == [per_group] * 5
    assert admission.sliding_window_blocks == 5 * per_group


def sessions(blocks: int, prompt: int, wanted: int, patches: tuple[str, ...] = ()) -> Admission:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=131_072,
        max_num_batched_tokens=8192,
        num_gpu_blocks_override=blocks,
        kv_cache_dtype="auto",
    )
    workload = Workload(prompt, concurrent_requests=wanted)
    admission = ask(
        GEMMA, "0.19.0", flags, gpu="h200-sxm-141gb", patches=patches, workload=workload
    ).admission
    assert admission is not None
    return admission


def test_the_table_of_pull_request_39866_is_one_answer() -> None:
    patched = sessions(24_000, 16_001, 4, ("vllm#39866",))
    windows = [group for group in patched.groups if group.kind == "sliding_window"]
    # 1024 + 8192 = 9216 tokens are counted, not 16,001; 9216 / 16 = 576, not ceil(16,001 / 16) = 1001.
    assert {group.counted_tokens for group in windows} == {9216}
    assert {(group.whole_prompt_blocks, group.blocks) for group in windows} == {(1001, 576)}
    # Five groups of ten layers: 5 x 1001 = 5005 and 5 x 576 = 2880.
    assert (patched.whole_sliding_window_blocks, patched.sliding_window_blocks) == (5005, 2880)


def test_four_sessions_of_65k_run_at_once_instead_of_one_by_one() -> None:
    # A prompt of 65,536 tokens: 65,536 / 16 = 4096 blocks of each of five windows, 65,536 / 32 = 2048 of
    # full attention; 5 x 4096 + 2048 = 22,528 of 23,999. Once read, 5 x 65 + 2049 = 2374 are held, and
    # 23,999 - 2374 = 21,625 are too few for the next.
    before = sessions(24_000, 65_536, 4)
    assert (before.blocks, before.blocks_after_prefill, before.free_blocks) == (22_528, 2374, 23_999)
    assert (before.admitted_at_once, before.waits_for) == (1, Waiting.BLOCKS)
    # With the cap 5 x 576 + 2048 = 4928 are asked for, so that 1 + (23,999 - 4928) // 2374 = 9 would run.
    after = sessions(24_000, 65_536, 4, ("vllm#39866",))
    assert (after.blocks, after.admitted_at_once, after.waits_for) == (4928, 9, Waiting.NOTHING)
    assert after.admitted_by_whole_prompts == before.admitted_at_once


def test_a_pool_of_29_500_blocks_caps_at_four_of_eight_sessions_as_the_pull_request_reports() -> None:
    # In its words, on an H200 with about 29.5K blocks, "running caps at 4 while half the pool sits idle".
    before = sessions(29_500, 65_000, 8)
    # A window takes 65,000 / 16 = 4062.5 blocks, full attention 65,000 / 32 = 2031.25: five times 4063 and
    # 2032 are 22,347.
    assert before.blocks == 22_347
    assert before.admitted_at_once == 4
    assert before.free_blocks - 4 * before.blocks_after_prefill > before.free_blocks // 2
    assert sessions(29_500, 65_000, 8, ("vllm#39866",)).admitted_at_once >= 8


def turboquant_flags() -> ServeFlags:
    return ServeFlags(
        tensor_parallel_size=1,
        max_model_len=32768,
        kv_cache_dtype="turboquant_k8v4",
        kv_cache_memory_bytes=20 << 30,
    )


def test_turboquant_on_qwen_3_6_aligns_the_block_to_2768() -> None:
    cache = ask(QWEN, "0.32.0", turboquant_flags()).kv_cache
    assert cache is not None
    assert [group.layers for group in cache.groups] == [10] * 4
    (full,) = (group for group in cache.groups if group.kind == "full_attention")
    mamba = next(group for group in cache.groups if group.kind == "mamba")
    assert full.block_size == 2768
    assert mamba.page_size_bytes == 2_147_968
    assert f"{100 * (mamba.page_size_bytes / mamba.unpadded_page_size_bytes - 1):.2f}" == "0.08"


def test_0_20_2_refuses_turboquant_on_hybrids() -> None:
    error = ask(QWEN, "0.20.2", turboquant_flags()).error
    assert error is not None
    assert error.type == "NotImplementedError"
    assert error.message.startswith(
        "TurboQuant KV cache is not supported for hybrid (attention + Mamba) models."
    )


DELTA_NET_STATE = 12_648_448


def turboquant_and_state() -> tuple[SpecLayers, SpecLayers]:
    attention = AttentionSpec(
        CacheKind.FULL_ATTENTION,
        16,
        2,
        256,
        256,
        cache_format("turboquant_k8v4", "bfloat16"),
        indexes_by_block_stride=False,
    )
    assert attention.page_size == 12_416
    return SpecLayers(StateSpec(32768, DELTA_NET_STATE, 1), (0,)), SpecLayers(attention, (1,))


@pytest.mark.parametrize("version", ["0.20.2", "0.24.0"])
def test_pages_of_12_416_and_12_648_448_do_not_unify_in_releases(version: str) -> None:
    with pytest.raises(EngineRefusal) as caught:
        unify_page_sizes(turboquant_and_state(), rules_for(find_release(version)).pages)
    assert caught.value.stage is Stage.PAGE_SIZE


def test_patch_40128_pads_the_state_to_the_common_multiple() -> None:
    rules = rules_for(find_release("0.20.2"), ["vllm#40128"])
    state, attention = unify_page_sizes(turboquant_and_state(), rules.pages)
    assert state.spec.page_size == attention.spec.page_size == 12_651_904
    assert attention.spec.block_size == 16_304


@pytest.mark.parametrize("version", ["0.19.0", "0.32.0"])
def test_llama_3_1_8b(version: str) -> None:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=8192,
        kv_cache_memory_bytes=20_000_000_000,
        kv_cache_dtype="auto",
    )
    cache = ask(LLAMA, version, flags).kv_cache
    assert cache is not None
    assert (cache.num_blocks, cache.tokens, cache.max_concurrency) == (9536, 152_576, 18.625)
