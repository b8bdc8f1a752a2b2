"""What a GPU, its driver and PyTorch's allocator take, measured by torch alone.

Run by the Python of an environment with torch: ``python device_experiments.py`` prints one JSON object a
line, each with ``experiment`` and sizes in bytes. It takes less than 2 GiB.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

MIB: Final = 1 << 20
SIZES: Final = (1, 512, 1 << 10, MIB - 1, MIB, MIB + 1, 5 * MIB, 10 * MIB - 1, 10 * MIB, 21 * MIB, 40 * MIB)
GRAPHS: Final = 51
"""Batch sizes that a start captures by default on most GPUs."""
WIDTH: Final = 4096

Row = dict[str, Any]


def context(torch: Any) -> Iterator[Row]:  # noqa: ANN401 - torch has no types here
    """Yield what the first tensor, matrix product and convolution take of the device."""
    total = torch.cuda.mem_get_info()[1]
    steps: dict[str, Callable[[], object]] = {
        "context": torch.cuda.init,
        "first tensor": lambda: torch.empty(1, device="cuda"),
        "matrix product": lambda: torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda"),
        "16-bit matrix product": lambda: (x := torch.ones(64, 64, device="cuda", dtype=torch.bfloat16)) @ x,
    }
    kept = []
    for name, step in steps.items():
        kept.append(step())
        torch.cuda.synchronize()
        yield {"step": name, "total": total, "used": total - torch.cuda.mem_get_info()[0]}


def rounding(torch: Any) -> Iterator[Row]:  # noqa: ANN401 - see above
    """Yield what the allocator reserves, and counts, for one tensor of each size."""
    for size in SIZES:
        torch.cuda.empty_cache()
        reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        yield {
            "size": size,
            "reserved": torch.cuda.memory_reserved() - reserved,
            "allocated": torch.cuda.memory_allocated() - allocated,
        }
        del tensor


def graphs(torch: Any) -> Iterator[Row]:  # noqa: ANN401 - see above
    """Yield what each captured graph takes of the device, of a chain of matrix products."""
    weight = torch.ones(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    pool, kept = None, []
    for count in range(1, GRAPHS + 1):
        rows = torch.ones(8 * count, WIDTH, device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        before, graph = torch.cuda.mem_get_info()[0], torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            for _ in range(32):
                rows = rows @ weight
        pool = pool or graph.pool()
        kept.append((graph, rows))
        torch.cuda.synchronize()
        yield {"graph": count, "rows": 8 * count, "taken": before - torch.cuda.mem_get_info()[0]}


def fragments(torch: Any) -> Iterator[Row]:  # noqa: ANN401 - see above
    """Yield what is reserved beyond what is allocated as a work space grows."""
    torch.cuda.empty_cache()
    for size in range(64, 1024, 96):
        space = torch.empty(size * MIB, dtype=torch.uint8, device="cuda")
        del space
        yield {"size": size * MIB, "reserved": torch.cuda.memory_reserved()}


EXPERIMENTS: Final = (context, rounding, graphs, fragments)


def main() -> None:
    """Print what each experiment yields."""
    import torch  # noqa: PLC0415 - only the node's environment has it

    for experiment in EXPERIMENTS:
        for row in experiment(torch):
            print(json.dumps({"experiment": experiment.__name__, **row}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
