"""What changed from release to release, by numbers worked out by hand or logged by the engine."""

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.units import GIB
from tests.accuracy.oracle import bundled_architecture

GEMMA4, GEMMA3, GPT_OSS = "google/gemma-4-31B-it", "google/gemma-3-27b-it", "openai/gpt-oss-20b"
LLAMA, DEEPSEEK, QWEN = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3.6-35B-A3B"


def start(model: str, release: str, flags: ServeFlags, gpu: str = "h100-sxm-80gb") -> Start:
    return dry_start(bundled_architecture(model), flags, rules_for(Version(release)), find_gpu(gpu))


@pytest.mark.parametrize(
    ("model", "length", "release", "tokens", "concurrency"),
    [
        # 20 GiB, batches of 8192 tokens. Gemma 4: 5 groups x 577 blocks of the window and 501 of 32 tokens.
        (GEMMA4, 16001, "0.19.1", 21_840, 2.4194),
        (GEMMA4, 16001, "0.20.1", 38_712, 2.4194),
        (GEMMA4, 16001, "0.25.1", 38_712, 2.4194),
        (GEMMA4, 16001, "0.26.0", 23_785, 1.4865),
        (GEMMA4, 16001, "0.33.0", 23_785, 1.4865),
        (GEMMA4, 131_072, "0.19.1", 21_840, 8192 / (5 * 577 + 4096)),
        (GEMMA4, 131_072, "0.24.0", 153_809, 8192 / (5 * 577 + 4096)),
        (GPT_OSS, 131_072, "0.13.0", 436_896, 54_613 / (521 + 8192)),
        (GPT_OSS, 131_072, "0.17.1", 436_896, 54_613 / (521 + 8192)),
        (GPT_OSS, 131_072, "0.20.1", 821_558, 54_613 / (521 + 8192)),
        (GPT_OSS, 131_072, "0.26.0", 775_960, 54_613 / (1033 + 8192)),
        (LLAMA, 131_072, "0.10.2", 163_840, 1.25),
        (LLAMA, 131_072, "0.33.0", 163_840, 1.25),
    ],
)
def test_capacity_across_releases(
    model: str, length: int, release: str, tokens: int, concurrency: float
) -> None:
    started = start(model, release, ServeFlags(max_model_len=length))
    cache = size_cache(started.layout, started.engine_config, 20 * GIB)
    assert (cache.tokens, round(cache.max_concurrency, 4)) == (tokens, round(concurrency, 4))


def test_in_flight_batches_let_gemma_4_fail() -> None:
    started = start(GEMMA4, "0.26.0", ServeFlags(max_model_len=131_072))
    with pytest.raises(EngineRefusal, match=r"23\.29 GiB KV cache is needed"):
        size_cache(started.layout, started.engine_config, 20 * GIB)


@pytest.mark.parametrize(
    ("release", "needed"),
    [
        # Gemma 3 27B, 131,072 tokens: pages of 131,072 B; 577 blocks of each of 52 windows, 8192 of 10 full.
        ("0.13.0", (52 * 577 + 10 * 8192) * 131_072),
        ("0.14.0", 10 * 577 * 131_072),  # groups of 10 layers; the first is one of windows
        ("0.17.0", 10 * 577 * 131_072),
        ("0.18.1", 10 * 577 * 131_072),
        ("0.19.0", 10 * (6 * 577 + 8192) * 131_072),
        ("0.28.0", 10 * (6 * 1089 + 8192) * 131_072),
        ("0.29.0", 10 * (6 * 1089 + 8192 + 1) * 131_072),  # and the null block
    ],
)
def test_what_must_fit_before_the_engine_starts(release: str, needed: int) -> None:
    started = start(GEMMA3, release, ServeFlags(max_model_len=131_072))
    size_cache(started.layout, started.engine_config, needed)
    with pytest.raises(EngineRefusal) as caught:
        size_cache(started.layout, started.engine_config, needed - 1)
    assert caught.value.stage is Stage.MEMORY


@pytest.mark.parametrize(("release", "length"), [("0.14.0", 65_536), ("0.28.0", 65_536), ("0.29.0", 65_520)])
def test_a_fitted_length_leaves_the_null_block(release: str, length: int) -> None:
    started = start(LLAMA, release, ServeFlags(max_model_len=-1))
    assert size_cache(started.layout, started.engine_config, 8 * GIB).max_model_len == length


def test_lengths_are_not_fitted_before_0_14() -> None:
    with pytest.raises(EngineRefusal):
        start(LLAMA, "0.13.0", ServeFlags(max_model_len=-1))


@pytest.mark.parametrize(
    ("release", "sizes"),
    [
        (
            "0.12.0",
            "(16.00 GiB KV cache is needed, which is larger than the available KV cache memory (8.00 GiB)",
        ),
        (
            "0.14.0",
            "(16.0 GiB KV cache is needed, which is larger than the available KV cache memory (8.0 GiB)",
        ),
    ],
)
def test_gib_are_printed_as_the_release_prints_them(release: str, sizes: str) -> None:
    started = start(LLAMA, release, ServeFlags(max_model_len=131_072))
    with pytest.raises(EngineRefusal) as caught:
        size_cache(started.layout, started.engine_config, 8 * GIB)
    assert sizes in caught.value.message
    assert "estimated maximum model length is 65536. Try increasing" in caught.value.message


@pytest.mark.parametrize(("release", "stage"), [("0.13.0", Stage.MEMORY), ("0.14.0", Stage.GROUPING)])
def test_older_releases_look_at_the_memory_first(release: str, stage: Stage) -> None:
    flags = ServeFlags(max_model_len=131_072, disable_hybrid_kv_cache_manager=True)
    assert refusal_stage(release, flags) is stage


def refusal_stage(release: str, flags: ServeFlags) -> Stage | None:
    try:
        started = start("Qwen/Qwen3-Next-80B-A3B-Instruct", release, flags)
        size_cache(started.layout, started.engine_config, GIB)
    except EngineRefusal as refusal:
        return refusal.stage
    return None


def test_with_enough_memory_the_layers_are_refused_after_all() -> None:
    flags = ServeFlags(max_model_len=8192, disable_hybrid_kv_cache_manager=True)
    started = start("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.13.0", flags)
    with pytest.raises(EngineRefusal, match="unified type"):
        size_cache(started.layout, started.engine_config, 40 * GIB)


@pytest.mark.parametrize(
    ("release", "gpu", "block_size"),
    [
        ("0.11.2", "h100-sxm-80gb", 64),  # FlashMLA
        ("0.17.1", "h100-sxm-80gb", 64),
        ("0.19.0", "h100-sxm-80gb", 16),  # FlashAttention
        ("0.13.0", "b200-180gb", 128),  # CUTLASS
        ("0.15.0", "b200-180gb", 64),  # FlashInfer
        ("0.18.0", "b200-180gb", 32),
        ("0.17.1", "a100-sxm-80gb", 16),  # Triton
    ],
)
def test_latent_block_sizes(release: str, gpu: str, block_size: int) -> None:
    assert start(DEEPSEEK, release, ServeFlags(max_model_len=8192), gpu).layout.block_size == block_size


@pytest.mark.parametrize(("given", "kept"), [(128, 128), (32, 64), (48, 64)])
def test_a_given_latent_block_is_kept_only_if_the_kernel_reads_it(given: int, kept: int) -> None:
    assert (
        start(DEEPSEEK, "0.17.1", ServeFlags(max_model_len=8192, block_size=given)).layout.block_size == kept
    )


@pytest.mark.parametrize(
    ("release", "caching", "block_size", "states"),
    [
        # States of 2,146,304 B beside 2048 B per token: 1048 tokens, in steps of 16, or of FlashInfer's 64.
        ("0.27.0", None, 1056, 1),
        ("0.27.0", True, 1056, 2),
        ("0.28.0", None, 1056, 2),
        ("0.33.0", None, 1088, 3),
        ("0.33.0", False, 1056, 1),
    ],
)
def test_recurrent_states_across_releases(
    release: str, caching: bool | None, block_size: int, states: int
) -> None:
    started = start(QWEN, release, ServeFlags(max_model_len=32_768, enable_prefix_caching=caching))
    cache = size_cache(started.layout, started.engine_config, 20 * GIB)
    assert started.layout.block_size == block_size
    assert {g.blocks_per_request for g in cache.groups if g.kind == "mamba"} == {states}


@pytest.mark.parametrize(("release", "first"), [("0.11.0", "full_attention"), ("0.11.1", "mamba")])
def test_states_came_last(release: str, first: str) -> None:
    started = start("Qwen/Qwen3-Next-80B-A3B-Instruct", release, ServeFlags(max_model_len=8192))
    assert started.layout.groups[0].kind == first


def test_every_stage_formed_its_own_groups_in_0_10_2() -> None:
    # Gemma 3 27B in two stages of 31 layers: 26 windows and 5 full ones, so groups of 5.
    started = start(GEMMA3, "0.10.2", ServeFlags(max_model_len=8192, pipeline_parallel_size=2))
    assert [[group.num_layers for group in stage] for stage in started.layout.stages] == [
        [5, 5, 5, 5, 5, 5, 1],
        [5, 5, 5, 5, 5, 5, 1],
    ]
    assert started.layout.groups[0].kind == "full_attention"  # sorted by the names of the engine's classes


@pytest.mark.parametrize(
    ("release", "words"), [("0.28.0", "group_size must be greater than 0"), ("0.29.0", "")]
)
def test_a_stage_without_a_cache_is_refused(release: str, words: str) -> None:
    with pytest.raises(EngineRefusal) as caught:
        start(LLAMA, release, ServeFlags(max_model_len=8192, pipeline_parallel_size=33))  # of 32 layers
    assert (caught.value.type, caught.value.message) == ("AssertionError", words)


def test_chunks_save_memory_only_since_0_14() -> None:
    # Llama 4 Scout: 36 of 48 layers look at chunks of 8192 tokens.
    model = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
    flags = ServeFlags(max_model_len=131_072, tensor_parallel_size=8)
    assert [g.kind for g in start(model, "0.13.0", flags).layout.groups] == ["full_attention"]
    groups = start(model, "0.14.0", flags).layout.groups
    assert [g.kind for g in groups] == [*["chunked_local_attention"] * 3, "full_attention"]
    demand = start(model, "0.14.0", flags).engine_config.demand()
    assert [g.blocks_per_request(demand) for g in groups] == [1024, 1024, 1024, 8192]  # 8192 + 8192 in 16s


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "AssertionError"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "RuntimeError"),
    ],
)
def test_classes_that_could_not_be_split_into_stages(model: str, error: str) -> None:
    flags = ServeFlags(max_model_len=8192, tensor_parallel_size=2, pipeline_parallel_size=2)
    with pytest.raises(EngineRefusal) as caught:
        start(model, "0.11.2", flags)
    assert (caught.value.stage, caught.value.type) == (Stage.MODEL, error)
    assert len(start(model, "0.12.0", flags).layout.stages) == 2


def test_gpt_oss_does_not_repeat_its_heads() -> None:
    with pytest.raises(EngineRefusal) as caught:
        start(GPT_OSS, "0.33.0", ServeFlags(max_model_len=8192, tensor_parallel_size=16))
    assert caught.value.type == "ZeroDivisionError"


def test_windows_do_not_go_with_decode_context_parallelism() -> None:
    flags = ServeFlags(max_model_len=8192, tensor_parallel_size=16, decode_context_parallel_size=2)
    started = start("mistralai/Mistral-7B-v0.1", "0.33.0", flags)
    with pytest.raises(EngineRefusal, match="DCP not support sliding window"):
        size_cache(started.layout, started.engine_config, 20 * GIB)


def test_decode_context_parallelism_multiplied_the_tokens_once() -> None:
    # 128 heads of DeepSeek V3 over 8 ranks that share the tokens: pages of 64 tokens x 1152 B x 61 layers.
    flags = ServeFlags(max_model_len=8192, tensor_parallel_size=8, decode_context_parallel_size=8)
    started = start(DEEPSEEK, "0.17.1", flags)
    cache = size_cache(started.layout, started.engine_config, 20 * GIB)
    assert cache.num_blocks == 20 * GIB // (64 * 1152 * 61)
    assert cache.tokens == cache.num_blocks * 64 * 8
    assert cache.max_concurrency == cache.num_blocks / 16  # 1024 tokens of each rank in blocks of 64
