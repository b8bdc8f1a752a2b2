"""plain_file: the file of a database of SQLite, found without the library that parses addresses."""

from pathlib import Path


def plain_file(address: str) -> Path | None:
    """Return the file that an address names; None where it names another database, or has parameters."""
    kind, _, path = address.partition(":///")
    return Path(path) if kind == "sqlite" and path and not set(path) & set("?%#") else None
