"""Reads the TOML files of the package. What was parsed is stored as Python stores its compiled modules.

tomllib takes longer to parse the dated data of the engine than all modules take to load. The stored form is
that of ``marshal``, in ``__pycache__``, for one version of Python and for one content of the file: times of
files are not exact in an image. A file that changed, or that cannot be stored, is parsed.
`python -m service.bundled_toml` stores all files, for an installation that is not written to afterwards.
"""

import marshal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import Any

from service.stored_beside import place_beside, store_beside


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return the table of a file of a package, ``name`` being its path in the folder of the package.

    Raises:
        FileNotFoundError: the package has no such file.
        ValueError: it is not TOML.
    """
    return _read(Path(import_module(package).__path__[0], name))


def _read(source: Path) -> dict[str, Any]:
    text = source.read_bytes()
    mark = MAGIC_NUMBER + source_hash(text)
    try:
        content = place_beside(source).read_bytes()
        if content.startswith(mark):
            table: dict[str, Any] = marshal.loads(content[len(mark) :])  # noqa: S302 - beside our modules, like them
            return table
    except (OSError, ValueError, EOFError, TypeError):
        pass
    import tomllib  # noqa: PLC0415 - only the first start needs it

    table = tomllib.loads(text.decode())
    # A table that holds a date has no stored form.
    with suppress(ValueError):
        store_beside(source, mark + marshal.dumps(table))
    return table


def bundled_files() -> Iterator[Path]:
    """Yield every TOML file of the package."""
    yield from sorted(Path(__file__).parent.rglob("*.toml"))


if __name__ == "__main__":
    for each in bundled_files():
        _read(each)
