"""A GPU that is a file: children that "allocate" write down what they took, and the driver reads it."""

import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from service.units import GIB
from service.worker.devices import DeviceState
from service.worker.node import Node
from service.worker.process_tree import descendants

TORCH = """
import os, time
from pathlib import Path

__version__ = "2.13.0"
LEDGER, SLOWNESS = Path(os.environ["SIM_LEDGER"]), float(os.environ["SIM_SECONDS"])
uint8 = bfloat16 = None


class version:
    cuda = "13.0"


class Tensor:
    def __init__(self, size):
        self.size = size

    def __matmul__(self, other):
        return self

    sum = item = untyped_storage = lambda self: self

    def nbytes(self):
        return self.size


RESERVED = 2 << 20


def taken():
    return sum(int(line.split()[1]) for line in LEDGER.read_text().splitlines())


def ones(*shape, **_):
    return Tensor(0)


def taking(size):
    if taken() + size > int(os.environ["SIM_TOTAL"]):
        raise RuntimeError("CUDA out of memory")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{os.getpid()} {size}\\n")


def empty(size, **_):
    if size == 1:
        return Tensor(size)
    taking(size)
    time.sleep(SLOWNESS)
    return Held(size)


class Held(Tensor):
    def __del__(self):
        with LEDGER.open("a") as ledger:
            ledger.write(f"{os.getpid()} {-self.size}\\n")


class distributed:
    is_available = is_nccl_available = staticmethod(lambda: True)
    init_process_group = staticmethod(lambda *_, **__: taking(int(os.environ["SIM_NCCL"])))
    all_reduce = staticmethod(lambda _: None)


class cuda:
    asked = 0
    is_available = staticmethod(lambda: True)
    get_device_name = staticmethod(lambda _: "simulated")
    set_per_process_memory_fraction = staticmethod(lambda *_: None)
    synchronize = empty_cache = staticmethod(lambda: None)

    @staticmethod
    def memory_reserved(_):
        # As the real one's: a single byte takes a segment of 2 MiB.
        cuda.asked += 1
        return RESERVED * (cuda.asked > 1)

    @staticmethod
    def mem_get_info(_):
        return int(os.environ["SIM_TOTAL"]) - taken(), int(os.environ["SIM_TOTAL"])
"""
"""As much of torch as the allocation probe uses."""


@dataclass
class SimulatedGpu:
    """A GPU with a server on it, as a worker sees it."""

    folder: Path
    total: int = 80 * GIB
    victim: int = 0
    """Bytes that a server holds."""
    victim_visible: bool = True
    seconds_per_tensor: float = 0.0
    nccl: int = 0
    """Bytes that NCCL takes."""
    driver: str | None = "580.65.06"
    absence: str = ""
    lowest_free: int = 1 << 60

    def __post_init__(self) -> None:
        packages = self.folder / "packages"
        packages.mkdir(parents=True)
        (packages / "torch.py").write_text(TORCH)
        (self.folder / "ledger").write_text("")
        python = self.folder / "python"
        settings = {
            "PYTHONPATH": packages,
            "SIM_LEDGER": self.folder / "ledger",
            "SIM_TOTAL": self.total - self.victim,
            "SIM_SECONDS": self.seconds_per_tensor,
            "SIM_NCCL": self.nccl,
        }
        words = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in settings.items())
        python.write_text(f'#!/bin/sh\nexec env {words} {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)

    @property
    def node(self) -> Node:
        """A node with this GPU."""
        return Node("node-1", self.folder, self.folder / "python")

    def states(self) -> tuple[DeviceState, ...]:
        """Look at the GPU; what a probe took is free again once its child is gone."""
        alive = descendants(os.getpid())
        lines = (line.split() for line in (self.folder / "ledger").read_text().splitlines())
        taken = sum(int(size) for pid, size in lines if int(pid) in alive)
        used = self.victim + taken
        self.lowest_free = min(self.lowest_free, self.total - used)
        state = DeviceState("GPU-1", "simulated", "9.0", self.total, self.total - used, used)
        shown = self.victim and self.victim_visible
        return (replace(state, pids=(1,), utilization=40) if shown else state,)
