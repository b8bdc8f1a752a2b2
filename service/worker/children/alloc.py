"""Allocates the planned tensors with torch and reports how much device memory they used."""

import json
from pathlib import Path
from typing import Any

HALVINGS = 8
"""Steps of the search for the largest tensor: the result is exact to a 256th of the limit."""


def main() -> None:
    """Run the job of this folder."""
    import torch  # noqa: PLC0415 - only the node's environment has it

    job = json.loads(Path("job.json").read_text("utf-8"))
    device = _Cuda(torch, job["fraction"], job["free"]) if torch.cuda.is_available() else _Host(torch)
    result = _measured(torch, device, job)
    Path("result.json").write_text(json.dumps(result), "utf-8")


def _measured(torch: Any, device: Any, job: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - torch has no types here
    report: dict[str, Any] = {"torch": torch.__version__, "device": device.name, "cuda": torch.version.cuda}
    tensors: list[Any] = []
    report["context_bytes"] = device.context_bytes
    try:
        _phase("libraries")
        report["granularity_bytes"] = device.granularity()
        report["library_bytes"] = _growth(device, device.multiply)
        report["nccl_bytes"] = _growth(device, device.communicate) if device.has_nccl() else None
        for name in ("weights", "kv_tensors"):
            _phase(name)
            before = device.used()
            tensors.extend(device.tensor(size) for size in job[name])
            report[f"{name}_requested_bytes"] = sum(job[name])
            report[f"{name}_taken_bytes"] = device.used() - before
        report["allocated_bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        report["outcome"] = "measured"
        if job["largest"]:
            tensors.clear()
            _phase("largest")
            report["largest_limit_bytes"] = job["largest"]
            report["largest_bytes"] = _largest(device, job["largest"])
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        report["outcome"], report["detail"] = "out_of_memory", str(error)[:500]
        report["allocated_bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    return report


def _growth(device: Any, what: Any) -> int:  # noqa: ANN401 - see above
    before = device.used()
    what()
    return int(device.used() - before)


def _largest(device: Any, limit: int) -> int:  # noqa: ANN401 - see above
    """Return the bytes of the largest tensor that can be allocated, up to `limit` (binary search)."""
    fits, fails = 0, limit + 1
    size = limit
    for _ in range(HALVINGS):
        device.release_cache()
        try:
            device.tensor(size)
        except (MemoryError, RuntimeError) as error:
            if not _is_memory(error):
                raise
            fails = size
        else:
            fits = size
        if fits == limit:
            break
        size = (fits + fails) // 2
    return fits


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "memory" in str(error).lower()


class _Cuda:
    """A CUDA device; at most a fraction of its memory is used."""

    def __init__(self, torch: Any, fraction: float | None, free: int) -> None:  # noqa: ANN401 - see above
        self._torch, self._cuda = torch, torch.cuda
        self.name = torch.cuda.get_device_name(0)
        if fraction is not None:
            torch.cuda.set_per_process_memory_fraction(fraction, 0)
        # Free memory before this process started, less free memory with a context and no tensor yet.
        self.context_bytes = max(0, free - int(self._cuda.mem_get_info(0)[0]))

    def used(self) -> int:
        """Return the bytes of the device that are in use by all processes."""
        self._cuda.synchronize()
        free, total = self._cuda.mem_get_info(0)
        return int(total - free)

    def granularity(self) -> int:
        """Return the bytes that the allocator reserves for a tensor of one byte."""
        before = self._cuda.memory_reserved(0)
        byte = self.tensor(1)
        used = int(self._cuda.memory_reserved(0) - before)
        del byte
        self.release_cache()
        return used

    def multiply(self) -> None:
        """Run a matrix product, so that cuBLAS allocates its workspace."""
        square = self._torch.ones(256, 256, device="cuda", dtype=self._torch.bfloat16)
        (square @ square).sum().item()

    def has_nccl(self) -> bool:
        """Whether NCCL is available."""
        distributed = self._torch.distributed
        return bool(distributed.is_available() and distributed.is_nccl_available())

    def communicate(self) -> None:
        """Run an all-reduce with one rank, so that NCCL allocates its buffers."""
        meeting = Path("nccl").resolve().as_uri()
        self._torch.distributed.init_process_group("nccl", init_method=meeting, rank=0, world_size=1)
        self._torch.distributed.all_reduce(self._torch.ones(1024, device="cuda"))

    def tensor(self, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of `size` bytes."""
        return self._torch.empty(size, dtype=self._torch.uint8, device="cuda")

    def release_cache(self) -> None:
        """Release cached memory that no tensor uses."""
        self._cuda.empty_cache()


class _Host:
    """The host's memory, where there is no CUDA device."""

    name = "cpu"
    context_bytes = 0

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - see above
        self._torch = torch

    def used(self) -> int:
        """Return the memory of this process in bytes, without pages that are backed by files."""
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def granularity(self) -> None:
        """Return None: the host's allocator has no such granularity."""

    def multiply(self) -> None:
        """Run a matrix product, so that its library allocates its workspace."""
        square = self._torch.ones(256, 256)
        (square @ square).sum().item()

    def has_nccl(self) -> bool:
        """Return False: there is no NCCL on the host."""
        return False

    def tensor(self, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of `size` bytes. All bytes are written, since only then memory is used."""
        return self._torch.full((size,), 1, dtype=self._torch.uint8)

    def release_cache(self) -> None:
        """Do nothing: unused memory is released at once."""


def _phase(text: str) -> None:
    Path("phase").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
