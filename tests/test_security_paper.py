"""Every line of the threat model names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "docs/security.md"
ROWS = [line for line in PAPER.read_text("utf-8").splitlines() if line.startswith("|") and "---" not in line]
NAMED = re.compile(r"\| `(tests/[\w/]+\.py)(?:::(\w+))?` \|$")


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("| threat |")])
def test_a_line_is_backed_by_a_test(row: str) -> None:
    found = NAMED.search(row)
    assert found is not None, "the last column must name a test"
    tree = ast.parse((ROOT / found[1]).read_text("utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert found[2] is None or found[2] in names
