"""Finds a backtrace of compiled code that was pasted without the error above it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import FailureOrigin
from service.startup_log.failures.logged_failure import Failure, of_line
from service.startup_log.text.lines import LogLine

_FRAME: Final = re.compile(
    r"frame #\d{1,3}: |#\d{1,3} +0x[0-9a-f]{6,16} in |@ +0x[0-9a-f]{6,16}\b"
    r"|--- \S.{0,400}\[0x[0-9a-f]{4,16}\]"
)
"""A frame as PyTorch (c10/util/Backtrace.cpp), gdb, tt-metal and glog write it."""
_RAISED: Final = "Exception raised from "
"""PyTorch, c10/util/Exception.h: the place of an error, between its message and the frames."""
LEAST: Final = 2
"""Such lines that are a backtrace, and not one that a sentence quotes."""
LEAST_SHARE: Final = 0.6
"""Share of the lines with text that are of it at least."""
_PARTS: Final = (
    ("nccl", "NCCL, with which the ranks exchange data"),
    ("cublas", "cuBLAS"),
    ("cudnn", "cuDNN"),
    ("c10_cuda_check_implementation", "a call of CUDA, whose error the lines above name"),
    ("libtorch", "PyTorch"),
    ("libc10", "PyTorch"),
)
"""What the names of functions and libraries in small letters show, in words that follow "in"."""


def of_backtrace(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure of a text that is only such a backtrace; ``None`` for any other text."""
    filled = [line for line in lines if line.text.strip()]
    ours = [line for line in filled if _is_of_it(line.text.strip())]
    if len(ours) < LEAST or len(ours) < LEAST_SHARE * len(filled):
        return None
    text = "\n".join(line.text.lower() for line in ours)
    part = next((name for words, name in _PARTS if words in text), "compiled code")
    return replace(of_line(ours[0], FailureOrigin(part, None)), follows=True)


def _is_of_it(text: str) -> bool:
    return text.startswith(_RAISED) or _FRAME.match(text) is not None
