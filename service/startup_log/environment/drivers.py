"""Reads which NVIDIA driver a text prints, and for which CUDA its torch was built, and whether they fit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.startup_log.text.lines import LogLine

_DRIVER: Final = re.compile(r"(?i)\bdriver version\s{0,20}:\s{0,4}(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")
"""collect_env.py and nvidia-smi."""
_BUILT: Final = re.compile(
    r"(?i)\b(?:pytorch version\s{0,20}: ?|torch==|torch ?)\d{1,2}\.\d{1,2}[\w.]{0,20}\+cu(\d{2})(\d)\b"
)
TRITON: Final = "Triton Error [CUDA]"
"""Triton 2 and 3, backends/nvidia/driver.c: the beginning of its messages."""
CUDA_OF_TRITON: Final = "12.0"
"""The least CUDA of the ptxas in the wheels of Triton 2.1 and later, beside torch for CUDA 11.8 too."""
_TABLE: Final[Mapping[str, Mapping[str, str]]] = read_toml("service.startup_log.environment", "drivers.toml")


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of the GPU, and the CUDA version of the installed torch, as a text prints them."""

    version: str
    cuda: str
    """Of torch: `12.4`."""
    built: str = "torch is built for"
    """What is of this version of CUDA."""

    @property
    def known_least(self) -> str:
        """The least driver with which a program of this major version of CUDA runs; empty if not known."""
        return _TABLE["least"].get(self.cuda.partition(".")[0], "")

    @property
    def known_full(self) -> str:
        """The driver that came with this version of CUDA; empty if not known."""
        return _TABLE["with"].get(self.cuda, "")

    @property
    def lags(self) -> bool:
        """Whether the driver is older than the one that came with torch's CUDA."""
        return bool(self.known_full) and Version(self.version) < Version(self.known_full)

    @property
    def refuses(self) -> bool:
        """Whether the driver runs no program of torch's CUDA at all."""
        return bool(self.known_least) and Version(self.version) < Version(self.known_least)


def read_driver(lines: Sequence[LogLine]) -> Driver | None:
    """Return the driver and torch's CUDA; ``None`` where the text does not print both."""
    version, cuda = "", ""
    for line in lines:
        text = line.text[:400]
        if not version and "river" in text and (found := _DRIVER.search(text)) is not None:
            version = found[1]
        if not cuda and "+cu" in text and (found := _BUILT.search(text)) is not None:
            cuda = f"{found[1]}.{found[2]}"
    return Driver(version, cuda) if version and cuda else None


def needed_for(message: str, driver: Driver) -> Driver:
    """Return a driver beside the CUDA that a message is about: what Triton compiled is of its own CUDA."""
    if TRITON not in message or int(driver.cuda.partition(".")[0]) >= int(CUDA_OF_TRITON.partition(".")[0]):
        return driver
    return Driver(driver.version, CUDA_OF_TRITON, "Triton compiles with the ptxas of")


def words_of(driver: Driver) -> str:
    """Return what to do about a driver that is older than torch's CUDA; empty for one that is not."""
    said = f"Update the driver: the text prints {driver.version}, and {driver.built} CUDA {driver.cuda}"
    if driver.refuses:
        full = f" ({driver.known_full} for all of it)" if driver.known_full else ""
        return f"{said}, whose programs need {driver.known_least} or later{full}."
    if driver.lags:
        return (
            f"{said}, with which {driver.known_full} came: an older one does not load what it must itself "
            "compile for the GPU."
        )
    return ""
