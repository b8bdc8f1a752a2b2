"""The bundled tables can be reviewed line by line."""

from importlib.resources import files
from pathlib import Path

import pytest

MOST = 200
"""Characters of a line; a diff of longer ones cannot be read by eye."""
SERVICE = Path(str(files("service")))
TABLES = sorted(SERVICE.rglob("*.toml"))


@pytest.mark.parametrize("table", TABLES, ids=[str(table.relative_to(SERVICE)) for table in TABLES])
def test_no_line_is_too_long_to_be_reviewed(table: Path) -> None:
    lines = enumerate(table.read_text("utf-8").splitlines(), 1)
    assert [number for number, line in lines if len(line) > MOST] == []
