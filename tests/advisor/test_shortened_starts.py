"""Starts whose context was shortened: what is profiled shrinks with it, and what would hold more is named."""

import shlex

import pytest

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.fixes.four_bit_checkpoint import four_bit_model
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.gpus.catalog import gpu_catalog
from tests.advisor.questions import DEEPSEEK, ask_all
from tests.memory.recorded import bundled

QWEN_VL = "Qwen/Qwen2.5-VL-7B-Instruct"
RTX_4090 = "rtx-4090-24gb"
FRAMES = 16_384
"""Tokens of the largest pair of frames: 12,845,056 pixels (preprocessor_config.json) / (14 x 2)^2."""
TOKEN = 28 * 2 * 4 * 128 * 2
"""Bytes of a token: 28 layers, keys and values of 4 heads of 128 in 2 bytes (config.json)."""


def asked(model: Model, flags: ServeFlags, *, search: bool = True, gpu: str = RTX_4090) -> GpuPlan:
    gpus = (gpu_catalog().named(gpu),)
    request = PlanRequest(model, gpus, EngineChoice.of("0.33.0"), flags, search=search, counts=(1,))
    return plan(request).plans[0]


def model_of(name: str) -> Model:
    return Model(name, None, "bundled", bundled(name))


def checked(flags: ServeFlags) -> Candidate:
    (candidate,) = asked(model_of(QWEN_VL), flags, search=False).candidates
    return candidate


def no_video(**more: int) -> JsonObject:
    return JsonObject.of({"video": 0, **more})


def test_a_shorter_context_profiles_a_shorter_video() -> None:
    """A request of fewer than 32,768 tokens has room for one pair of the largest frames, not for seven."""
    assert FRAMES == 12_845_056 // 28**2
    best = asked(model_of(QWEN_VL), ServeFlags()).recommended
    assert best is not None
    assert best.flags.quantization is None
    assert not best.flags.language_model_only
    assert best.kv_cache is not None
    assert best.memory is not None
    assert best.kv_cache.max_model_len == 2 * FRAMES - 1024
    image = checked(ServeFlags(max_model_len=8192, limit_mm_per_prompt=no_video(image=1))).memory
    assert image is not None
    assert best.memory.activation.bytes == image.activation.bytes
    assert best.memory.available_kv.low >= best.kv_cache.max_model_len * TOKEN


def test_a_video_that_is_not_served_is_the_first_fix() -> None:
    error = checked(ServeFlags()).error
    assert error is not None
    first, second, *_ = error.fixes
    words = shlex.split(first.change)
    assert words[:2] == ["--limit-mm-per-prompt", '{"video":0}']
    assert words[2] == "--max-model-len"
    assert second.change == f"--max-model-len {2 * FRAMES - 1024}"
    limited = checked(ServeFlags(limit_mm_per_prompt=no_video(), max_model_len=int(words[3])))
    assert limited.verdict is first.verdict is Verdict.STARTS
    assert limited.memory is not None
    # The longest, in blocks of 16 tokens, of which the engine keeps one empty, and proposed in whole 1,024.
    longest = (limited.memory.available_kv.low // (16 * TOKEN) - 1) * 16
    assert 0 <= longest - int(words[3]) < 1024
    assert int(words[3]) % 1024 == 0


def test_a_limit_on_videos_alone_is_a_fix_where_the_length_was_given() -> None:
    """32,768 tokens hold two pairs of frames, whose encoding takes what the cache needs."""
    error = checked(ServeFlags(max_model_len=2 * FRAMES)).error
    assert error is not None
    assert "--limit-mm-per-prompt '{\"video\":0}'" in [fix.change for fix in error.fixes]


@pytest.mark.parametrize("given", [no_video(image=1), no_video(image=0)])
def test_what_is_limited_already_is_not_limited_again(given: JsonObject) -> None:
    error = checked(ServeFlags(limit_mm_per_prompt=given)).error
    assert error is not None
    assert not any("--limit-mm-per-prompt" in fix.change for fix in error.fixes)


def test_a_reason_names_the_longer_context_without_videos() -> None:
    plans = asked(model_of(QWEN_VL), ServeFlags())
    without = asked(model_of(QWEN_VL), ServeFlags(limit_mm_per_prompt=no_video())).recommended
    assert without is not None
    assert without.kv_cache is not None
    assert f"a context of {without.kv_cache.max_model_len:,} tokens is sure to fit" in plans.reason
    assert without.kv_cache.max_model_len > 2 * FRAMES


def test_a_much_longer_fp8_start_comes_before_a_few_lossless_tokens() -> None:
    """Gemma 3 27B in 4 bits on one RTX 4090: both caches are read by the backend that the engine tries last.

    One GPU should keep 16,384 tokens before losses of the cache are worth avoiding (advice.toml).
    """
    model = four_bit_model(model_of("google/gemma-3-27b-it"))
    assert model is not None
    best = asked(model, ServeFlags()).recommended
    lossless = asked(model, ServeFlags(kv_cache_dtype="auto")).recommended
    given = asked(model, ServeFlags(kv_cache_dtype="fp8", max_model_len=32_768), search=False).recommended
    assert best is not None
    assert lossless is not None
    assert given is not None
    assert best.kv_cache_dtype == "fp8"
    assert best.attention_backends == lossless.attention_backends
    assert best.start is not None
    assert lossless.start is not None
    assert lossless.start.engine_config.max_model_len < 16_384 <= best.start.engine_config.max_model_len
    assert given.verdict is Verdict.STARTS


def test_a_shortened_lossless_start_names_what_an_fp8_cache_holds() -> None:
    """Qwen3-32B on one H100: half the bytes of a token hold about twice the context."""
    best = ask_all("Qwen/Qwen3-32B", "0.33.0")
    fp8 = ask_all("Qwen/Qwen3-32B", "0.33.0", ServeFlags(kv_cache_dtype="fp8", tensor_parallel_size=1))
    assert best.recommended is not None
    assert best.recommended.kv_cache is not None
    assert fp8.candidates[0].kv_cache is not None
    whole = fp8.candidates[0].kv_cache
    assert whole.max_concurrency >= 1
    assert best.recommended.kv_cache.max_model_len < whole.max_model_len
    assert f"With --kv-cache-dtype fp8 a context of {whole.max_model_len:,} tokens" in best.reason


def test_an_fp8_cache_beside_8_bit_layers_says_why() -> None:
    """InferenceX runs it on H200 with --kv-cache-dtype fp8; either cache holds 64 x 9,000 tokens."""
    asked_for = Workload(8000, 1000, 64)
    found = ask_all(DEEPSEEK, "0.33.0", gpu="h200-sxm-141gb", workload=asked_for)
    assert found.recommended is not None
    assert found.recommended.kv_cache_dtype == "fp8"
    (other,) = (
        each for each in found.candidates if each.kv_cache_dtype == "auto" and each.tensor_parallel_size == 8
    )
    assert other.admission is not None
    assert other.admission.completed_without_preemption >= 64
    assert "A bfloat16 cache (--kv-cache-dtype auto) would serve as many" in found.reason
    assert "compute with 8 bits or fewer on this GPU" in found.reason


def test_no_lever_runs_fewer_requests_than_before() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=16_384, kv_cache_dtype="auto")
    workload = Workload(100, 100, 100)
    found = ask_all("Qwen/Qwen3-1.7B", "0.33.0", flags, workload=workload, with_levers=True).levers
    assert found
    for lever in found:
        assert max(lever.completed_without_preemption or 0, lever.admitted_at_once or 0) > 0 or (
            min(lever.completed_without_preemption or 0, lever.admitted_at_once or 0) == 0
        ), lever.change
