"""Gemma 4 31B on two GPUs with 11.54 GiB of cache each: every engine's figures in the same terms.

The figures are those of each engine alone: llama.cpp's library, SGLang's configurators, TensorRT-LLM's code.
"""

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines_compared.comparison import GpuComparison, compare_engines, verdict_of
from service.engines_compared.engine_choice import (
    EngineAsked,
    EnginesQuestion,
    LlamaAsked,
    SglangAsked,
    TensorrtAsked,
    VllmAsked,
)
from service.gpus.catalog import find_gpu
from service.llama_cpp.builds import build_named
from service.llama_cpp.server_flags import FlashAttention, ServerFlags
from service.memory.budget_types import Basis
from service.sglang.releases import RELEASES as SGLANG_RELEASES
from service.sglang.server_args import SglangArgs
from service.tensorrt_llm.llm_args import TensorrtArgs
from service.tensorrt_llm.releases import RELEASES as TENSORRT_RELEASES
from tests.accuracy.oracle import bundled_architecture

BUDGET = int(11.54 * 2**30)
GEMMA4 = "google/gemma-4-31B-it"


def llama(**flags: object) -> EngineAsked:
    name, build = build_named(None)
    return LlamaAsked(name, build, ServerFlags(**flags), "Q4_K_M")  # type: ignore[arg-type]


def sglang(**args: object) -> EngineAsked:
    name, rules = SGLANG_RELEASES.named(None)
    return SglangAsked(name, rules, SglangArgs(**args))  # type: ignore[arg-type]


def tensorrt(**args: object) -> EngineAsked:
    name, rules = TENSORRT_RELEASES.named(None)
    return TensorrtAsked(name, rules, TensorrtArgs(**args))  # type: ignore[arg-type]


def compared(
    *engines: EngineAsked,
    model: str = GEMMA4,
    gpu: str = "h100-sxm-80gb",
    count: int | None = 2,
    cache_bytes: int | None = BUDGET,
    tokens: int | None = None,
    release: str | None = None,
    length: int | None = None,
) -> GpuComparison:
    request = PlanRequest(
        Model(model, None, "bundled", bundled_architecture(model)),
        (find_gpu(gpu),),
        EngineChoice.of(release),
        ServeFlags(max_model_len=length),
        counts=(count,),
    )
    (found,) = compare_engines(EnginesQuestion(request, engines, cache_bytes, tokens)).gpus
    return found


@pytest.mark.parametrize(
    ("engine", "tokens", "prompt"),
    [
        (llama(parallel=1), 262_144, 262_143),
        (llama(), 254_464, 254_463),
        (llama(parallel=4), 238_592, 59_647),
        (llama(parallel=1, swa_full=True), 26_368, 26_367),
        (sglang(), 33_612, 33_606),
        (
            sglang(disable_radix_cache=True, max_running_requests=1, chunked_prefill_size=4096),
            209_044,
            209_038,
        ),
        (tensorrt(), 49_728, 49_727),
        (tensorrt(avg_seq_len=8192, max_batch_size=8), 90_368, 90_367),
    ],
)
def test_the_figures_of_one_engine(engine: EngineAsked, tokens: int, prompt: int) -> None:
    (plan,) = compared(engine).plans
    assert plan.figures is not None
    assert verdict_of(plan) is Verdict.STARTS
    count = plan.figures.tokens if plan.engine != "tensorrt-llm" else plan.figures.longest_request
    assert (count, plan.figures.longest_prompt) == (tokens, prompt)


def test_one_more_token_costs_the_same_in_every_engine() -> None:
    """10 global layers of 4 heads, keys and values of 512 elements, 2 bytes: 81,920 on both GPUs together."""
    found = compared(VllmAsked(), llama(), sglang(), tensorrt(), tokens=8192)
    assert [plan.figures.bytes_per_token for plan in found.plans if plan.figures] == [81_920] * 4


def test_requests_at_once() -> None:
    """8192 tokens: 4 slots; 33,612 // 8192; 1554 pages // 256; llama.cpp alone has slots."""
    found = compared(llama(), sglang(), tensorrt(), tokens=8192)
    assert [plan.figures.requests for plan in found.plans if plan.figures] == [4, 4, 1554 // 256]
    longer = compared(llama(), sglang(), tensorrt(), tokens=100_000)
    assert [plan.figures.requests for plan in longer.plans if plan.figures] == [2, 0, 0]


def test_what_the_longest_request_leaves_unused() -> None:
    """SGLang: 26,889 tokens of windows of 409,600 bytes; one request holds 1024 + 128 + 1."""
    (plan,) = compared(sglang()).plans
    assert plan.figures is not None
    windows = plan.figures.unused[0]
    assert windows.bytes == (26_889 - 1153) * 409_600 * 2


def test_vllm_is_shortened_as_the_others_are() -> None:
    """vLLM 0.33.0 needs 16.65 GiB for 262,144 tokens and says that 128,224 fit."""
    (plan,) = compared(VllmAsked(), release="0.33.0").plans
    assert plan.figures is not None
    assert plan.figures.longest_request == 128_224
    assert "--max-model-len 128224" in plan.command


def test_a_given_length_bounds_vllm_alone_and_says_so() -> None:
    """Qwen3-8B on an L4 has room for more than 16,384 tokens; `--max-model-len` refuses a longer request."""
    engines = (VllmAsked(), llama())
    found = compared(*engines, model="Qwen/Qwen3-8B", gpu="l4-24gb", count=1, cache_bytes=None, length=16_384)
    one, other = found.plans

    assert one.figures is not None
    assert other.figures is not None
    assert one.figures.longest_request == 16_384
    assert other.figures.longest_request > 16_384
    assert any("--max-model-len" in note for note in one.notes)


def test_refusals_are_in_the_engines_words() -> None:
    (plan,) = compared(llama(cache_type_v="q8_0", flash_attn=FlashAttention.OFF)).plans
    assert plan.refusal == "quantized V cache requires flash_attn to be enabled"
    assert verdict_of(plan) is Verdict.REFUSED
    (plan,) = compared(sglang(), cache_bytes=200_000_000).plans
    assert plan.refusal is not None
    assert "cannot hold even one request" in plan.refusal


def test_an_interval_that_reaches_below_nothing_is_uncertain() -> None:
    """Two ranks of Llama 3.1 8B on a T4: what TensorRT-LLM's peak takes decides."""
    (plan,) = compared(tensorrt(), model="meta-llama/Llama-3.1-8B", gpu="t4-16gb", cache_bytes=None).plans
    assert plan.least is None
    assert plan.most is not None
    assert verdict_of(plan) is Verdict.UNCERTAIN


def test_terms_add_up_to_the_budget() -> None:
    found = compared(
        sglang(mem_fraction_static=0.8), cache_bytes=None, model="meta-llama/Llama-3.1-8B", count=1
    )
    free, weights, loading, outside = (term.estimate.bytes for term in found.plans[0].terms)
    assert found.plans[0].budget.bytes == free - weights - loading - outside
    assert outside == round(free * 0.2)
    assert weights == pytest.approx(16_060_522_496, rel=1e-3)


def test_a_model_that_is_not_modelled_is_uncertain_and_says_why() -> None:
    (plan,) = compared(tensorrt(), model="Qwen/Qwen3-Next-80B-A3B-Instruct").plans
    assert verdict_of(plan) is Verdict.UNCERTAIN
    assert plan.notes == ("caches of GatedDeltaNet are not modelled for TensorRT-LLM",)


def test_the_fewest_gpus_where_none_are_counted() -> None:
    (plan,) = compared(llama(), model="meta-llama/Llama-3.1-8B", count=None, cache_bytes=None).plans
    assert plan.gpus == 1
    assert plan.budget.basis is not Basis.GIVEN


def test_fit_shortens_a_context_to_what_is_left() -> None:
    """Llama 3.1 8B on a T4: 131,072 bytes a token of what is left beside weights and 1 GiB."""
    (plan,) = compared(
        llama(), model="meta-llama/Llama-3.1-8B", gpu="t4-16gb", count=1, cache_bytes=None
    ).plans
    assert plan.figures is not None
    tokens = plan.figures.tokens
    buffer = plan.terms[2].estimate.bytes
    assert tokens % 256 == 0
    left = plan.budget.bytes - (1 << 30) - tokens * 131_072
    assert 0 <= left <= buffer
    assert plan.figures.cache_bytes == (tokens * 131_072,)


def test_layers_that_do_not_fit_stay_on_the_host() -> None:
    """Gemma 4 31B as Q4_K_M has some 17 GiB of weights: a T4 holds a part of its layers and 4096 cells."""
    (plan,) = compared(llama(), gpu="t4-16gb", count=1, cache_bytes=None).plans
    assert plan.figures is not None
    assert plan.figures.tokens == 4096
    assert "layers are on the host" in plan.figures.tokens_are
    assert any("of 61 layers" in note and "run on the host" in note for note in plan.notes)
    (fixed,) = compared(llama(fit=False, ctx_size=4096), gpu="t4-16gb", count=1, cache_bytes=None).plans
    assert fixed.refusal is not None
    assert "cudaMalloc failed: out of memory" in fixed.refusal


def test_more_memory_never_shortens_a_context() -> None:
    gpus = ("t4-16gb", "a10g-24gb", "l40s-48gb", "h100-sxm-80gb", "h200-sxm-141gb")
    for count in (1, 2):
        lengths = []
        for gpu in gpus:
            (plan,) = compared(llama(), gpu=gpu, count=count, cache_bytes=None).plans
            assert plan.figures is not None
            lengths.append(plan.figures.longest_request)
        assert lengths == sorted(lengths)


def test_shares_of_devices_that_there_are_not_are_passed_over() -> None:
    (plan,) = compared(llama(parallel=1, tensor_split=(1.0, 1.0, 1.0, 1.0))).plans
    (equal,) = compared(llama(parallel=1)).plans
    assert plan.figures is not None
    assert equal.figures is not None
    assert (plan.gpus, plan.figures.cache_bytes) == (2, equal.figures.cache_bytes)


def test_weights_that_do_not_fit_end_the_loading() -> None:
    """31 billion weights of 16 bits on two GPUs of 24 GB: pools are never divided, so none has a size."""
    for engine in (sglang(), tensorrt()):
        (plan,) = compared(engine, gpu="rtx-3090-24gb", cache_bytes=None).plans
        assert plan.figures is None
        assert plan.refusal is not None
        assert plan.refusal.startswith("CUDA out of memory while the weights are loaded")


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("0.5.10", "Not enough memory. Please try to increase --mem-fraction-static."),
        ("0.5.20", "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static."),
        ("0.5.23", "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static."),
    ],
)
def test_a_fraction_that_the_weights_fill_is_refused_in_the_words_of_the_release(
    release: str, said: str
) -> None:
    """Words of the wheels: MemoryPoolConfig in 0.5.10, KVCacheConfigurator in 0.5.20 and 0.5.23."""
    name, rules = SGLANG_RELEASES.named(release)
    engine = SglangAsked(name, rules, SglangArgs(mem_fraction_static=0.3))
    (plan,) = compared(engine, gpu="h100-sxm-80gb", cache_bytes=None).plans
    assert plan.figures is None
    assert plan.refusal == said


@pytest.mark.parametrize(
    ("gpu", "serve", "row"),
    [
        ("h200-sxm-141gb", {}, 576 * 2),
        ("b200-180gb", {}, 576),
        ("h200-sxm-141gb", {"kv_cache_dtype": "fp8_e4m3"}, 512 + 4 * 4 + 64 * 2),
        ("b200-180gb", {"kv_cache_dtype": "bfloat16", "page_size": 1}, 576 * 2),
    ],
)
def test_sparse_attention_has_pages_and_rows_of_its_own_in_sglang(
    gpu: str, serve: dict[str, object], row: int
) -> None:
    """By hand from SGLang 0.5.23: 61 layers, an index key of 128 with a scale of 4 bytes, pages of 64."""
    engine = sglang(**serve)
    (plan,) = compared(engine, model="deepseek-ai/DeepSeek-V3.2", gpu=gpu, count=8, cache_bytes=10**10).plans
    assert plan.figures is not None
    each = 61 * (row + 128 + 4)
    assert plan.figures.bytes_per_token == each * 8
    assert plan.figures.tokens == 10**10 // each // 64 * 64
    assert "page" not in plan.command or serve.get("page_size") == 1
