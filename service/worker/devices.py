"""Reads the state of the node's GPUs from the driver's library (NVML), without a CUDA context."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pynvml

HOST_NAME: Final = "cpu"
"""Device name of the host's memory where it is used in place of a GPU."""
MEMINFO: Final = Path("/proc/meminfo")
KIB: Final = 1024
VIRTUAL_MODES: Final = frozenset(
    {
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU,
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU,
        pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA,
    }
)
"""Modes in which a GPU is shared by virtual machines. A GPU passed through to one machine is not shared."""


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
    """Bytes in use, without the driver's own reserve."""
    utilization: int = 0
    """Percent of the last sample period."""
    pids: tuple[int, ...] = ()
    """Visible processes with compute or graphics contexts."""
    exclusive: bool = False
    """The compute mode is not the default one: other processes may be excluded from the GPU."""
    mig: bool = False
    virtual: bool = False
    """The GPU is shared by a hypervisor."""
    awaits_reset: bool = False
    """The next reset will retire faulty memory or switch ECC, which changes the usable memory."""
    ecc: bool | None = None
    """ECC is on, which uses a part of the memory on some GPUs; ``None`` where the GPU has no ECC."""

    def document(self) -> dict[str, Any]:
        """Return the entry of an inventory; the processes are only counted."""
        return {**asdict(self), "pids": len(self.pids)}


class Devices(Protocol):
    """The GPUs of a node."""

    @property
    def driver(self) -> str | None:
        """Version of the driver; None where there is none."""

    @property
    def absence(self) -> str:
        """Why the node has no GPUs; empty where it has some."""

    def states(self) -> tuple[DeviceState, ...]:
        """Return the current state of every GPU."""


class Nvml:
    """The GPUs that NVIDIA's management library lists; without the library there are none."""

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
            self.absence = f"no NVIDIA GPU is visible: {error}"
        else:
            self.absence = "" if self._handles else "the NVIDIA driver lists no GPU"

    def states(self) -> tuple[DeviceState, ...]:
        """Return the current state of every GPU."""
        return tuple(map(_state, self._handles))


def _state(handle: Any) -> DeviceState:  # noqa: ANN401 - NVML has no types
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    lists = (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
        pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
    )
    pids = {process.pid for running in lists for process in _query(running, handle, ())}
    mode = _query(pynvml.nvmlDeviceGetComputeMode, handle, pynvml.NVML_COMPUTEMODE_DEFAULT)
    ecc = _query(pynvml.nvmlDeviceGetEccMode, handle, None)
    virtual = _query(pynvml.nvmlDeviceGetVirtualizationMode, handle, pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE)
    rates = _query(pynvml.nvmlDeviceGetUtilizationRates, handle, None)
    remapped = _query(pynvml.nvmlDeviceGetRemappedRows, handle, (0, 0, 0, 0))
    retired = _query(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle, 0)
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
        mig=_query(pynvml.nvmlDeviceGetMigMode, handle, (0, 0))[0] != 0,
        virtual=virtual in VIRTUAL_MODES,
        awaits_reset=bool(remapped[2] or remapped[3] or retired) or (ecc is not None and ecc[0] != ecc[1]),
        ecc=None if ecc is None else bool(ecc[0]),
    )


def _query(query: Callable[[Any], Any], handle: Any, otherwise: Any) -> Any:  # noqa: ANN401 - NVML has no types
    """Return the result of a query, or `otherwise` where the GPU does not support the query."""
    try:
        return query(handle)
    except pynvml.NVMLError:
        return otherwise


class HostMemory:
    """The host's memory in place of a GPU, for nodes that are configured so."""

    driver: str | None = None
    absence = ""

    def states(self) -> tuple[DeviceState, ...]:
        """Return the current state of the memory."""
        total, free = host_memory()
        return (DeviceState(HOST_NAME, HOST_NAME, "0.0", total, free, total - free),)


def host_memory() -> tuple[int, int]:
    """Return total and available bytes of the host."""
    lines = (line.split() for line in MEMINFO.read_text("ascii").splitlines())
    sizes = {words[0]: int(words[1]) * KIB for words in lines}
    return sizes["MemTotal:"], sizes["MemAvailable:"]
