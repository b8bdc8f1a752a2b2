"""How many bytes a token's keys and values take, by cache format."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from service.units import ceil_div

BYTE_BITS: Final = 8
MODEL_DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}


class Packing(StrEnum):
    """What a format stores besides plain elements, as the engine's rules name it."""

    NONE = "none"
    PER_TOKEN_HEAD = "per_token_head"  # noqa: S105 - a cache format, not a secret
    INT4_PER_TOKEN_HEAD = "int4_per_token_head"  # noqa: S105 - a cache format, not a secret
    NVFP4 = "nvfp4"
    TURBOQUANT = "turboquant"


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """Elements of one size."""

    element_bytes: int
    packing: Packing = Packing.NONE

    def head_bytes(self, key_size: int, value_size: int) -> int:
        """Return the bytes of one token's key and value in one head."""
        return (key_size + value_size) * self.element_bytes


@dataclass(frozen=True, slots=True)
class PerTokenHead:
    """Integers or fp8 with one fp32 scale per token and head, for keys and for values."""

    bits: int
    packing: Packing = Packing.PER_TOKEN_HEAD

    def head_bytes(self, key_size: int, value_size: int) -> int:
        """Return the bytes of one token's key and value in one head, both scales included."""
        return key_size * self.bits // 8 + value_size * self.bits // 8 + 2 * 4


@dataclass(frozen=True, slots=True)
class NvFp4:
    """4-bit floats with one fp8 scale per 16 elements."""

    packing: Packing = Packing.NVFP4

    def head_bytes(self, key_size: int, value_size: int) -> int:
        """Return the bytes of one token's key and value in one head, block scales included."""
        return sum(size // 2 + size // 16 for size in (key_size, value_size))


@dataclass(frozen=True, slots=True)
class TurboQuant:
    """Key and value packed into one slot.

    Source: vLLM 0.20.2 to 0.32.0, TurboQuantConfig.slot_size_aligned.
    """

    key_bits: int
    value_bits: int
    packing: Packing = Packing.TURBOQUANT

    def head_bytes(self, key_size: int, value_size: int) -> int:
        """Return the bytes of one slot: 8-bit keys need no norm, others 2 bytes; values 4; made even."""
        norm = 2 if self.key_bits < BYTE_BITS else 0
        key = ceil_div(key_size * self.key_bits, BYTE_BITS) + norm
        value = ceil_div(value_size * self.value_bits, BYTE_BITS) + 4
        slot = key + value
        return slot + slot % 2


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of fixed bytes per token, whatever the head sizes: the layouts of sparse MLA's kernels."""

    slot_bytes: int
    packing: Packing = Packing.NONE

    def head_bytes(self, key_size: int, value_size: int) -> int:  # noqa: ARG002 - as of any format
        """Return the bytes of one token."""
        return self.slot_bytes


CacheFormat: TypeAlias = PlainFormat | PerTokenHead | NvFp4 | TurboQuant | Slot

QUANTIZED: Final[dict[str, CacheFormat]] = {
    "fp8": PlainFormat(1),
    "fp8_e4m3": PlainFormat(1),
    "fp8_e5m2": PlainFormat(1),
    "fp8_inc": PlainFormat(1),
    "int8_per_token_head": PerTokenHead(8),
    "fp8_per_token_head": PerTokenHead(8),
    "int4_per_token_head": PerTokenHead(4, Packing.INT4_PER_TOKEN_HEAD),
    # 512 bytes of fp8, four scales, and 64 rotary elements of 2 bytes.
    "fp8_ds_mla": Slot(656),
    "nvfp4_ds_mla": Slot(352),
    "nvfp4": NvFp4(),
    "nvfp4_4over6": NvFp4(),
    "turboquant_k8v4": TurboQuant(8, 4),
    "turboquant_4bit_nc": TurboQuant(4, 4),
    "turboquant_k3v4_nc": TurboQuant(3, 4),
    "turboquant_3bit_nc": TurboQuant(3, 3),
}
"""Formats of the quantized cache dtypes (vLLM 0.32.0, utils/torch_utils.py and backends' customize_spec)."""


class UnmodelledCacheDtype(ValueError):
    """A release accepts this cache dtype, but its size is not modelled."""


def cache_format(dtype: str, model_dtype: str) -> CacheFormat:
    """Return the format of a cache dtype; ``auto`` stores what the model computes with.

    Raises:
        UnmodelledCacheDtype: the size of this dtype is not known.
    """
    if dtype == "auto":
        return PlainFormat(MODEL_DTYPE_BYTES[model_dtype])
    if dtype in MODEL_DTYPE_BYTES:
        return PlainFormat(MODEL_DTYPE_BYTES[dtype])
    try:
        return QUANTIZED[dtype]
    except KeyError:
        raise UnmodelledCacheDtype(f"the size of cache dtype {dtype!r} is not modelled") from None


def of_heads(cache_format: CacheFormat) -> CacheFormat:
    """Return the format as attention with heads stores it: only MLA uses slots."""
    return PlainFormat(1) if isinstance(cache_format, Slot) else cache_format


def unpacked(cache_format: CacheFormat) -> CacheFormat:
    """Return the format as the engine counts it where it does not know the packing: a byte per element."""
    match cache_format.packing:
        case Packing.NONE:
            return cache_format
        case Packing.INT4_PER_TOKEN_HEAD:
            return PerTokenHead(BYTE_BITS)
        case _:
            return PlainFormat(1)


def sized_by(cache_format: CacheFormat, known: frozenset[str]) -> CacheFormat:
    """Return the format by which the engine sizes a layer where it knows only some packings."""
    return cache_format if cache_format.packing in known else unpacked(cache_format)
