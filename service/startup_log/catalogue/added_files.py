"""Tells a file that a fork or a patch added to the engine's package from those of its releases."""

from collections.abc import Iterable
from functools import cache

from service.startup_log.catalogue.engine_errors import ENGINE, files_of_errors
from service.startup_log.errors.known_classes import files_of_engine


def is_of_no_release(path: str, others: Iterable[str]) -> bool:
    """Whether a file of the engine's package is in none of the releases that were read.

    ``others``: paths of the same traceback. A known file among them shows where the package is, since other
    folders have its name too.
    """
    root, inside = _in_package(path)
    folder = inside.partition("/")[0]
    if not inside.endswith(".py") or inside.endswith("/__init__.py") or folder not in _folders():
        return False
    return inside not in _released() and any(
        other == root and file in _released() for other, file in map(_in_package, others)
    )


def _in_package(path: str) -> tuple[str, str]:
    """Return the folder that holds the engine's package, and the path inside of it; empty for other files."""
    root, found, inside = f"/{path}".rpartition(f"/{ENGINE}/")
    return (root, inside) if found else ("", "")


@cache
def _released() -> frozenset[str]:
    """Return the files that raise an error in words of their own in any release, and others."""
    return files_of_errors() | files_of_engine()


@cache
def _folders() -> frozenset[str]:
    """Return the folders of the engine's package that have modules of their own."""
    return frozenset(file.partition("/")[0] for file in _released() if "/" in file)
