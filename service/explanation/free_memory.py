"""Notes that an allocation failed although the message names more memory as free than it asks for."""

import re
from collections.abc import Iterator
from typing import Final

from service.startup_log.failures.logged_failure import Failure

OUT_OF_MEMORY: Final = "out_of_memory"
_SIZE: Final = r"(\d{1,6}(?:\.\d{1,4})?) (bytes|KiB|MiB|GiB)"
_ASKED: Final = re.compile(rf"Tried to allocate {_SIZE}")
_FREE: Final = re.compile(rf"of which {_SIZE} is free|; {_SIZE} free;")
"""PyTorch 2, c10/cuda/CUDACachingAllocator.cpp; until 2.0 as `(GPU 0; ...; 2.00 GiB free; ...)`."""
_KEPT: Final = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_UNITS: Final = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def free_beside_shortage(failure: Failure) -> Iterator[str]:
    """Yield what an out-of-memory message means that names more free memory than the allocation asks for."""
    if failure.cause is None or failure.cause.name != OUT_OF_MEMORY:
        return
    asked, free = _ASKED.search(failure.message), _FREE.search(failure.message)
    if asked is None or free is None or _bytes(free) <= _bytes(asked):
        return
    kept = _KEPT.search(failure.message)
    pieces = (
        f" or of the {kept[1]} {kept[2]} that PyTorch holds in pieces "
        "(PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)"
        if kept is not None and _bytes(kept) >= _bytes(asked)
        else ""
    )
    size = " ".join(filter(None, free.groups()))
    yield (
        f"The message names {size} as free and asks for {asked[1]} {asked[2]}: the card was not full. Look "
        "for a limit of another kind: WSL and Windows, which give a process less than the card has; a share "
        f"of a vGPU or MIG; a cap that the program sets (set_per_process_memory_fraction){pieces}."
    )


def _bytes(size: re.Match[str]) -> int:
    number, unit = [each for each in size.groups() if each is not None][:2]
    return round(float(number) * _UNITS[unit])
