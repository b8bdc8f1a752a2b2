"""Reads the total size of a model's tensors from the first bytes of its weights index.

The index of a model with many shards has megabytes, nearly all of them a map from tensors to files. Its keys
are sorted, so that `metadata` with the total comes first and the rest need not be fetched.
"""

import json
import re
from typing import Final

SPAN: Final = (0, 4095)
_BEGINNING: Final = re.compile(r'\s*\{\s*"metadata"\s*:\s*(?=\{)')
_MOST_BYTES: Final = 1 << 60


def total_bytes(beginning: bytes) -> int | None:
    """Return the bytes of all tensors; None if the beginning of the index does not state them."""
    text = beginning.decode("utf-8", "replace")
    match = _BEGINNING.match(text)
    if match is None:
        return None
    try:
        metadata, _ = json.JSONDecoder().raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return None
    total = metadata.get("total_size")
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 < total < _MOST_BYTES:
        return None
    return int(total)  # some tools write whole bytes as a float
