"""Several engines on one GPU, against the engine's own check: free memory is at least the requested share."""

import re
from math import ceil

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.advisor.colocation import Colocation, SharedStart, colocated
from service.advisor.plan import plan
from service.advisor.plan_cache import PlanCache
from service.advisor.plan_request import EngineChoice, Model, PlanRequest
from service.advisor.plan_types import Candidate
from service.advisor.verdict import Verdict
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
    return colocated(starts, planned)


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
    shares = [float(each) for each in re.findall(r"0\.\d+", remedy)]

    assert verdicts(found) == [Verdict.STARTS, Verdict.REFUSED]
    assert len(shares) == 2
    assert sum(shares) < 1
    assert verdicts(shared(*(start(share) for share in shares))) == [Verdict.STARTS, Verdict.STARTS]


def test_shares_are_offered_where_a_full_load_would_not_fit() -> None:
    """Two shares of 0.48 start, and hold more than the GPU with what CUDA and graphs take beside them."""
    crowded = shared(start(0.48), start(0.48))
    shares = [float(each) for each in re.findall(r"0\.\d+", crowded.remedy)]

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
