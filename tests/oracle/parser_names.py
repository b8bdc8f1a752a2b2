"""Reads which parsers of tool calls and of reasoning each release has.

``python -m tests.oracle.parser_names FOLDER``, where FOLDER has the unpacked wheel of every release
(``FOLDER/0.32.0/vllm``), as for ``tests.oracle.arguments``. The names are read from the source without
running it: those of the decorator ``register_module`` (0.10.2), of its calls, and the keys of the table that
registers modules when they are first needed (since 0.11.1).
"""

import argparse
import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from service.engines.releases import RELEASES
from tests.oracle.arguments import TARGET, listed_changes

FOLDERS: Final = {
    "tool_call_parser": ("tool_parsers", "entrypoints/openai/tool_parsers"),
    "reasoning_parser": ("reasoning",),
}
HEAD: Final = """\
# The parsers that a release registers itself, which --tool-call-parser and --reasoning-parser name; plugins
# add others. Read in the source of each release: vllm/tool_parsers (before 0.13.0
# entrypoints/openai/tool_parsers) and vllm/reasoning: register_module, the table of lazy modules.
# Written by tests/oracle/parser_names.py; do not edit.
"""


def names_in(root: Path, flag: str) -> tuple[str, ...]:
    """Return the names that the source of one release registers for a flag, sorted."""
    folder = next(root / each for each in FOLDERS[flag] if (root / each / "__init__.py").is_file())
    found = {
        name for path in folder.rglob("*.py") for name in _registered(ast.parse(path.read_text("utf-8")))
    }
    if not found:
        raise SystemExit(f"{folder} registers nothing")
    return tuple(sorted(found))


def _registered(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="register_module"), args=[first, *_]):
                yield from _texts(first)
            case ast.Call(func=ast.Attribute(attr="register_module"), keywords=keywords):
                for keyword in keywords:
                    yield from _texts(keyword.value) if keyword.arg == "name" else ()
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)):
                if name.endswith("_PARSERS_TO_REGISTER"):
                    for key in keys:
                        yield from _texts(key)


def _texts(node: ast.expr | None) -> Iterator[str]:
    """Yield the texts of a literal: one, or a list of them."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.List(elts=members) | ast.Tuple(elts=members):
            for each in members:
                yield from _texts(each)


def write_names(tables: Mapping[str, Mapping[Version, tuple[str, ...]]]) -> Iterator[str]:
    """Yield the lines of ``parser_names.toml``."""
    yield from HEAD.splitlines()
    for flag, states in tables.items():
        yield from ("", f"[{flag}]", *listed_changes(states.items()))


def main() -> None:
    """Read every release in the folder and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    tables = {
        flag: {release: names_in(folder / str(release) / "vllm", flag) for release in RELEASES}
        for flag in FOLDERS
    }
    (TARGET / "parser_names.toml").write_text("\n".join(write_names(tables)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
