"""Laws of the source text: words, names, tables. Imports have contracts of their own in pyproject.toml."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from service.engines.engine_rules import EngineRules
from service.engines.releases import TOPICS

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "service").rglob("*.py"))
TABLES = sorted((ROOT / "service").rglob("*.toml"))
PAPERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CORE = (
    "advisor", "architecture", "backends", "calibration", "engine_config", "engines", "explanation", "gpus",
    "kv_cache", "launch_command", "memory", "probes", "startup_log",
)  # fmt: skip

BANNED = re.compile(
    r"\b(told|untold|guess(?:es|ed|ing)?|picks?|picked|heeds?|heeded|unheeded|dealt out|heard"
    r"|voices?(?!-activity)|witness(?:es)?|crowded|second runner|had its say|shelves|settled)\b"
    r"|(?<!multi-head )\blatent attention\b",
    re.IGNORECASE,
)
"""House words. The field says given, draft token, selected, passes, sharded, observation, MLA."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield names, strings and comments of a source file with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type in {tokenize.NAME, tokenize.STRING, tokenize.COMMENT}:
            yield token.start[0], token.string.replace("_", " ")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_source_speaks_the_fields_language(path: Path) -> None:
    found = [f"{line}: {match[0]}" for line, text in texts(path) for match in BANNED.finditer(text)]
    assert found == []


@pytest.mark.parametrize("path", [*PAPERS, *TABLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_papers_and_tables_do_too(path: Path) -> None:
    lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
    assert [f"{number}: {match[0]}" for number, line in lines for match in BANNED.finditer(line)] == []


def test_no_public_class_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_the_core_compares_values_not_addresses() -> None:
    """An address is given to another object when one is gone, so a result must not depend on it."""
    uses = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in CORE
        for path in sorted((ROOT / "service" / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Name) and node.id == "id" and isinstance(node.ctx, ast.Load)
    ]
    assert uses == []


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_a_group_of_rules_is_small(topic: str) -> None:
    assert 3 <= len(fields(TOPICS[topic])) <= 20


def test_the_rules_are_a_record_of_groups() -> None:
    assert {field.name for field in fields(EngineRules)} - set(TOPICS) == {"release", "doubt"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) < 9_000


def test_the_architecture_names_files_that_exist() -> None:
    paper = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`(\w[\w/.]*\.(?:py|toml))`", paper))
    places = [ROOT.glob("*.*"), *((ROOT / folder).rglob("*.*") for folder in ("service", "tests"))]
    paths = {f"/{path.relative_to(ROOT)}" for place in places for path in place}
    assert len(named) > 100
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in paths)] == []
