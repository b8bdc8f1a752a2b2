"""A GPU type with the number of GPUs behind it, as in ``h100-sxm-80gb:8``."""

import re
from typing import Final

MOST: Final = 4096
"""GPUs of one type at most."""
_COUNTED: Final = re.compile(r"(?P<name>.+):(?P<count>\d{1,9})", re.ASCII)


class InvalidCount(ValueError):
    """A number of GPUs is 0 or too large."""


def split_count(text: str) -> tuple[str, int | None]:
    """Return the name and the number of GPUs; the number is ``None`` where none is given.

    Raises:
        InvalidCount: the number is not between 1 and ``MOST``.
    """
    match = _COUNTED.fullmatch(text)
    if match is None:
        return text, None
    count = int(match["count"])
    if not 1 <= count <= MOST:
        raise InvalidCount(f"{count} GPUs: the number behind the colon is between 1 and {MOST:,}")
    return match["name"], count
