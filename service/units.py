"""Integer arithmetic of the memory model. Sizes are ``int`` bytes; GiB are used only in text."""

from typing import Final

GIB: Final = 1 << 30
MIB: Final = 1 << 20


def ceil_div(numerator: int, denominator: int) -> int:
    """Return ``numerator / denominator`` rounded up, for a positive denominator."""
    return -(-numerator // denominator)


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``value``."""
    return ceil_div(value, multiple) * multiple


def next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least ``value``, which must be positive."""
    return 1 << (value - 1).bit_length()


def gib_amount(size_bytes: int) -> str:
    """Return an amount of memory in GiB without the unit; ``none`` where a difference left less than 0."""
    return "none" if size_bytes < 0 else gib_text(size_bytes)


def gib_text(size_bytes: int, digits: int = 2) -> str:
    """Return a byte count in GiB as text with ``digits`` decimals, without the unit."""
    return f"{size_bytes / GIB:.{digits}f}"
