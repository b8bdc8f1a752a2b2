"""The node's GPUs as the driver's library sees them, without a CUDA context."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pynvml

HOST_NAME: Final = "cpu"
"""What the host's memory is called where it stands in for a GPU."""
MEMINFO: Final = Path("/proc/meminfo")
KIB: Final = 1024
VIRTUAL_MODES: Final = frozenset(
    {
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU,
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU,
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA,
    }
)
"""A share of a GPU, or a GPU that is shared out to others; one that is passed through is whole."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One GPU at one moment. Sizes are bytes."""

    uuid: str
    name: str
    compute_capability: str
    total: int
    """The driver's total, which is larger than CUDA's."""
    free: int
    used: int
    """Without what the driver itself reserves."""
    utilization: int = 0
    """Percent of the last sample period."""
    pids: tuple[int, ...] = ()
    """Processes with compute or graphics contexts, as far as they can be seen."""
    exclusive: bool = False
    """Only one process at a time may have a context."""
    mig: bool = False
    virtual: bool = False
    """A share of a GPU that a hypervisor hands out."""
    awaits_reset: bool = False
    """Faulty memory is set aside at the next reset, or the check of memory (ECC) is switched by it."""
    ecc: bool | None = None
    """Memory is checked, which takes a part of it on some GPUs; ``None`` where there is no such check."""

    def document(self) -> dict[str, Any]:
        """Return it as an inventory lists it."""
        return {**asdict(self), "pids": len(self.pids)}


class Devices(Protocol):
    """Where a worker looks for its GPUs."""

    @property
    def driver(self) -> str | None:
        """Version of the driver, where there is one."""

    @property
    def absence(self) -> str:
        """Why there are no GPUs; empty where there are."""

    def states(self) -> tuple[DeviceState, ...]:
        """Look at every GPU now."""


class Nvml:
    """NVIDIA's management library; a node without it has no GPUs, and says why."""

    def __init__(self) -> None:
        self._handles: Sequence[Any] = ()
        self.driver: str | None = None
        self.absence = ""
        try:
            pynvml.nvmlInit()
            self.driver = pynvml.nvmlSystemGetDriverVersion()
            self._handles = [
                pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
            ]
        except pynvml.NVMLError as error:
            self.absence = f"no NVIDIA GPU can be seen: {error}"
        else:
            self.absence = "" if self._handles else "the NVIDIA driver lists no GPU"

    def states(self) -> tuple[DeviceState, ...]:
        """Look at every GPU now."""
        return tuple(map(_state, self._handles))


def _state(handle: Any) -> DeviceState:  # noqa: ANN401 - NVML has no types
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    lists = (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
    )
    pids = {process.pid for running in lists for process in _requested(running, handle, ())}
    mode = _requested(pynvml.nvmlDeviceGetComputeMode, handle, pynvml.NVML_COMPUTEMODE_DEFAULT)
    ecc = _requested(pynvml.nvmlDeviceGetEccMode, handle, None)
    virtual = _requested(
        pynvml.nvmlDeviceGetVirtualizationMode, handle, pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE
    )
    rates = _requested(pynvml.nvmlDeviceGetUtilizationRates, handle, None)
    remapped = _requested(pynvml.nvmlDeviceGetRemappedRows, handle, (0, 0, 0, 0))
    retired = _requested(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle, 0)
    return DeviceState(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        compute_capability=f"{major}.{minor}",
        total=memory.total,
        free=memory.free,
        used=memory.used,
        utilization=0 if rates is None else rates.gpu,
        pids=tuple(sorted(pids)),
        exclusive=mode != pynvml.NVML_COMPUTEMODE_DEFAULT,
        mig=_requested(pynvml.nvmlDeviceGetMigMode, handle, (0, 0))[0] != 0,
        virtual=virtual in VIRTUAL_MODES,
        awaits_reset=bool(remapped[2] or remapped[3] or retired) or (ecc is not None and ecc[0] != ecc[1]),
        ecc=None if ecc is None else bool(ecc[0]),
    )


def _requested(question: Callable[[Any], Any], handle: Any, otherwise: Any) -> Any:  # noqa: ANN401 - NVML has no types
    """Return what a GPU answers, or what holds where it does not know the question."""
    try:
        return question(handle)
    except pynvml.NVMLError:
        return otherwise


class HostMemory:
    """The host's memory in place of a GPU, for nodes that have none and were told to stand in."""

    driver: str | None = None
    absence = ""

    def states(self) -> tuple[DeviceState, ...]:
        """Look at the memory now."""
        total, free = host_memory()
        return (DeviceState(HOST_NAME, HOST_NAME, "0.0", total, free, total - free),)


def host_memory() -> tuple[int, int]:
    """Return total and available bytes of the host."""
    lines = (line.split() for line in MEMINFO.read_text("ascii").splitlines())
    sizes = {words[0]: int(words[1]) * KIB for words in lines}
    return sizes["MemTotal:"], sizes["MemAvailable:"]
