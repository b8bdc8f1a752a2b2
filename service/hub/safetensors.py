"""What the header of a safetensors file tells, without the file.

The first eight bytes state the length of a JSON object that follows them: for each tensor its dtype, its
shape and where it lies. Source: the format's description in huggingface/safetensors, README.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from service.hub.errors import ConfigNotJson, ConfigTooLarge
from service.hub.json_object import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST_SPAN: Final = (0, (128 << 10) - 1)
"""Holds most headers whole."""
LENGTH_BYTES: Final = 8
MOST_HEADER_BYTES: Final = 4 << 20
MOST_DIMENSIONS: Final = 32
"""Dimensions of a tensor; no model's has more than six."""
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
    """What tensors there are.

    Attributes:
        count: how many.
        parameters: their elements by dtype, as the file names it.
        stored_bytes: their bytes by dtype.
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
        """Bytes of all of them."""
        return sum(self.stored_bytes.values())


def header_bytes(beginning: bytes, *, model_id: str, file: str) -> int:
    """Return the length of the header that begins after the first eight bytes.

    Raises:
        ConfigNotJson: there are no eight bytes.
        ConfigTooLarge: the header is longer than is read.
    """
    if len(beginning) < LENGTH_BYTES:
        raise ConfigNotJson(model_id, file, "it is too short for a header")
    length = int.from_bytes(beginning[:LENGTH_BYTES], "little")
    if length > MOST_HEADER_BYTES:
        raise ConfigTooLarge(model_id, f"the header of {file}", MOST_HEADER_BYTES)
    return length


def read_header(header: bytes, *, model_id: str, file: str) -> HeaderTensors:
    """Read a header, without the eight bytes before it.

    Raises:
        ConfigNotJson: it is none.
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
            raise ConfigNotJson(model_id, file, "a tensor of its header is not described as one") from None
        parameters[dtype] += elements
        stored[dtype] += end - begin
        ends.append((begin, end))
        if len(stored) > MOST_DTYPES or end > _MOST_BYTES:
            raise ConfigNotJson(model_id, file, "its header states more than any file holds")
    ends.sort()
    if any(begin < end for (_, end), (begin, _) in pairwise(ends)):
        raise ConfigNotJson(model_id, file, "two tensors of its header lie in the same bytes")
    return HeaderTensors(len(tensors), dict(sorted(parameters.items())), dict(sorted(stored.items())))


def _tensor(tensor: Mapping[str, Any]) -> tuple[str, int, tuple[int, int]]:
    """Return the dtype of a tensor, its elements, and where it begins and ends.

    The format's own library refuses a size that is not that of the shape, too (`Metadata::validate`).
    """
    dtype, shape, (begin, end) = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        raise ValueError("no shape")
    whole = all(type(number) is int and 0 <= number < _MOST_BYTES for number in (*shape, begin, end))
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype) or not whole or end < begin:
        raise ValueError("no tensor")
    elements = elements_of(shape)
    if dtype in BITS and elements * BITS[dtype] != (end - begin) * 8:
        raise ValueError("the size is not that of the shape")
    return dtype, elements, (begin, end)


def elements_of(shape: Iterable[int]) -> int:
    """Return the elements of a tensor.

    Raises:
        ValueError: there are more than any file holds; the product is not worked out.
    """
    elements = 1
    for dimension in sorted(shape):  # one of 0 makes it 0, whatever the others are
        elements *= dimension
        if elements > _MOST_BYTES:
            raise ValueError("a tensor has more elements than any")
    return elements
