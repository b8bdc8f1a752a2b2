"""NvlinkDomain: how many GPUs of a type NVLink joins, and whether every machine has it."""

from dataclasses import dataclass, replace
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class NvlinkDomain:
    """GPUs that exchange over NVLink with each other, all with all; others exchange over PCIe or the network.

    Raises:
        ValueError: it joins no GPU.
    """

    gpus: int
    """GPUs that it joins at most; 1: the type has no NVLink."""
    words: str
    """What joins them."""
    source: str
    bought_apart: bool = False
    """Cards work without it, as without a bridge: a machine has it only where somebody says so."""
    promised: bool = False
    """The request says that it is there."""

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"NVLink joins {self.gpus} GPUs")

    @property
    def joined(self) -> int:
        """GPUs that it joins for certain: one, where nobody promised what is bought apart."""
        return 1 if self.bought_apart and not self.promised else self.gpus

    def with_promise(self) -> Self:
        """Return the same where the request says that what is bought apart is there."""
        return replace(self, promised=True) if self.bought_apart else self


NOT_OF_SLICES: Final = NvlinkDomain(1, "no NVLink", "NVIDIA MIG user guide: instances are not peers")
"""MIG instances."""
