"""Reads the tensors of a safetensors file from its header.

The first eight bytes state the length of the JSON object that follows. It gives the dtype, the shape and the
byte offsets of each tensor. Source: the format's description in huggingface/safetensors, README.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from service.hub.errors import ConfigNotJson, ConfigTooLarge
from service.hub.formats.json_object import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST_SPAN: Final = (0, (128 << 10) - 1)
"""The first span that is fetched; it contains most headers completely."""
LENGTH_BYTES: Final = 8
MOST_HEADER_BYTES: Final = 4 << 20
MOST_DIMENSIONS: Final = 32
"""Most dimensions of a tensor; real models have at most six."""
MOST_DTYPES: Final = 32
_MOST_BYTES: Final = 1 << 60
BITS: Final = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
"""Bits of an element. Source: huggingface/safetensors, safetensors/src/tensor.rs Dtype.bitsize."""
_DTYPE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,15}", re.ASCII)
_METADATA: Final = "__metadata__"


@dataclass(frozen=True, slots=True)
class HeaderTensors:
    """The tensors of one or several files.

    Attributes:
        count: number of tensors.
        parameters: number of elements by dtype; the dtype's name is the file format's.
        stored_bytes: bytes by dtype.
    """

    count: int = 0
    parameters: Mapping[str, int] = field(default_factory=dict)
    stored_bytes: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: HeaderTensors) -> HeaderTensors:
        return HeaderTensors(
            self.count + other.count,
            dict(sorted((Counter(self.parameters) + Counter(other.parameters)).items())),
            dict(sorted((Counter(self.stored_bytes) + Counter(other.stored_bytes)).items())),
        )

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(self.stored_bytes.values())


def header_bytes(beginning: bytes, *, model_id: str, file: str) -> int:
    """Return the length in bytes of the header, which starts after the first eight bytes.

    Raises:
        ConfigNotJson: there are fewer than eight bytes.
        ConfigTooLarge: the header is longer than `MOST_HEADER_BYTES`.
    """
    if len(beginning) < LENGTH_BYTES:
        raise ConfigNotJson(model_id, file, "it is too short for a header")
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    if length > MOST_HEADER_BYTES:
        raise ConfigTooLarge(model_id, f"the header of {file}", MOST_HEADER_BYTES)
    return length


def read_header(header: bytes, *, model_id: str, file: str) -> HeaderTensors:
    """Return the tensors that a header describes; `header` is without the eight bytes before it.

    Raises:
        ConfigNotJson: the header is not valid.
    """
    document = parse_object(header, model_id=model_id, file=file, depth=4)
    parameters: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    tensors = {name: tensor for name, tensor in document.items() if name != _METADATA}
    ends: list[tuple[int, int]] = []
    for tensor in tensors.values():
        try:
            dtype, elements, (begin, end) = _tensor(tensor)
        except (TypeError, KeyError, ValueError):
            raise ConfigNotJson(model_id, file, "its header describes a tensor in an invalid way") from None
        parameters[dtype] += elements
        stored[dtype] += end - begin
        ends.append((begin, end))
        if len(stored) > MOST_DTYPES or end > _MOST_BYTES:
            raise ConfigNotJson(model_id, file, "its header describes more data than a file can hold")
    ends.sort()
    if any(begin < end for (_, end), (begin, _) in pairwise(ends)):
        raise ConfigNotJson(model_id, file, "in its header two tensors overlap")
    return HeaderTensors(len(tensors), dict(sorted(parameters.items())), dict(sorted(stored.items())))


def _tensor(tensor: Mapping[str, Any]) -> tuple[str, int, tuple[int, int]]:
    """Return a tensor's dtype, its number of elements, and its first and end offset in bytes.

    As in the format's own library (`Metadata::validate`), the size must match the shape.
    """
    dtype, shape, (begin, end) = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        raise ValueError("the shape is not valid")
    valid = all(type(number) is int and 0 <= number < _MOST_BYTES for number in (*shape, begin, end))
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype) or not valid or end < begin:
        raise ValueError("the dtype, the shape or the offsets are not valid")
    elements = elements_of(shape)
    if dtype in BITS and elements * BITS[dtype] != (end - begin) * 8:
        raise ValueError("the size does not match the shape")
    return dtype, elements, (begin, end)


def elements_of(shape: Iterable[int]) -> int:
    """Return the number of elements of a tensor of this shape.

    Raises:
        ValueError: there are more than any file can hold; the product is then not computed to its end.
    """
    elements = 1
    for dimension in sorted(shape):  # a dimension of 0 comes first, so that the product is 0
        elements *= dimension
        if elements > _MOST_BYTES:
            raise ValueError("a tensor has too many elements")
    return elements
