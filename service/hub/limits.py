"""Limits of one fetch from the Hub."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """Limits of one fetch: times in seconds, bytes of a file, redirects, levels of a JSON file."""

    connect_seconds: float = 2.0
    read_seconds: float = 4.0
    total_seconds: float = 8.0
    file_bytes: int = 16 << 20
    redirects: int = 3
    depth: int = 64


DEFAULT_LIMITS: Final = TransferLimits()
