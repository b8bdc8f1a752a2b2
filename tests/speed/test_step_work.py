"""Bytes and operations of a step, by figures worked out by hand."""

import pytest

from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.releases import resolve_release, rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.speed.multiplication import Precision
from service.speed.step_work import StepWork, step_work
from tests.accuracy.startups_models import find_model


def work_of(model: str, tensor_parallel_size: int = 1, **flags: object) -> StepWork:
    architecture = find_model(model).model.architecture
    rules = rules_for(resolve_release("0.19.0"), ())
    serve = ServeFlags(tensor_parallel_size=tensor_parallel_size, kv_cache_dtype="auto", **flags)  # type: ignore[arg-type]
    start = dry_start(architecture, serve, rules, find_gpu("h200-sxm-141gb"))
    parallelism = Parallelism(
        tensor_parallel_size,
        enable_expert_parallel=start.engine_config.enable_expert_parallel,
        dtype=start.engine_config.dtype,
    )
    return step_work(start.architecture, parallelism, start.engine_config.release, start.layout.layers)


LLAMA_LAYER = 8192 * (8192 + 2 * 1024) + 8192 * 8192 + 3 * 8192 * 28672
"""Elements of one layer of Llama 3.1 70B: queries, keys and values, output, and the network."""


def test_a_dense_model_reads_its_layers_and_its_head() -> None:
    work = work_of("meta-llama/Llama-3.1-70B")
    norms = 80 * 2 * 8192
    assert work.dense_bytes == 2 * (80 * LLAMA_LAYER + norms)
    assert work.head_bytes == 2 * 128_256 * 8192
    assert dict(work.operations) == {Precision.HALF: 2 * 80 * LLAMA_LAYER}
    assert work.expert_bytes(64) == 0


def test_a_rank_reads_its_part() -> None:
    whole, half = work_of("meta-llama/Llama-3.1-70B"), work_of("meta-llama/Llama-3.1-70B", 2)
    assert half.dense_bytes == pytest.approx(whole.dense_bytes / 2, rel=1e-4)
    assert half.cache_bytes(1000) == whole.cache_bytes(1000) / 2


def test_keys_and_values_of_every_token() -> None:
    work = work_of("meta-llama/Llama-3.1-70B")
    assert work.cache_bytes(1000) == 1000 * 80 * 2 * 8 * 128 * 2


def test_a_window_ends_what_is_read() -> None:
    work = work_of("openai/gpt-oss-120b")
    row = 2 * 8 * 64 * 2
    assert work.cache_bytes(10_000) == 18 * row * 10_000 + 18 * row * 128
    assert work.cache_bytes(100) == 36 * row * 100


def test_one_token_reads_the_experts_it_is_routed_to() -> None:
    work = work_of("openai/gpt-oss-120b")
    (experts,) = work.experts
    assert (experts.layers, experts.total, experts.per_token) == (36, 128, 4)
    assert work.expert_bytes(1) == pytest.approx(36 * 4 * experts.bytes_each)
    assert work.expert_bytes(10_000) == pytest.approx(36 * 128 * experts.bytes_each)


def test_two_tokens_share_experts_by_chance() -> None:
    (experts,) = work_of("openai/gpt-oss-120b").experts
    # 128 experts, 4 of them for each token: the second misses an expert of the first in 124 of 128 cases.
    assert experts.touched(2) == pytest.approx(128 * (1 - (124 / 128) ** 2))


def test_mxfp4_is_unpacked_before_blackwell() -> None:
    (experts,) = work_of("openai/gpt-oss-120b").experts
    assert experts.precision is Precision.HALF
    assert experts.repacked


def test_recurrent_states_are_read_and_written() -> None:
    # Qwen3-Next: 36 layers, 32 value heads with 128 x 128 states, and a convolution of 8,192 channels x 3.
    state = 36 * (32 * 128 * 128 * 4)
    convolution = 36 * 8192 * 3 * 2
    work = work_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert work.recurrent_layers == 36
    assert work.state_bytes in {2 * (state + convolution), 2 * (state // 2 + convolution)}


def test_sparse_attention_reads_the_selected_tokens() -> None:
    work = work_of("zai-org/GLM-5", 8)
    # 576 elements of 16 bits for a token of MLA; past 2,048 tokens only the indexer's keys grow.
    grown = work.cache_bytes(100_000) - work.cache_bytes(50_000)
    layers = work.layers
    assert grown < 50_000 * layers * 576 * 2 / 3
    assert work.cache_bytes(1_000) >= 1_000 * layers * 576 * 2
