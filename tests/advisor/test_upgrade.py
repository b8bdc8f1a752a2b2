"""What changes between releases, against the engine's own history."""

from service.advisor.plan import plan
from service.advisor.plan_request import EngineChoice, Model, PlanRequest
from service.advisor.plan_types import Upgrade, Verdict
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import GEMMA, LLAMA, QWEN


def steps(model: str, flags: ServeFlags, *versions: str) -> tuple[Upgrade, ...]:
    request = PlanRequest(
        model=Model(model, None, "bundled", bundled_architecture(model)),
        gpus=(find_gpu("h100-sxm-80gb"),),
        engine=EngineChoice.of(versions[-1], compared=versions),
        serve=flags,
    )
    return plan(request).upgrades


def test_gemma_4_starts_on_0_24_and_fails_on_0_26_since_the_reserve_doubled() -> None:
    flags = ServeFlags(
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
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=32768, kv_cache_memory_bytes=20 << 30)
    (step,) = steps(QWEN, flags, "0.26.0", "0.32.0")
    assert step.before.blocks_per_request is not None
    assert step.after.blocks_per_request == step.before.blocks_per_request + 3  # one more in 3 groups
    assert "states.hybrid_prefix_caching" in {cause.rule for cause in step.causes}


def test_nothing_changes_where_nothing_changed() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=8192, kv_cache_memory_bytes=20 << 30)
    (step,) = steps(LLAMA, flags, "0.19.0", "0.19.1")
    assert step.changed == ()
    assert step.causes == ()


def test_every_step_between_the_versions_is_listed() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=8192, kv_cache_memory_bytes=20 << 30)
    specified = [
        (s.before.version, s.after.version) for s in steps(LLAMA, flags, "0.19.0", "0.24.0", "0.32.0")
    ]
    assert specified == [("0.19.0", "0.24.0"), ("0.24.0", "0.32.0")]
