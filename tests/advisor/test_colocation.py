"""Several engines on one GPU, against the engine's own check: free memory is at least the requested share."""

import re
from math import ceil

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.colocation import Colocation, SharedStart, colocated
from service.advisor.dry_runs.plan_cache import PlanCache
from service.advisor.joint_shares import with_joint_shares
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import GpuType
from service.memory.constants import constants_at
from tests.accuracy.oracle import bundled_architecture

MODEL = "Qwen/Qwen3-8B"
GPU = find_gpu("h100-sxm-80gb")
CACHE = PlanCache()
GIB = 2**30
MIB = 2**20


def start(utilization: float, *devices: str, gpu: GpuType = GPU, **flags: object) -> SharedStart:
    serve = ServeFlags(gpu_memory_utilization=utilization, max_model_len=4096, **flags)  # type: ignore[arg-type]
    model = Model(MODEL, None, "bundled", bundled_architecture(MODEL))
    request = PlanRequest(model, (gpu,), EngineChoice.of("0.19.0"), serve, search=False)
    return SharedStart(request, devices)


def planned(request: PlanRequest) -> Candidate:
    return plan(request, CACHE).plans[0].candidates[0]


def shared(*starts: SharedStart) -> Colocation:
    return with_joint_shares(starts, colocated(starts, planned), planned)


def verdicts(found: Colocation) -> list[Verdict]:
    return [each.candidate.verdict for each in found.engines]


def test_a_ready_engine_holds_the_sum_of_what_it_allocated() -> None:
    """Weights, libraries, graphs and blocks, and the CUDA context, which no budget of the engine counts."""
    (engine,) = shared(start(0.5)).engines
    memory, cache = engine.candidate.memory, engine.candidate.kv_cache
    assert memory is not None
    assert cache is not None
    assert engine.held is not None

    context = constants_at(engine.request.engine.rules.release).device.context_mib.one
    stored = cache.num_blocks * cache.largest_bytes_per_block
    allocated = memory.weights.bytes + memory.non_torch.bytes + memory.captured_graphs.bytes + stored

    # The last block that no longer fits stays free.
    assert 0 <= engine.held.bytes - allocated - context.middle * MIB < cache.largest_bytes_per_block + MIB
    assert engine.held.high >= memory.requested.bytes + context.middle * MIB


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(30, 92), st.integers(25, 92))
def test_the_second_engine_starts_where_its_share_is_free_and_only_there(first: int, second: int) -> None:
    """vLLM 0.19.0, v1/worker/utils.py request_memory: ceil(total x utilization) > free raises ValueError."""
    one, two = shared(start(first / 100), start(second / 100)).engines
    assert one.free is not None
    assert one.held is not None
    assert two.free is not None
    requested = ceil(GPU.memory_bytes * second / 100)

    assert two.beside == (0,)
    assert two.free.low == max(0, one.free.low - one.held.high)
    assert two.free.high == max(0, one.free.high - one.held.low)
    if two.free.high < requested:
        assert two.candidate.verdict is Verdict.REFUSED
        assert two.candidate.error is not None
        assert two.candidate.error.message.startswith("Free memory on device")
    elif two.candidate.verdict is Verdict.STARTS:
        assert two.free.low >= requested


def test_shares_that_fill_the_gpu_leave_no_room_for_the_cuda_contexts() -> None:
    """79.19 GiB in all: two halves ask for all of it, while each process holds half a GiB more; the first may
    still have its activations free, as those of its profile run were given back.
    """
    assert verdicts(shared(start(0.5), start(0.5))) == [Verdict.STARTS, Verdict.UNCERTAIN]
    assert verdicts(shared(start(0.55), start(0.5))) == [Verdict.STARTS, Verdict.REFUSED]
    assert verdicts(shared(start(0.45), start(0.45))) == [Verdict.STARTS, Verdict.STARTS]


def test_an_engine_that_does_not_start_holds_nothing() -> None:
    found = shared(start(0.5), start(0.9), start(0.4))

    assert verdicts(found) == [Verdict.STARTS, Verdict.REFUSED, Verdict.STARTS]
    assert found.engines[2].beside == (0,)
    assert found.verdict is Verdict.REFUSED


def test_engines_on_other_gpus_do_not_meet() -> None:
    found = shared(
        start(0.9, "0"), start(0.9, "1"), start(0.9, "2", "3", tensor_parallel_size=2), start(0.9, "3", "1")
    )

    assert [each.devices for each in found.engines] == [("0",), ("1",), ("2", "3"), ("3",)]
    assert [each.beside for each in found.engines] == [(), (), (), (2,)]
    assert verdicts(found)[:3] == [Verdict.STARTS] * 3
    assert verdicts(found)[3] is Verdict.REFUSED


def test_what_is_free_is_that_of_the_fullest_gpu() -> None:
    found = shared(start(0.3, "0"), start(0.6, "1"), start(0.3, "0", "1", tensor_parallel_size=2))
    last = found.engines[2]

    assert last.beside == (0, 1)
    assert last.free is not None
    assert found.engines[1].held is not None
    assert last.free.bytes < GPU.memory_bytes - found.engines[1].held.bytes


def test_shares_that_leave_nothing_for_load_are_warned_of() -> None:
    crowded = shared(start(0.48), start(0.48))
    roomy = shared(start(0.3), start(0.3))

    assert any("full load" in words for words in crowded.warnings)
    assert not any("full load" in words for words in roomy.warnings)
    assert any("one before it is ready" in words for words in roomy.warnings)


def test_a_given_cache_is_held_as_given() -> None:
    """vLLM: --kv-cache-memory-bytes takes the place of the share."""
    (engine,) = shared(start(0.9, kv_cache_memory_bytes=4 * GIB)).engines

    assert engine.held is not None
    assert engine.candidate.memory is not None
    weights = engine.candidate.memory.weights.bytes
    assert weights + 4 * GIB < engine.held.bytes < weights + 6 * GIB


def test_shares_are_offered_where_two_engines_ask_for_more_than_one_gpu() -> None:
    """Two default shares of 0.92 need 184 % of the GPU; the shares offered are at most the whole of it."""
    found = shared(start(0.92), start(0.92))
    (remedy,) = [each for each in found.warnings if each.startswith("Fix:")]
    shares = [float(each) for each in re.findall(r"(0\.\d+) for engine", remedy)]

    assert verdicts(found) == [Verdict.STARTS, Verdict.REFUSED]
    assert len(shares) == 2
    assert sum(shares) < 1
    assert verdicts(shared(*(start(share) for share in shares))) == [Verdict.STARTS, Verdict.STARTS]


def test_shares_are_offered_where_a_full_load_would_not_fit() -> None:
    """Two shares of 0.48 start, and hold more than the GPU with what CUDA and graphs take beside them."""
    crowded = shared(start(0.48), start(0.48))
    shares = [float(each) for each in re.findall(r"(0\.\d+) for engine", crowded.remedy)]

    assert verdicts(crowded)[0] is Verdict.STARTS
    assert "full load" in crowded.remedy
    assert not any("full load" in words for words in shared(*map(start, shares)).warnings)


def test_no_shares_are_offered_where_weights_alone_are_too_large() -> None:
    """Qwen3-8B has 15.27 GiB of weights; an L4 has 22.04 GiB, which is less than twice that."""
    card = find_gpu("l4-24gb")
    found = shared(start(0.92, gpu=card), start(0.92, gpu=card))

    assert found.remedy.startswith("No shares let these engines start")
    taken = re.search(r"take ([\d.]+) of", found.remedy)
    assert taken is not None
    assert 30.5 < float(taken[1]) < 30.7


def test_no_shares_are_offered_where_all_engines_start() -> None:
    assert not shared(start(0.45), start(0.45)).remedy


def long_start(model: str, share: float, length: int, workload: Workload | None = None) -> SharedStart:
    serve = ServeFlags(gpu_memory_utilization=share, max_model_len=length)
    target = Model(model, None, "bundled", bundled_architecture(model))
    gpu = find_gpu("l40s-48gb")
    engine = EngineChoice.of("0.33.0")
    return SharedStart(PlanRequest(target, (gpu,), engine, serve, workload=workload, search=False))


def offered(found: Colocation) -> list[float]:
    return [float(each) for each in re.findall(r"(0\.\d+) for engine", found.remedy)]


def test_an_engine_that_starts_keeps_its_share() -> None:
    """A 0.6B embedder that asks for 0.45 needs some 2 GiB, and 3.5 for a request: 0.32 is enough."""
    found = shared(
        long_start("Qwen/Qwen3-8B", 0.6, 16_384), long_start("Qwen/Qwen3-Embedding-0.6B", 0.45, 32_768)
    )

    assert verdicts(found) == [Verdict.STARTS, Verdict.REFUSED]
    assert offered(found)[0] == 0.6
    assert "too little" not in found.remedy


def test_shares_give_each_engine_two_requests_where_all_have_room_for_them() -> None:
    """Qwen3-8B holds a request of 16,384 tokens in 2.25 GiB beside some 16.5, Qwen3-1.7B in 1.75 beside 4."""
    found = shared(long_start("Qwen/Qwen3-8B", 0.92, 16_384), long_start("Qwen/Qwen3-1.7B", 0.92, 16_384))
    held = [float(each) for each in re.findall(r"holds ([\d.]+) requests", found.remedy)]

    assert len(held) == 2
    assert min(held) >= 2
    shares = offered(found)
    again = shared(
        long_start("Qwen/Qwen3-8B", shares[0], 16_384), long_start("Qwen/Qwen3-1.7B", shares[1], 16_384)
    )
    assert verdicts(again) == [Verdict.STARTS, Verdict.STARTS]
    caches = [each.candidate.kv_cache for each in again.engines]
    assert [cache and round(cache.max_concurrency, 2) for cache in caches] == held


def test_an_engine_that_gets_less_than_it_needs_is_named() -> None:
    """On 44.4 GiB weights of 15.3 and 7.5 leave some 17; two requests each take 4 x 5.6 (144 KiB a token)."""
    found = shared(long_start("Qwen/Qwen3-8B", 0.92, 40_960), long_start("Qwen/Qwen3-4B", 0.92, 40_960))

    assert len(offered(found)) == 2
    assert "That is too little for engine" in found.remedy
    assert "it should hold 2" in found.remedy


def test_shares_serve_the_workloads_that_are_given() -> None:
    """Sixteen requests of 3,500 tokens take 7.7 GiB of Qwen3-8B (147,456 B a token): the larger part."""
    most, few = Workload(3000, 500, 16), Workload(3000, 500, 2)
    found = shared(
        long_start("Qwen/Qwen3-8B", 0.7, 16_384, most), long_start("Qwen/Qwen3-4B", 0.6, 8_192, few)
    )

    assert "Engine 1 then finishes 16 of 16 requests" in found.remedy
    assert "Engine 2 then finishes 2 of 2 requests" in found.remedy


def test_it_is_said_where_no_shares_are_found() -> None:
    """A request of 40,960 tokens takes 5.6 GiB of Qwen3-8B beside 16.5: twice that is all of 44.4."""
    found = shared(long_start("Qwen/Qwen3-8B", 0.92, 40_960), long_start("Qwen/Qwen3-8B", 0.92, 40_960))
    assert found.remedy.startswith("No shares were found")
