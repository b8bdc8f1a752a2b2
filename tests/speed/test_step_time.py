"""Laws of the time of a step."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from service.gpus.catalog import find_gpu, gpu_catalog
from service.speed.gpu_speed import GpuSpeed, gpu_speed
from service.speed.serving_speed import Load, serving_speed
from service.speed.speed_constants import speed_constants
from service.speed.step_time import Bound, StepClock
from tests.speed.test_step_work import work_of

CURRENT = speed_constants(Version("0.19.0"))
BATCHES = st.integers(1, 2048)
CONTEXTS = st.integers(1, 1 << 17)
H200 = 4.8e12


def peaks(gpu: str) -> GpuSpeed:
    found = gpu_speed(find_gpu(gpu))
    assert found is not None
    return found


def clock(model: str = "openai/gpt-oss-120b", ranks: int = 1, gpu: str = "h200-sxm-141gb") -> StepClock:
    return StepClock(work_of(model, ranks), peaks(gpu), CURRENT, max_num_batched_tokens=8192)


@given(batch=BATCHES, context=CONTEXTS)
def test_a_larger_batch_takes_no_less_time(batch: int, context: int) -> None:
    one = clock()
    assert one.step_time(batch + 1, context).seconds >= one.step_time(batch, context).seconds
    assert one.step_time(batch, context + 1).seconds >= one.step_time(batch, context).seconds


@given(batch=BATCHES, context=CONTEXTS, prefill=st.integers(0, 8192))
def test_no_step_is_faster_than_the_hardware(batch: int, context: int, prefill: int) -> None:
    step = clock().step_time(batch, context, prefill, 8192)
    assert step.seconds >= step.floor
    assert step.floor >= batch * clock().work.cache_bytes(context) / H200


@given(batch=BATCHES, prompt=st.integers(1, 1 << 16), output=st.integers(1, 1 << 14))
def test_intervals_are_in_order_and_above_the_floor(batch: int, prompt: int, output: int) -> None:
    load = Load(prompt, prompt + output / 2, output, batch)
    speed = serving_speed(clock(), load, capability="9.0", engines=1)
    for each in (speed.tpot_ms, speed.output_tokens_per_second, speed.per_request, speed.ttft_ms):
        assert 0 < each.low <= each.middle <= each.high
    assert speed.tpot_ms.low >= speed.floor_tpot_ms
    assert speed.output_tokens_per_second.high <= batch / speed.floor_tpot_ms * 1e3 * (1 + 1e-9)


def test_one_request_of_a_dense_model_by_hand() -> None:
    work = work_of("meta-llama/Llama-3.1-70B")
    step = StepClock(work, peaks("h200-sxm-141gb"), CURRENT, 8192).step_time(1, 1000)
    read = work.dense_bytes + work.head_bytes + 1000 * 327_680
    assert step.floor == pytest.approx(read / H200)
    assert step.memory == pytest.approx(read / H200 / 0.8)
    assert step.launches == pytest.approx(80 * 36e-6 + 15e-6)
    assert step.collectives == 0
    assert step.bound is Bound.MEMORY


def test_ranks_exchange_in_every_layer() -> None:
    work = work_of("meta-llama/Llama-3.1-70B", 4)
    step = StepClock(work, peaks("h200-sxm-141gb"), CURRENT, 8192).step_time(1, 1)
    # Two all-reduces of 8,192 elements of 16 bits; each rank sends 3/4 of them twice, at 40 % of 450 GB/s.
    sent = 80 * 2 * 8192 * 2 * 2 * 3 / 4 / (450e9 * 0.4)
    assert step.collectives == pytest.approx(80 * 25e-6 + sent)


def test_a_shared_prefix_is_not_computed_again() -> None:
    whole = serving_speed(clock(), Load(8000, 8500, 1000, 32), capability="9.0", engines=1)
    shared = serving_speed(clock(), Load(1000, 8500, 1000, 32), capability="9.0", engines=1)
    assert shared.tpot_ms.middle < whole.tpot_ms.middle
    assert shared.ttft_floor_ms < whole.ttft_floor_ms


def test_eager_steps_take_longer() -> None:
    one = clock()
    eager = StepClock(one.work, one.gpu, one.constants, one.max_num_batched_tokens, eager=True)
    assert eager.step_time(1, 1).launches > one.step_time(1, 1).launches


def test_prompts_take_longer_where_the_cache_is_unpacked_in_software() -> None:
    """48 calls of FlashInfer's prefill: 145.81 ms with nvfp4, 84.03 with fp8 (vllm-project/vllm#50416)."""
    one = clock("meta-llama/Llama-3.1-70B", 8)
    unpacking = replace(one, unpacks_in_prompts=True)
    longer = unpacking.prompt_time(100_000).compute - one.prompt_time(100_000).compute
    # 80 layers, 8 of 64 heads a rank, 128 elements, 2 products of 2 operations, half of the prompt.
    attention = 100_000 * 50_000 * 80 * 8 * 128 * 4 / 989e12
    assert longer == pytest.approx((145.81 / 84.03 - 1) * attention / CURRENT.prompt_share, rel=0.02)
    assert unpacking.step_time(8, 1000) == one.step_time(8, 1000)


def test_releases_before_asynchronous_scheduling_are_slower_and_not_calibrated() -> None:
    old = speed_constants(Version("0.12.0"))
    assert old.release_factor > 1
    assert CURRENT.band("9.0") == ("calibrated", CURRENT.bands["calibrated"])
    assert old.band("9.0")[0] == CURRENT.band("7.5")[0] == "assumed"


def test_every_gpu_type_has_peaks() -> None:
    unknown = {gpu.id for gpu in gpu_catalog() if gpu_speed(gpu) is None and not gpu.unmodelled}
    assert not unknown


@pytest.mark.parametrize(
    ("gpu", "half", "byte", "nibble"),
    [
        # NVIDIA's datasheets, dense: the printed figures with sparsity are twice as high.
        ("h100-sxm-80gb", 989, 1979, 1979),
        ("l40s-48gb", 362, 733, 733),
        ("b200-180gb", 2250, 4500, 9000),
        ("a100-sxm-80gb", 312, 624, 624),  # 8-bit integers; it has no 8-bit floats
        ("rtx-5090-32gb", 209.5, 419, 1676),
    ],
)
def test_peaks_agree_with_datasheets(gpu: str, half: float, byte: float, nibble: float) -> None:
    found = list(peaks(gpu).operations.values())
    assert found == pytest.approx([half * 1e12, byte * 1e12, nibble * 1e12], rel=0.02)
