"""Reads which parsers of tool calls and of reasoning, tokenizers and formats of a config each release has.

``python -m tests.oracle.registered_names FOLDER``, where FOLDER has the unpacked wheel of every release
(``FOLDER/0.32.0/vllm``), as for ``tests.oracle.arguments``. The names are read from the source without
running it: parsers are those of the decorator ``register_module`` (0.10.2), of its calls, and the keys of the
table that registers modules when they are first needed (since 0.11.1). Modes of a tokenizer are the members
of its type where it takes no others (before 0.12.0), then the keys of its registry, with the words that are
compared with the mode before it is looked up and those that the model's config sets. A word that means no
parser of reasoning (since 0.33.0) is listed with the parsers.
"""

import argparse
import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from service.engines.arguments.registered_names import NAMING_FLAGS
from service.engines.releases import RELEASES
from tests.oracle.arguments import TARGET, listed_changes

FOLDERS: Final = {
    "tool_call_parser": ("tool_parsers", "entrypoints/openai/tool_parsers"),
    "reasoning_parser": ("reasoning",),
}
HEAD: Final = """\
# What a release registers itself under names that flags give; plugins add others. Read in the source of each
# release: vllm/tool_parsers (before 0.13.0 entrypoints/openai/tool_parsers) and vllm/reasoning:
# register_module, the table of lazy modules; vllm/tokenizers/registry.py and config/model.py (before 0.12.0
# its type TokenizerMode alone); transformers_utils/config.py; engine/arg_utils.py parse_reasoning_parser.
# Written by tests/oracle/registered_names.py; do not edit.
"""


def names_in(root: Path, flag: str) -> tuple[str, ...]:
    """Return the names that the source of one release registers for a flag, sorted."""
    match flag:
        case "tokenizer_mode":
            return tuple(sorted(set(_tokenizer_modes(root))))
        case "config_format":
            tree = _tree(root / "transformers_utils" / "config.py")
            return tuple(sorted({"auto", *_keys_of(tree, "_CONFIG_FORMAT_TO_CONFIG_PARSER")}))
        case "reasoning_parser":
            return tuple(sorted({*_parsers(root, flag), *_no_parser(root)}))
        case _:
            return _parsers(root, flag)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _tokenizer_modes(root: Path) -> Iterator[str]:
    config = root / "config" / "model.py"
    config = config if config.is_file() else root / "config" / "__init__.py"
    folder = root / "tokenizers"
    if not (folder / "registry.py").is_file():
        yield from _literal(_tree(config), "TokenizerMode")
        return
    yield from _keys_of(_tree(folder / "registry.py"), "_VLLM_TOKENIZERS")
    for path in folder.glob("*.py"):
        yield from _decorated(_tree(path))
    for node in ast.walk(_tree(folder / "registry.py")):
        match node:
            case ast.Compare(left=ast.Name(id="tokenizer_mode"), ops=[ast.Eq()], comparators=[word]):
                yield from _texts(word)
    for node in ast.walk(_tree(config)):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr="tokenizer_mode")], value=word):
                yield from _texts(word)


def _literal(tree: ast.Module, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Subscript(slice=members)) if (
                found == name
            ):
                yield from _texts(members)


def _keys_of(tree: ast.Module, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=found)], value=ast.Dict(keys=keys))
                | ast.AnnAssign(target=ast.Name(id=found), value=ast.Dict(keys=keys))
            ) if found == name:
                for key in keys:
                    yield from _texts(key)


def _decorated(tree: ast.Module) -> Iterator[str]:
    """Yield the names of ``@TokenizerRegistry.register("name")``."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="TokenizerRegistry"), attr="register"), args=[name]
            ):
                yield from _texts(name)


def _no_parser(root: Path) -> Iterator[str]:
    """Yield the words that mean no parser of reasoning."""
    for function in ast.walk(_tree(root / "engine" / "arg_utils.py")):
        match function:
            case ast.FunctionDef(name="parse_reasoning_parser"):
                for node in ast.walk(function):
                    match node:
                        case ast.Compare(ops=[ast.Eq()], comparators=[word]):
                            yield from _texts(word)


def _parsers(root: Path, flag: str) -> tuple[str, ...]:
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
    """Yield the lines of ``registered_names.toml``."""
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
        for flag in NAMING_FLAGS
    }
    (TARGET / "registered_names.toml").write_text("\n".join(write_names(tables)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
