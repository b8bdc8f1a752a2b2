"""store_beside: writes what was made of a file of the package, in the place of its compiled modules."""

import sys
from importlib.util import cache_from_source
from pathlib import Path


def place_beside(source: Path) -> Path:
    """Return where the stored form of a file lies: in ``__pycache__``, for one version of Python."""
    return Path(cache_from_source(f"{source}.marshal"))


def store_beside(source: Path, content: bytes) -> None:
    """Store a form of a file for those who may read the file; a folder may be read-only."""
    if sys.dont_write_bytecode:
        return
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - only the first start needs it

    stored = place_beside(source)
    try:
        stored.parent.mkdir(exist_ok=True)
        with NamedTemporaryFile(dir=stored.parent, delete=False) as unfinished:
            unfinished.write(content)
        Path(unfinished.name).chmod(source.stat().st_mode & 0o666)
        Path(unfinished.name).replace(stored)
    except OSError:
        return
