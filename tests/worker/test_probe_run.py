"""Jobs on a simulated GPU: real children, real keepers, a ledger in place of memory."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from service.calibration.measurement import MeasuredModel
from service.probes.job_spec import (
    Alloc,
    Engine,
    Inventory,
    JobSpec,
    ProbeLimits,
    Target,
)
from service.units import GIB
from service.worker import probe_run
from service.worker.devices import (
    DeviceState,
    HostMemory,
    Nvml,
    host_memory,
)
from service.worker.probe_run import CANCELLED, ProbeRun
from service.worker.process_tree import descendants
from tests.worker.simulation import SimulatedGpu


@pytest.fixture(autouse=True)
def _fast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_run, "SAMPLE_SECONDS", 0.02)


def alloc(*tensors: int, limits: ProbeLimits = ProbeLimits(), target: Target = Target()) -> JobSpec:  # noqa: B008 - frozen
    return JobSpec(Alloc(tensors, ()), target, limits)


async def test_what_was_planned_is_allocated(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    spec = JobSpec(Alloc((8 * GIB, 4 * GIB), (GIB,) * 3))
    result = await ProbeRun(gpu.node, gpu, spec).result()
    assert result["outcome"] == "measured", result
    specified = result["allocation"]
    assert specified["weights_taken_bytes"] == specified["weights_requested_bytes"] == 12 * GIB
    assert specified["kv_tensors_taken_bytes"] == 3 * GIB
    assert specified["allocated_bytes"] == 15 * GIB


async def test_what_the_libraries_and_the_allocator_take_is_told(tmp_path: Path) -> None:
    """80 GiB, all free: 4 stay in reserve, 1 is for a context and 0.25 for the watchdog's peace."""
    gpu = SimulatedGpu(tmp_path / "gpu", nccl=200 << 20)
    specified = (await ProbeRun(gpu.node, gpu, alloc(GIB)).result())["allocation"]
    assert specified["granularity_bytes"] == 2 << 20
    assert specified["nccl_bytes"] == 200 << 20
    assert specified["largest_bytes"] == specified["largest_limit_bytes"] == 80 * GIB - 5 * GIB - GIB // 4
    assert gpu.lowest_free >= 4 * GIB


async def test_the_largest_tensor_is_searched_for_where_not_all_can_be_had(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    # The driver shows twice what there is.
    shown = replace(gpu, folder=tmp_path / "shown", total=160 * GIB)
    specified = (await ProbeRun(gpu.node, shown, alloc(GIB)).result())["allocation"]
    assert 80 * GIB - specified["largest_limit_bytes"] // 128 <= specified["largest_bytes"] <= 80 * GIB


async def test_the_largest_tensor_keeps_to_the_limit_of_the_job(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    specified = (await ProbeRun(gpu.node, gpu, alloc(GIB, limits=ProbeLimits(max_bytes=10 * GIB))).result())[
        "allocation"
    ]
    assert specified["largest_bytes"] == 9 * GIB


async def test_nothing_beyond_the_plan_is_taken_beside_others(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", victim=8 * GIB)
    node = replace(gpu.node, allows_force=True)
    specified = (await ProbeRun(node, gpu, alloc(GIB, limits=ProbeLimits(force=True))).result())["allocation"]
    assert "largest_bytes" not in specified
    assert gpu.lowest_free >= 80 * GIB - 8 * GIB - 2 * GIB


async def test_a_gpu_that_is_lost_ends_the_probe_and_its_child(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=60)

    class Lost:
        driver, absence, looks = gpu.driver, "", 0

        def states(self) -> tuple[DeviceState, ...]:
            self.looks += 1
            if self.looks > 2 * probe_run.SAMPLES:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
            return gpu.states()

    before = descendants(os.getpid())
    with pytest.raises(pynvml.NVMLError):
        await ProbeRun(gpu.node, Lost(), alloc(GIB)).result()
    assert descendants(os.getpid()) <= before


@pytest.mark.slow
async def test_a_server_on_the_gpu_loses_nothing_to_50_probes(tmp_path: Path) -> None:
    """The server holds 60 %; probes ask for anything, with force or without, seen or not."""
    outcomes = []
    for number in range(50):
        gpu = SimulatedGpu(tmp_path / f"gpu{number}", victim=48 * GIB, victim_visible=number % 3 != 0)
        forced = number % 2 == 0
        limits = ProbeLimits(force=forced, reserve_bytes=0)
        node = replace(gpu.node, allows_force=number % 4 == 0)
        wanted = (number + 1) * GIB
        result = await ProbeRun(node, gpu, alloc(wanted, limits=limits)).result()
        outcomes.append(result["outcome"])
        allowed = forced and node.allows_force
        # 32 GiB are free; 4 stay in reserve, and a context takes up to 1.
        assert result["outcome"] == ("measured" if allowed and wanted <= 27 * GIB else "refused"), result
        assert gpu.lowest_free >= 4 * GIB
    assert {"measured", "refused"} == set(outcomes)


@pytest.mark.slow
async def test_a_probe_that_takes_too_much_is_killed(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=0.1)
    # It says it takes a little, and goes on: the watchdog sees the device run low.
    spec = alloc(*(GIB,) * 79)
    run = ProbeRun(gpu.node, gpu, replace(spec, work=_Understated((GIB,) * 79, ())))
    result = await run.result()
    assert (result["outcome"], result["detail"]) == ("failed", "stopped: the device ran low on memory")
    # Stopped within a tensor or two of the reserve.
    assert gpu.lowest_free >= 1 * GIB
    await asyncio.sleep(0.1)
    assert gpu.states()[0].used == 0


class _Understated(Alloc):
    @property
    def bytes(self) -> int:
        return GIB


async def test_cancelling_ends_the_child(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=60)
    run = ProbeRun(gpu.node, gpu, alloc(GIB, GIB))
    working = asyncio.create_task(run.result())
    while run.phase != "weights":  # noqa: ASYNC110 - a process says so
        await asyncio.sleep(0.05)
    run.stop(CANCELLED)
    assert (await working)["outcome"] == "cancelled"


async def test_out_of_memory_is_a_result(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    # The driver shows more than there is.
    shown = replace(gpu, folder=tmp_path / "shown", total=200 * GIB)
    result = await ProbeRun(gpu.node, shown, alloc(100 * GIB)).result()
    assert (result["outcome"], result["detail"]) == ("out_of_memory", "CUDA out of memory")


async def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=60)
    result = await ProbeRun(gpu.node, gpu, alloc(GIB, limits=ProbeLimits(wall_seconds=1))).result()
    assert (result["outcome"], result["detail"]) == ("failed", "it took longer than 1 s")


async def test_two_probes_never_share_a_gpu(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=0.5)
    first, second = (ProbeRun(gpu.node, gpu, alloc(GIB)) for _ in range(2))
    results = await asyncio.gather(first.result(), second.result())
    assert sorted(result["outcome"] for result in results) == ["measured", "refused"]
    assert "another probe" in str(results)


@pytest.mark.parametrize("target", [Target(gpu_name="NVIDIA H100"), Target(gpu_uuid="GPU-2")])
async def test_another_gpu_than_the_one_asked_for_will_not_do(tmp_path: Path, target: Target) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    result = await ProbeRun(gpu.node, gpu, alloc(GIB, target=target)).result()
    assert result["outcome"] == "refused"
    assert "the node has no GPU" in result["detail"]


async def test_low_memory_of_the_host_ends_a_probe(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", seconds_per_tensor=60)
    node = replace(gpu.node, host_reserve_bytes=1 << 50)
    assert "the host ran low" in (await ProbeRun(node, gpu, alloc(GIB)).result())["detail"]


async def test_flags_beyond_the_closed_list_never_reach_an_engine(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    model = MeasuredModel("a/b", {})
    for flags in ({"trust_remote_code": True}, {"worker_cls": "os.system"}, {"model": "/etc"}):
        with pytest.raises(ValueError, match="Extra inputs"):
            await ProbeRun(gpu.node, gpu, JobSpec(Engine(model, flags, "0.32.0", 1, 1, 10, GIB))).result()


async def test_a_draft_is_never_loaded_whatever_a_service_says(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    flags = {"speculative_config": {"model": "/etc/passwd", "num_speculative_tokens": 1}}
    work = Engine(MeasuredModel("a/b", {}), flags, "0.32.0", 1, 1, 10, GIB)
    result = await ProbeRun(gpu.node, gpu, JobSpec(work)).result()
    assert result == {"outcome": "refused", "detail": "a probe cannot use speculative_config"}


async def test_an_environment_without_an_engine_fails_plainly(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu")
    work = Engine(MeasuredModel("a/b", {"x": 1}), {}, "0.32.0", 1, 1, 10, GIB)
    result = await ProbeRun(gpu.node, gpu, JobSpec(work)).result()
    assert (result["outcome"], result["detail"]) == ("failed", "ModuleNotFoundError: No module named 'vllm'")


async def test_an_inventory_lists_what_the_driver_sees(tmp_path: Path) -> None:
    gpu = SimulatedGpu(tmp_path / "gpu", victim=GIB)
    result = await ProbeRun(gpu.node, gpu, JobSpec(Inventory())).result()
    (listed,) = result["inventory"]
    assert (listed["name"], listed["total"], listed["pids"]) == ("simulated", 80 * GIB, 1)
    assert listed["driver"] == "580.65.06"


async def test_a_node_without_a_driver_says_so(tmp_path: Path) -> None:
    devices = Nvml()
    if devices.states():
        pytest.skip("this machine has NVIDIA GPUs")
    node = SimulatedGpu(tmp_path / "gpu").node
    result = await ProbeRun(node, devices, JobSpec(Inventory())).result()
    assert result == {"outcome": "refused", "detail": devices.absence}
    assert "NVIDIA" in devices.absence
    refused = await ProbeRun(node, devices, alloc(GIB)).result()
    assert refused == {"outcome": "refused", "detail": devices.absence}


def test_the_host_can_stand_in() -> None:
    (state,) = HostMemory().states()
    total, free = host_memory()
    assert state.total == total > state.free > 0
    assert abs(state.free - free) < GIB
