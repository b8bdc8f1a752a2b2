"""Allocates what was planned, and says what it took of the device."""

import json
from pathlib import Path
from typing import Any

HALVINGS = 8
"""Of the search for the largest tensor: to a 256th of what it may take."""


def main() -> None:
    """Run the job of this folder."""
    import torch  # noqa: PLC0415 - in the environment of the node alone

    job = json.loads(Path("job.json").read_text("utf-8"))
    device = _Cuda(torch, job["fraction"], job["free"]) if torch.cuda.is_available() else _Host(torch)
    result = _measured(torch, device, job)
    Path("result.json").write_text(json.dumps(result), "utf-8")


def _measured(torch: Any, device: Any, job: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - torch has no types here
    report: dict[str, Any] = {"torch": torch.__version__, "device": device.name, "cuda": torch.version.cuda}
    kept: list[Any] = []
    report["context_bytes"] = device.context_bytes
    try:
        _phase("libraries")
        report["granularity_bytes"] = device.granularity()
        report["library_bytes"] = _growth(device, device.multiply)
        report["nccl_bytes"] = _growth(device, device.communicate) if device.communicates() else None
        for name in ("weights", "kv_tensors"):
            _phase(name)
            before = device.taken()
            kept.extend(device.tensor(size) for size in job[name])
            report[f"{name}_requested_bytes"] = sum(job[name])
            report[f"{name}_taken_bytes"] = device.taken() - before
        report["allocated_bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in kept)
        report["outcome"] = "measured"
        if job["largest"]:
            kept.clear()
            _phase("largest")
            report["largest_limit_bytes"] = job["largest"]
            report["largest_bytes"] = _largest(device, job["largest"])
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        report["outcome"], report["detail"] = "out_of_memory", str(error)[:500]
        report["allocated_bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in kept)
    return report


def _growth(device: Any, what: Any) -> int:  # noqa: ANN401 - see above
    before = device.taken()
    what()
    return int(device.taken() - before)


def _largest(device: Any, limit: int) -> int:  # noqa: ANN401 - see above
    """Return the bytes of the largest tensor that can be had, up to what the worker allows."""
    fits, fails = 0, limit + 1
    size = limit
    for _ in range(HALVINGS):
        device.forget()
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
    """A CUDA device, of which no more than a share is taken."""

    def __init__(self, torch: Any, fraction: float | None, free: int) -> None:  # noqa: ANN401 - see above
        self._torch, self._cuda = torch, torch.cuda
        self.name = torch.cuda.get_device_name(0)
        if fraction is not None:
            torch.cuda.set_per_process_memory_fraction(fraction, 0)
        # What the driver saw free before, less what is free with a context and no tensor yet.
        self.context_bytes = max(0, free - int(self._cuda.mem_get_info(0)[0]))

    def taken(self) -> int:
        """Return the bytes of the device that are in use, by whomever."""
        self._cuda.synchronize()
        free, total = self._cuda.mem_get_info(0)
        return int(total - free)

    def granularity(self) -> int:
        """Return what the allocator takes of the device for a single byte."""
        before = self._cuda.memory_reserved(0)
        byte = self.tensor(1)
        taken = int(self._cuda.memory_reserved(0) - before)
        del byte
        self.forget()
        return taken

    def multiply(self) -> None:
        """Let cuBLAS take its workspace."""
        square = self._torch.ones(256, 256, device="cuda", dtype=self._torch.bfloat16)
        (square @ square).sum().item()

    def communicates(self) -> bool:
        """Whether there is NCCL."""
        distributed = self._torch.distributed
        return bool(distributed.is_available() and distributed.is_nccl_available())

    def communicate(self) -> None:
        """Let NCCL take its buffers, for a world of one."""
        meeting = Path("nccl").resolve().as_uri()
        self._torch.distributed.init_process_group("nccl", init_method=meeting, rank=0, world_size=1)
        self._torch.distributed.all_reduce(self._torch.ones(1024, device="cuda"))

    def tensor(self, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of so many bytes."""
        return self._torch.empty(size, dtype=self._torch.uint8, device="cuda")

    def forget(self) -> None:
        """Give back what no tensor holds any more."""
        self._cuda.empty_cache()


class _Host:
    """The host's memory, where there is no CUDA device."""

    name = "cpu"
    context_bytes = 0

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - see above
        self._torch = torch

    def taken(self) -> int:
        """Return the bytes of this process that are not backed by files."""
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def granularity(self) -> None:
        """Return nothing: the host's allocator has none of its own."""

    def multiply(self) -> None:
        """Let the library of matrix products take what it needs."""
        square = self._torch.ones(256, 256)
        (square @ square).sum().item()

    def communicates(self) -> bool:
        """Return that it does not."""
        return False

    def tensor(self, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of so many bytes, all of them written to: memory is taken once it is."""
        return self._torch.full((size,), 1, dtype=self._torch.uint8)

    def forget(self) -> None:
        """Do nothing: what is not held is given back at once."""


def _phase(text: str) -> None:
    Path("phase").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
