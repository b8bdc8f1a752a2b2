"""Values of flags as people write them: ``32k``, ``32K``, ``5G``, ``auto``."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

AUTO_LENGTH: Final = -1
"""`--max-model-len auto`: the longest length that the memory allows."""
_COUNT: Final = re.compile(r"([0-9]{1,15})(\.[0-9]{1,9})?([kKmMgGtT])", re.ASCII)
_BYTES: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kKMGT])iB", re.ASCII)
_FACTORS: Final[Mapping[str, int]] = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}


def read_count(text: str) -> int:
    """Return the number that a text such as ``25.6k`` (25,600) or ``1K`` (1,024) means to the engine.

    Small letters are powers of 1000, capital letters powers of 1024. A number without a letter is read too,
    and ``11.54GiB``, which the engine itself does not take.

    Source: human_readable_int, in engine/arg_utils.py of vLLM 0.11.0 and utils/argparse_utils.py of 0.32.0.

    Raises:
        ValueError: it is not such a number, or a fraction of a power of 1024.
    """
    text = text.strip()
    if in_bytes := _BYTES.fullmatch(text):
        return int(Fraction(in_bytes[1]) * _FACTORS[in_bytes[2].upper()])
    match = _COUNT.fullmatch(text)
    if match is None:
        try:
            return int(text)
        except ValueError:
            words = "must be a whole number, or a number with a unit such as 32k, 5G or 11.54GiB"
            raise ValueError(words) from None
    whole, fraction, letter = match.groups()
    if fraction and letter.isupper():
        raise ValueError(f"takes no fraction before {letter}, a power of 1024: write {letter}iB for one")
    return int(Fraction(f"{whole}{fraction or ''}") * _FACTORS[letter])


def read_length(text: str) -> int:
    """Return a length: as `read_count`, or `AUTO_LENGTH` for ``auto``.

    Source: human_readable_int_or_auto, vLLM 0.32.0, utils/argparse_utils.py.

    Raises:
        ValueError: as for `read_count`.
    """
    return AUTO_LENGTH if text.strip().lower() == "auto" else read_count(text)
