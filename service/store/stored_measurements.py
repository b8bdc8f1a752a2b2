"""Whether a file of SQLite holds a measurement, found without the libraries that read measurements."""

from contextlib import closing
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 5.0
"""Time for which another process may hold the file."""


def may_have_measurements(file: Path) -> bool:
    """Whether a database may hold measurements; nothing is changed.

    False where there is no file, or its tables hold none. True where that cannot be found out: whoever reads
    the database says what is wrong with it. SQLAlchemy takes as long to import as a whole plan takes.
    """
    if not file.exists():
        return False
    # Most hosts have no such file.
    import sqlite3  # noqa: PLC0415

    address = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE_SECONDS)) as connection:
            return connection.execute("SELECT 1 FROM measurements LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True
