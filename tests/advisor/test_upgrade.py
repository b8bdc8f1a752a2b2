"""What changes between releases, against the engine's own history."""

import pytest

from service.advisor.candidates.plan_types import Plan, Upgrade
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.advisor.upgrade_intervals import uncertain_changes
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import GEMMA, LLAMA, QWEN


def steps(model: str, flags: ServeFlags, *versions: str) -> tuple[Upgrade, ...]:
    return compared(model, flags, versions[-1], *versions).upgrades


def compared(model: str, flags: ServeFlags, planned: str, *versions: str) -> Plan:
    request = PlanRequest(
        model=Model(model, None, "bundled", bundled_architecture(model)),
        gpus=(find_gpu("h100-sxm-80gb"),),
        engine=EngineChoice.of(planned, compared=versions),
        serve=flags,
    )
    return plan(request)


def test_gemma_4_starts_on_0_24_and_fails_on_0_26_since_the_reserve_doubled() -> None:
    flags = ServeFlags(
        kv_cache_dtype="auto",
        tensor_parallel_size=1,
        max_model_len=131072,
        kv_cache_memory_bytes=18 << 30,
        max_num_batched_tokens=8192,
    )
    (step,) = steps(GEMMA, flags, "0.24.0", "0.26.0")
    assert (step.before.verdict, step.after.verdict) == (Verdict.STARTS, Verdict.REFUSED)
    assert step.after.error is not None
    assert "(23.29 GiB KV cache is needed" in step.after.error
    assert "admission.in_flight_batches" in {cause.rule for cause in step.causes}


def test_per_token_heads_start_where_pages_are_padded() -> None:
    flags = ServeFlags(
        tensor_parallel_size=2,
        max_model_len=32768,
        kv_cache_memory_bytes=20 << 30,
        kv_cache_dtype="int8_per_token_head",
    )
    (step,) = steps(GEMMA, flags, "0.20.2", "0.24.0")
    assert (step.before.verdict, step.after.verdict) == (Verdict.REFUSED, Verdict.STARTS)
    assert "pages.unification" in {cause.rule for cause in step.causes}


def test_hybrids_keep_two_states_once_prefix_caching_is_on() -> None:
    flags = ServeFlags(
        kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=32768, kv_cache_memory_bytes=20 << 30
    )
    (step,) = steps(QWEN, flags, "0.26.0", "0.32.0")
    assert step.before.blocks_per_request is not None
    assert step.after.blocks_per_request == step.before.blocks_per_request + 3  # one more in 3 groups
    assert "states.hybrid_prefix_caching" in {cause.rule for cause in step.causes}


def test_nothing_changes_where_nothing_changed() -> None:
    flags = ServeFlags(
        kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=8192, kv_cache_memory_bytes=20 << 30
    )
    (step,) = steps(LLAMA, flags, "0.19.0", "0.19.1")
    assert step.changed == ()
    assert step.causes == ()


def test_every_step_between_the_versions_is_listed() -> None:
    flags = ServeFlags(
        kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=8192, kv_cache_memory_bytes=20 << 30
    )
    specified = [
        (s.before.version, s.after.version) for s in steps(LLAMA, flags, "0.19.0", "0.24.0", "0.32.0")
    ]
    assert specified == [("0.19.0", "0.24.0"), ("0.24.0", "0.32.0")]


def test_releases_are_compared_by_the_start_that_is_recommended() -> None:
    """31 billion parameters in bfloat16 take 58 GiB, so one H100 has no room for 262,144 tokens; two have.

    vLLM 0.26.0 keeps two batches of tokens in reserve for each sliding window instead of one
    (SlidingWindowSpec.max_memory_usage_bytes). Both batches are of 8,192 tokens, 512 blocks of 16, in each of
    the 5 groups of 10 layers that 50 sliding layers make beside 10 full ones: 2,560 blocks more a request.
    """
    answer = compared(GEMMA, ServeFlags(), "0.32.0", "0.20.2", "0.32.0")
    (step,) = answer.upgrades
    best = answer.plans[0].recommended
    assert best is not None
    assert best.kv_cache is not None
    assert best.memory is not None
    assert (step.start.version, step.start.is_recommended) == ("0.32.0", True)
    assert step.start.candidate.tensor_parallel_size == best.tensor_parallel_size == 2
    assert (step.before.verdict, step.after.verdict) == (Verdict.STARTS, Verdict.STARTS)
    assert step.before.blocks_per_request is not None
    assert step.after.blocks_per_request == step.before.blocks_per_request + 5 * 8192 // 16
    assert (step.after.tokens, step.after.max_concurrency) == (
        best.kv_cache.tokens,
        best.kv_cache.max_concurrency,
    )
    assert step.after.available_kv_bytes == best.memory.available_kv.bytes


@pytest.mark.parametrize(
    ("planned", "versions"),
    [("0.32.0", ("0.20.2", "0.32.0")), ("0.20.2", ("0.20.2", "0.32.0")), ("0.20.2", ("0.32.0", "0.20.2"))],
)
def test_the_newest_release_chooses_the_start(planned: str, versions: tuple[str, str]) -> None:
    newest = compared(GEMMA, ServeFlags(), "0.32.0").plans[0].recommended
    (step,) = compared(GEMMA, ServeFlags(), planned, *versions).upgrades
    assert newest is not None
    assert step.start.candidate.flags == newest.flags
    assert step.start.version == "0.32.0"
    assert (step.before.version, step.after.version) == versions


def test_a_start_that_nothing_recommends_is_named_so() -> None:
    flags = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=262144)
    (step,) = steps(GEMMA, flags, "0.20.2", "0.32.0")
    assert not step.start.is_recommended
    assert (step.before.verdict, step.after.verdict) == (Verdict.REFUSED, Verdict.REFUSED)


def test_a_difference_that_estimates_alone_make_may_be_none() -> None:
    """Both releases take 0.92 of an H100 for the same 61 to 67 GiB of weights of gpt-oss-120b.

    What remains is known to a few GiB on each, so nobody can promise that the newer one has more.
    """
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=32768)
    (step,) = compared("openai/gpt-oss-120b", flags, "0.32.0", "0.20.2", "0.32.0").upgrades
    before, after = step.before.memory, step.after.memory
    assert before is not None
    assert after is not None
    assert before.requested == after.requested
    assert before.available_kv.bytes != after.available_kv.bytes
    assert before.available_kv.high > after.available_kv.low
    assert set(uncertain_changes(step)) == {"tokens", "max_concurrency", "available_kv_bytes"}
    (words,) = (each.summary for each in step.causes if each.rule == "memory_budget")
    assert f"weights {before.weights.bytes / 2**30:.2f} GiB (" in words
    assert "share of the device 7" not in words


def test_a_difference_of_given_memory_is_one() -> None:
    """The bytes of the cache are the caller's, and a request of the newer release takes more blocks."""
    flags = ServeFlags(
        tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=32768, kv_cache_memory_bytes=20 << 30
    )
    (step,) = steps(GEMMA, flags, "0.20.2", "0.32.0")
    assert "max_concurrency" in step.changed
    assert uncertain_changes(step) == ()
