"""A caller's own GPU, read from text (``name=my-card,memory=40GiB,cc=8.0``) and checked to be possible."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType, InvalidGpu, inline_gpu
from service.nearest_names import nearest, quoted

_EXISTING: Final = (
    *("5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.8", "8.9"),
    *("9.0", "10.0", "10.1", "10.3", "11.0", "12.0", "12.1"),
)
CAPABILITIES: Final = tuple(map(ComputeCapability.parse, _EXISTING))
"""Compute capabilities that GPUs have or had. Source: `nvcc --list-gpu-arch` of CUDA 12.9 and of 13.0."""

_NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,6})?"
_MEMORY: Final = re.compile(rf"({_NUMBER}) ?([KMGT]i?)?(B?)", re.IGNORECASE | re.ASCII)
_POWERS: Final[Mapping[str, int]] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
FORM: Final = "name=my-card,memory=40GiB,cc=8.0"


def own_gpu(**given: Any) -> GpuType:  # noqa: ANN401 - the arguments of inline_gpu
    """Return a caller's own GPU; the arguments are those of `inline_gpu`.

    Raises:
        InvalidGpu: an argument is out of range, or no GPU has this compute capability.
    """
    gpu = inline_gpu(**given)
    if gpu.compute_capability not in CAPABILITIES:
        known = ", ".join(map(str, CAPABILITIES))
        raise InvalidGpu(
            "compute_capability", f"no GPU has compute capability {gpu.compute_capability}; known are {known}"
        )
    return gpu


def is_own_gpu(text: str) -> bool:
    """Whether a text describes a GPU and does not name one of the catalog."""
    return "=" in text


def read_own_gpu(text: str) -> dict[str, Any]:
    """Return the arguments of `own_gpu` that a text such as ``name=my-card,memory=40GiB,cc=8.0`` states.

    Memory is a number of bytes, or one with KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (of 1000).

    Raises:
        InvalidGpu: a part is not ``key=value``, a key is unknown or missing, or a value cannot be read.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (side.strip() for side in part.partition("="))
        name = KEYS.get(key.lower().replace("-", "_"))
        if not equals or name is None:
            hint = "".join(f"; nearest: {near}" for near in nearest(key, KEYS, count=1))
            raise InvalidGpu("gpu", f"{quoted(part)} is not a part of a GPU such as {FORM}{hint}")
        try:
            found[name] = _READERS[name](value)
        except ValueError as error:
            raise InvalidGpu(name, str(error)) from error
    if missing := [key for key in ("memory", "cc") if KEYS[key] not in found]:
        raise InvalidGpu("gpu", f"{quoted(text)} lacks {' and '.join(missing)}, as in {FORM}")
    return {"name": "my-gpu", **found}


def read_memory(text: str) -> int:
    """Return the bytes of a text such as ``40GiB``; without a unit the number is bytes.

    Raises:
        ValueError: it is not an amount of memory.
    """
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not an amount of memory such as 40GiB")
    unit = (match[2] or "").lower()
    base = 1024 if unit.endswith("i") else 1000
    return int(Fraction(match[1]) * base ** _POWERS[unit.removesuffix("i")])


def _number(kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"{quoted(text)} is not a number") from None

    return read


KEYS: Final[Mapping[str, str]] = {
    "name": "name",
    "memory": "memory_bytes",
    "memory_bytes": "memory_bytes",
    "cc": "compute_capability",
    "compute_capability": "compute_capability",
    "bandwidth": "bandwidth_gb_s",
    "bandwidth_gb_s": "bandwidth_gb_s",
    "sms": "sm_count",
    "sm_count": "sm_count",
}
"""Arguments of `own_gpu` by the words of the text."""
_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "name": str,
    "memory_bytes": read_memory,
    "compute_capability": str,
    "bandwidth_gb_s": _number(float),
    "sm_count": _number(int),
}
