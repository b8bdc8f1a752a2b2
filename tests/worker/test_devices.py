"""What NVIDIA's library answers, as a worker reads it: simulated below the library's own Python functions."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from service.units import GIB
from service.worker.devices import DeviceState, Nvml
from service.worker.guard import ProbeDemand, guard_refusal

HANDLE = object()
Answers = dict[str, Any]


def process(pid: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=None)


UNSUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
IDLE: Answers = {
    "nvmlInit": None,
    "nvmlSystemGetDriverVersion": "580.65.06",
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": HANDLE,
    "nvmlDeviceGetUUID": "GPU-1",
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 * GIB, free=79 * GIB, used=GIB // 2),
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlDeviceGetGraphicsRunningProcesses": [],
    "nvmlDeviceGetMPSComputeRunningProcesses": [],
    "nvmlDeviceGetComputeMode": pynvml.NVML_COMPUTEMODE_DEFAULT,
    "nvmlDeviceGetVirtualizationMode": pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
    "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
    "nvmlDeviceGetRetiredPagesPendingStatus": 0,
    "nvmlDeviceGetMigMode": (0, 0),
    "nvmlDeviceGetEccMode": (1, 1),
}
OPTIONAL = [name for name in IDLE if name.startswith("nvmlDevice") and name not in list(IDLE)[:8]]


def _answering(answer: Any) -> Callable[..., Any]:  # noqa: ANN401 - the library has no types
    def call(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - see above
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Nvml]:
    """Return the node's devices where the library answers so, and as on an idle GPU otherwise."""

    def answers(**changed: Any) -> Nvml:  # noqa: ANN401 - see above
        for name, answer in {**IDLE, **changed}.items():
            monkeypatch.setattr(pynvml, name, _answering(answer))
        return Nvml()

    return answers


def reason(state: DeviceState, *, force: bool = False) -> str | None:
    return guard_refusal([state] * 3, ProbeDemand(20 * GIB, force=force), 4 * GIB)


def test_an_idle_gpu_is_read_and_may_be_probed(library: Callable[..., Nvml]) -> None:
    devices = library()
    (state,) = devices.states()
    assert (devices.driver, devices.absence) == ("580.65.06", "")
    expected = DeviceState(
        "GPU-1", "NVIDIA H100 80GB HBM3", "9.0", 80 * GIB, 79 * GIB, GIB // 2, 0, (), ecc=True
    )
    assert state == expected
    assert reason(state) is None
    assert state.document()["ecc"] is True


def test_a_consumer_card_that_knows_few_questions_is_read(library: Callable[..., Nvml]) -> None:
    (state,) = library(**dict.fromkeys(OPTIONAL, UNSUPPORTED)).states()
    assert reason(state) is None
    assert state.ecc is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nvmlDeviceGetMigMode": (1, 1)}, "MIG"),
        ({"nvmlDeviceGetVirtualizationMode": pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU}, "virtual"),
        ({"nvmlDeviceGetVirtualizationMode": pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU}, "virtual"),
        ({"nvmlDeviceGetEccMode": (1, 0)}, "reset"),
        ({"nvmlDeviceGetEccMode": (0, 1)}, "reset"),
        ({"nvmlDeviceGetRemappedRows": (0, 1, 1, 0)}, "reset"),
        ({"nvmlDeviceGetRemappedRows": (0, 1, 0, 1)}, "reset"),
        ({"nvmlDeviceGetRetiredPagesPendingStatus": 1}, "reset"),
        (
            {
                "nvmlDeviceGetComputeMode": pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
                "nvmlDeviceGetComputeRunningProcesses": [process(7)],
            },
            "exclusive",
        ),
    ],
)
def test_what_no_force_overrides(library: Callable[..., Nvml], changed: Answers, words: str) -> None:
    (state,) = library(**changed).states()
    for force in (False, True):
        why = reason(state, force=force)
        assert why is not None
        assert words in why


def test_a_gpu_that_is_passed_through_whole_is_probed(library: Callable[..., Nvml]) -> None:
    mode = pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH
    (state,) = library(nvmlDeviceGetVirtualizationMode=mode).states()
    assert reason(state) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nvmlDeviceGetComputeRunningProcesses": [process(7), process(8)]}, "2 other processes use"),
        ({"nvmlDeviceGetGraphicsRunningProcesses": [process(7)]}, "1 other process uses"),
        ({"nvmlDeviceGetMPSComputeRunningProcesses": [process(7)]}, "1 other process uses"),
        # One process with a compute and a graphics context.
        (
            {
                "nvmlDeviceGetComputeRunningProcesses": [process(7)],
                "nvmlDeviceGetGraphicsRunningProcesses": [process(7)],
            },
            "1 other process uses",
        ),
        ({"nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=3, memory=0)}, "computing"),
        # In a container the list of processes is empty, and the memory is not.
        (
            {"nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 * GIB, free=32 * GIB, used=48 * GIB)},
            "the worker cannot see",
        ),
    ],
)
def test_others_on_the_gpu_are_seen(library: Callable[..., Nvml], changed: Answers, words: str) -> None:
    (state,) = library(**changed).states()
    why = reason(state)
    assert why is not None
    assert words in why


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nvmlInit": pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)}, "no NVIDIA GPU is visible"),
        ({"nvmlInit": pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)}, "no NVIDIA GPU is visible"),
        ({"nvmlDeviceGetCount": 0}, "lists no GPU"),
    ],
)
def test_a_node_without_gpus_says_why(library: Callable[..., Nvml], changed: Answers, words: str) -> None:
    devices = library(**changed)
    assert devices.states() == ()
    assert words in devices.absence
