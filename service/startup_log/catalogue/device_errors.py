"""Reads errors of CUDA and HIP by number, name or text, in the forms in which libraries print them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.bundled_toml import read_toml

BEGINNING: Final = 6
"""Characters by which texts are looked up."""
MOST_TEXT: Final = 128
"""Characters of the longest text at most."""


@dataclass(frozen=True, slots=True)
class DeviceError:
    """One error of CUDA."""

    code: int
    names: tuple[str, ...]
    """In the runtime and in the driver."""
    says: str
    """Empty where the driver alone has the error."""
    cause: str


def _by_beginning(texts: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for text, cause in sorted(texts, key=lambda each: -len(each[0])):
        found[text[:BEGINNING]].append((text, cause))
    return found


_TABLE: Final = read_toml("service.startup_log.catalogue", "device_errors.toml")
ERRORS: Final = tuple(
    DeviceError(code, tuple(names), says, family["cause"])
    for family in _TABLE["family"]
    for code, names, says in family["errors"]
)
_OF_HIP: Final[Mapping[str, str]] = _TABLE["hip"]
"""What an error of HIP shows, by what the same error of CUDA shows, where that differs."""
_CODES: Final[Mapping[int, str]] = {each.code: each.cause for each in ERRORS}
_NAMES: Final[Mapping[str, str]] = {name: each.cause for each in ERRORS for name in each.names}
_TEXTS: Final = _by_beginning((each.says.casefold(), each.cause) for each in ERRORS if each.says)
_NAME: Final = re.compile(r"\b(cudaError[A-Z]\w{2,60}|CUDA_ERROR_[A-Z]\w{2,60})\b", re.ASCII)
_HIP_NAME: Final = re.compile(r"\bhip(Error[A-Z]\w{2,60})\b", re.ASCII)
_HIP_TEXT: Final = re.compile(r"\bHIP (?:runtime )?[Ee]rror(?: ?: ?| )['\"]?", re.ASCII)
_NUMBER: Final = re.compile(
    r"\b(?:CUDA|cuda|Cuda) (?:(?:runtime |driver )?error|failure)(?: code)?[ :=(]{1,3}([0-9]{1,3})\b"
    r"|\bcudaError_t(?: =)? ?\(?([0-9]{1,3})\b",
    re.ASCII,
)
_TEXT: Final = re.compile(
    r"(?:\b[Cc][Uu][Dd][Aa] (?:(?:runtime |driver )?[Ee]rror|failure)(?: [0-9]{1,3}| \([0-9]{1,3}\))?"
    r"|\bTriton Error \[CUDA\]|\bError [0-9]{1,3})(?: ?: ?| )['\"]?",
    re.ASCII,
)
"""What stands before the text of an error."""
MOST: Final = 8
"""Errors of one line that are looked at."""


def device_error(line: str) -> str | None:
    """Return the name of the cause that a device's error in a line shows; ``None`` without a known one."""
    if "HIP" in line or "hip" in line:
        cause = _of_hip(line)
        return None if cause is None else _OF_HIP.get(cause, cause)
    for name in islice(_NAME.finditer(line), MOST):
        if (cause := _NAMES.get(name[1])) is not None:
            return cause
    for before in islice(_TEXT.finditer(line), MOST):
        if (cause := _of_text(line[before.end() : before.end() + MOST_TEXT])) is not None:
            return cause
    number = _NUMBER.search(line)
    return None if number is None else _CODES.get(int(number[1] or number[2]))


def _of_hip(line: str) -> str | None:
    for name in islice(_HIP_NAME.finditer(line), MOST):
        if (cause := _NAMES.get(f"cuda{name[1]}")) is not None:
            return cause
    texts = (line[each.end() : each.end() + MOST_TEXT] for each in islice(_HIP_TEXT.finditer(line), MOST))
    causes = (_of_text(text.replace("ROCm", "CUDA")) for text in texts)
    return next(filter(None, causes), None)


def _of_text(words: str) -> str | None:
    """Return the cause of the longest text with which the words begin."""
    said = words.casefold()
    return next((cause for text, cause in _TEXTS.get(said[:BEGINNING], ()) if said.startswith(text)), None)
