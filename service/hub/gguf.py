"""What the header of a GGUF file tells, without the file.

Source: the format's description in ggml-org/ggml, docs/gguf.md (versions 2 and 3, little-endian), and the
sizes of its types in ggml's `ggml.c`, `type_traits`.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import Final

from service.hub.safetensors import HeaderTensors, elements_of

FIRST_BYTES: Final = 1 << 20
MOST_HEADER_BYTES: Final = 16 << 20
"""The vocabulary lies before the tensors and may take megabytes."""
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST_ENTRIES: Final = 1 << 20
_STRING: Final = 8
_ARRAY: Final = 9
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST_DIMENSIONS: Final = 8
_MOST_NAME: Final = 1 << 16

BLOCKS: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Types of tensors: name, elements of a block, bytes of a block."""


class HeaderGoesOn(Exception):
    """The header is longer than what was read of it."""


class NotAHeader(ValueError):
    """The bytes are no header of a GGUF file."""


@dataclass(slots=True)
class _Bytes:
    """Bytes with a place in them."""

    data: bytes
    at: int = 0
    strings: int = 0
    """Strings in the arrays so far."""

    def skip(self, size: int) -> int:
        """Go on by `size` bytes and return where they begin."""
        begin, end = self.at, self.at + size
        if end > MOST_HEADER_BYTES:
            raise NotAHeader("its header is too long")
        if end > len(self.data):
            raise HeaderGoesOn
        self.at = end
        return begin

    def number(self, code: str) -> int:
        """Return the next number."""
        value: int = struct.unpack_from(f"<{code}", self.data, self.skip(struct.calcsize(f"<{code}")))[0]
        return value

    def text(self) -> str:
        """Return the next string."""
        size = self.number("Q")
        begin = self.skip(size)
        return self.data[begin : begin + min(size, _MOST_NAME)].decode("utf-8", "replace")


def read_gguf(beginning: bytes) -> HeaderTensors:
    """Return the tensors of a file by its first bytes.

    Raises:
        HeaderGoesOn: more bytes are needed.
        NotAHeader: it is no GGUF file, or of a version or a type of tensor that is not known.
    """
    data = _Bytes(beginning)
    if beginning[: len(_MAGIC)] != _MAGIC[: len(beginning)]:
        raise NotAHeader("it does not begin as a GGUF file")
    data.skip(len(_MAGIC))
    version = data.number("I")
    if version not in _VERSIONS:
        raise NotAHeader(f"its version {version} is not known")
    tensors, entries = data.number("Q"), data.number("Q")
    if tensors > _MOST_ENTRIES or entries > _MOST_ENTRIES:
        raise NotAHeader("it states more entries than any file has")
    for _ in range(entries):
        _skip_string(data)
        _skip_value(data, data.number("I"))
    return _tensors(data, tensors)


def _skip_value(data: _Bytes, kind: int) -> None:
    if kind == _STRING:
        _skip_string(data)
    elif kind in _NUMBERS:
        data.skip(struct.calcsize(f"<{_NUMBERS[kind]}"))
    elif kind == _ARRAY:
        _skip_array(data)
    else:
        raise NotAHeader(f"its type {kind} of values is not known")


def _skip_array(data: _Bytes) -> None:
    kind, count = data.number("I"), data.number("Q")
    if kind in _NUMBERS:
        data.skip(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        return
    data.strings += count
    if data.strings > _MOST_ENTRIES:
        raise NotAHeader("its arrays are longer than any vocabulary")
    if kind != _STRING:
        raise NotAHeader(f"its arrays hold type {kind} of values")
    _skip_strings(data, count)


def _skip_string(data: _Bytes) -> None:
    data.skip(data.number("Q"))


def _skip_strings(data: _Bytes, count: int) -> None:
    """Go on by some strings: a vocabulary has hundreds of thousands, so nothing is called for each."""
    text, at, length = data.data, data.at, struct.Struct("<Q")
    for _ in range(count):
        if at + length.size > len(text):
            break
        at += length.size + length.unpack_from(text, at)[0]
    else:
        data.skip(at - data.at)
        return
    data.skip(at + length.size - data.at)


def _tensors(data: _Bytes, count: int) -> HeaderTensors:
    parameters: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for _ in range(count):
        data.skip(data.number("Q"))
        dimensions = data.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise NotAHeader("a tensor has more dimensions than any")
        try:
            elements = elements_of([data.number("Q") for _ in range(dimensions)])
        except ValueError as error:
            raise NotAHeader(str(error)) from None
        kind = data.number("I")
        data.skip(8)
        if kind not in BLOCKS:
            raise NotAHeader(f"its type {kind} of tensors is not known")
        name, block, size = BLOCKS[kind]
        if elements % block or elements > 1 << 50:
            raise NotAHeader("a tensor is of no size that its type allows")
        parameters[name] += elements
        stored[name] += elements // block * size
    return HeaderTensors(count, dict(sorted(parameters.items())), dict(sorted(stored.items())))
