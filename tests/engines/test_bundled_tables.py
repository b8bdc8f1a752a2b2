"""The bundled tables can be reviewed line by line."""

from importlib.resources import files
from pathlib import Path

import pytest

MOST = 200
"""Characters of a line; a diff of longer ones cannot be read by eye."""
SERVICE = Path(str(files("service")))
TABLES = tuple(path.relative_to(SERVICE).as_posix() for path in sorted(SERVICE.rglob("*.toml")))


@pytest.mark.parametrize("table", TABLES)
def test_no_line_is_too_long_to_be_reviewed(table: str) -> None:
    lines = enumerate(SERVICE.joinpath(table).read_text("utf-8").splitlines(), 1)
    assert [number for number, line in lines if len(line) > MOST] == []
