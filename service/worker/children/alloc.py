"""Allocates what was planned, and says what it took of the device."""

import json
from pathlib import Path
from typing import Any

MIB = 1 << 20
TOUCHED_EVERY = 4096
"""Bytes of a page: memory of the host is taken once it is written to."""


def main() -> None:
    """Run the job of this folder."""
    import torch  # noqa: PLC0415 - in the environment of the node alone

    job = json.loads(Path("job.json").read_text("utf-8"))
    device = _Cuda(torch, job["fraction"]) if torch.cuda.is_available() else _Host()
    result = _measured(torch, device, job)
    Path("result.json").write_text(json.dumps(result), "utf-8")


def _measured(torch: Any, device: Any, job: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - torch has no types here
    report: dict[str, Any] = {"torch": torch.__version__, "device": device.name, "cuda": torch.version.cuda}
    kept: list[Any] = []
    report["context_bytes"] = device.context_bytes()
    try:
        _phase("libraries")
        before = device.taken()
        device.warm_up(torch)
        report["library_bytes"] = device.taken() - before
        for name in ("weights", "kv_tensors"):
            _phase(name)
            before = device.taken()
            kept.extend(device.tensor(torch, size) for size in job[name])
            report[f"{name}_requested_bytes"] = sum(job[name])
            report[f"{name}_taken_bytes"] = device.taken() - before
        report["outcome"] = "measured"
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error).lower():
            raise
        report["outcome"], report["detail"] = "out_of_memory", str(error)[:500]
    report["allocated_bytes"] = sum(tensor.untyped_storage().nbytes() for tensor in kept)
    return report


class _Cuda:
    """A CUDA device, of which no more than a share is taken."""

    def __init__(self, torch: Any, fraction: float | None) -> None:  # noqa: ANN401 - see above
        self._cuda = torch.cuda
        self.name = torch.cuda.get_device_name(0)
        if fraction is not None:
            torch.cuda.set_per_process_memory_fraction(fraction, 0)
        self._before = self._cuda.mem_get_info(0)[0]

    def context_bytes(self) -> int:
        """Return what the context takes before the first tensor, as far as it can be seen from inside."""
        return int(self._cuda.mem_get_info(0)[1] - self._before)

    def taken(self) -> int:
        """Return the bytes of the device that are in use, by whomever."""
        self._cuda.synchronize()
        free, total = self._cuda.mem_get_info(0)
        return int(total - free)

    def warm_up(self, torch: Any) -> None:  # noqa: ANN401 - see above
        """Let cuBLAS take its workspace."""
        square = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
        (square @ square).sum().item()

    def tensor(self, torch: Any, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of so many bytes."""
        return torch.empty(size, dtype=torch.uint8, device="cuda")


class _Host:
    """The host's memory, where there is no CUDA device."""

    name = "cpu"

    def context_bytes(self) -> int:
        """Return nothing: there is no context."""
        return 0

    def taken(self) -> int:
        """Return the bytes of this process that are not backed by files."""
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def warm_up(self, torch: Any) -> None:  # noqa: ANN401 - see above
        """Let the library of matrix products take what it needs."""
        square = torch.ones(256, 256)
        (square @ square).sum().item()

    def tensor(self, torch: Any, size: int) -> Any:  # noqa: ANN401 - see above
        """Return a tensor of so many bytes, all of them written to."""
        return torch.full((size,), 1, dtype=torch.uint8)


def _phase(text: str) -> None:
    Path("phase").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
