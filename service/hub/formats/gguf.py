"""Reads the tensors of a GGUF file from its header.

Source: the format's description in ggml-org/ggml, docs/gguf.md (versions 2 and 3, little-endian), and the
sizes of its types in ggml's `ggml.c`, `type_traits`.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from service.hub.formats.safetensors import HeaderTensors, elements_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_BYTES: Final = 1 << 20
MOST_HEADER_BYTES: Final = 32 << 20
"""Longest header that is read. The vocabulary is stored before the tensors and may take megabytes."""
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST_ENTRIES: Final = 1 << 20
_STRING: Final = 8
_ARRAY: Final = 9
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST_DIMENSIONS: Final = 8
_MOST_NAME: Final = 1 << 16
_TOKENS: Final = "tokenizer.ggml.tokens"

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


class HeaderTruncated(Exception):
    """The header is longer than the bytes that were given."""


class InvalidHeader(ValueError):
    """The bytes are not the header of a GGUF file."""


@dataclass(slots=True)
class _ByteReader:
    """Reads values from bytes, one after another, beginning at `at`."""

    data: bytes
    at: int = 0
    strings: int = 0
    """Strings in the arrays read so far."""

    def skip(self, size: int) -> int:
        """Move `size` bytes forward and return the offset of the first of them."""
        begin, end = self.at, self.at + size
        if end > MOST_HEADER_BYTES:
            raise InvalidHeader("its header is too long")
        if end > len(self.data):
            raise HeaderTruncated
        self.at = end
        return begin

    def number(self, code: str) -> int:
        """Return the next number; `code` is its format in `struct`."""
        value: int = struct.unpack_from(f"<{code}", self.data, self.skip(struct.calcsize(f"<{code}")))[0]
        return value

    def text(self) -> str:
        """Return the next string."""
        size = self.number("Q")
        begin = self.skip(size)
        return self.data[begin : begin + min(size, _MOST_NAME)].decode("utf-8", "replace")


def read_gguf(beginning: bytes) -> HeaderTensors:
    """Return the tensors of a file from its first bytes.

    Raises:
        HeaderTruncated: more bytes are needed.
        InvalidHeader: the file is not a GGUF file, or its version or a type of its tensors is unknown.
    """
    data = _ByteReader(beginning)
    if beginning[: len(_MAGIC)] != _MAGIC[: len(beginning)]:
        raise InvalidHeader("it does not start like a GGUF file")
    data.skip(len(_MAGIC))
    version = data.number("I")
    if version not in _VERSIONS:
        raise InvalidHeader(f"its format version {version} is unknown")
    tensors, entries = data.number("Q"), data.number("Q")
    if tensors > _MOST_ENTRIES or entries > _MOST_ENTRIES:
        raise InvalidHeader("its header states too many entries")
    for _ in range(entries):
        _skip_string(data)
        _skip_value(data, data.number("I"))
    return _tensors(data, tensors)


def _skip_value(data: _ByteReader, kind: int) -> None:
    if kind == _STRING:
        _skip_string(data)
    elif kind in _NUMBERS:
        data.skip(struct.calcsize(f"<{_NUMBERS[kind]}"))
    elif kind == _ARRAY:
        _skip_array(data)
    else:
        raise InvalidHeader(f"the value type {kind} in its header is unknown")


def _skip_array(data: _ByteReader) -> None:
    kind, count = data.number("I"), data.number("Q")
    if kind in _NUMBERS:
        data.skip(count * struct.calcsize(f"<{_NUMBERS[kind]}"))
        return
    data.strings += count
    if data.strings > _MOST_ENTRIES:
        raise InvalidHeader("the arrays in its header are too long")
    if kind != _STRING:
        raise InvalidHeader(f"the type {kind} of array elements in its header is not supported")
    _skip_strings(data, count)


def _skip_string(data: _ByteReader) -> None:
    data.skip(data.number("Q"))


def _skip_strings(data: _ByteReader, count: int) -> None:
    """Skip `count` strings without a call for each: a vocabulary has hundreds of thousands."""
    text, at, length = data.data, data.at, struct.Struct("<Q")
    for _ in range(count):
        if at + length.size > len(text):
            break
        at += length.size + length.unpack_from(text, at)[0]
    else:
        data.skip(at - data.at)
        return
    data.skip(at + length.size - data.at)


def _tensors(data: _ByteReader, count: int) -> HeaderTensors:
    parameters: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for _ in range(count):
        data.skip(data.number("Q"))
        dimensions = data.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise InvalidHeader("a tensor has too many dimensions")
        try:
            elements = elements_of([data.number("Q") for _ in range(dimensions)])
        except ValueError as error:
            raise InvalidHeader(str(error)) from None
        kind = data.number("I")
        data.skip(8)
        if kind not in BLOCKS:
            raise InvalidHeader(f"the tensor type {kind} in its header is unknown")
        name, block, size = BLOCKS[kind]
        if elements % block or elements > 1 << 50:
            raise InvalidHeader("the size of a tensor does not fit its type")
        parameters[name] += elements
        stored[name] += elements // block * size
    return HeaderTensors(count, dict(sorted(parameters.items())), dict(sorted(stored.items())))


MOST_VALUES: Final = 4096
"""Values of a list of numbers that is read; longer ones belong to the vocabulary."""
Value: TypeAlias = int | float | bool | str | tuple[int | float | bool, ...]
"""A value of a header: a number, a truth value, a text, or a list of the first two."""


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the header of a file says of its model.

    Attributes:
        values: entries by name, such as `llama.block_count`; lists of texts and long lists are left out.
        tensor_bytes: bytes of each tensor by name.
        vocabulary: how many tokens the list of tokens has; 0 without one.
    """

    values: Mapping[str, Value]
    tensor_bytes: Mapping[str, int]
    vocabulary: int = 0


def read_gguf_header(beginning: bytes) -> GgufHeader:
    """Return the entries and the tensors of a file from its first bytes.

    Raises:
        HeaderTruncated: more bytes are needed.
        InvalidHeader: the file is not a GGUF file, or its version or a type in it is unknown.
    """
    read_gguf(beginning)  # checks the whole header
    data = _ByteReader(beginning)
    data.skip(len(_MAGIC) + struct.calcsize("<I"))
    tensors, entries = data.number("Q"), data.number("Q")
    values: dict[str, Value] = {}
    vocabulary = 0
    for _ in range(entries):
        name, kind = data.text(), data.number("I")
        if name == _TOKENS and kind == _ARRAY:
            vocabulary = struct.unpack_from("<Q", beginning, data.at + struct.calcsize("<I"))[0]
        value = _value(data, kind)
        if value is not None:
            values[name] = value
    sizes: dict[str, int] = {}
    for _ in range(tensors):
        name = data.text()
        elements = elements_of([data.number("Q") for _ in range(data.number("I"))])
        _, block, size = BLOCKS[data.number("I")]
        data.skip(8)
        sizes[name] = elements // block * size
    return GgufHeader(values, sizes, vocabulary)


def _value(data: _ByteReader, kind: int) -> Value | None:
    """Return the next value; ``None`` for one that is skipped."""
    if kind == _STRING:
        return data.text()
    if kind in _NUMBERS:
        return data.number(_NUMBERS[kind])
    at = data.at
    inner, count = data.number("I"), data.number("Q")
    if inner in _NUMBERS and count <= MOST_VALUES:
        return tuple(data.number(_NUMBERS[inner]) for _ in range(count))
    data.at = at
    _skip_value(data, kind)
    return None
