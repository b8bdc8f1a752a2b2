"""Write what the engine's own errors say: ``python -m tests.startup_log.engine_errors 0.19.0=PATH/TO/vllm``.

The output is service/startup_log/engine_errors.json.gz: for each exception that the given releases raise
with words of their own, the fixed parts of its message, its class, its file and function, and the first and
last of the given releases that have it. Messages of requests are left out: they end no engine.
"""

import argparse
import ast
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from packaging.version import Version

from service.startup_log.engine_errors import FILE, LEAST_WORDS

Row: TypeAlias = tuple[str, str, str, tuple[str, ...]]
OF_REQUESTS: Final = (
    *("benchmarks/", "third_party/", "examples/", "sampling_params", "pooling_params", "entrypoints/openai/"),
    *("entrypoints/pooling/", "entrypoints/serve/", "entrypoints/generate/", "entrypoints/chat_utils"),
    *("entrypoints/anthropic/", "entrypoints/mcp/", "entrypoints/scale_out/", "entrypoints/score_utils"),
    *("parser/", "reasoning/", "tool_parsers/", "tokenizers/deepseek", "renderers/", "inputs/", "snapshot/"),
    *("v1/structured_output/", "multimodal/media/", "multimodal/video", "multimodal/image"),
    *("multimodal/audio", "v1/sample/", "distributed/weight_transfer/", "logits_process"),
)
"""Beginnings of the paths of files whose errors answer a request, or that no start reaches."""


def errors_of(package: Path) -> Iterator[Row]:
    """Yield class, file, function and the parts of the message of every raise and assert of a package."""
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if not file.startswith(OF_REQUESTS):
            yield from _in(ast.parse(path.read_text("utf-8")), file, "")


def _in(node: ast.AST, file: str, function: str) -> Iterator[Row]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and child.exc.args:
            raised = child.exc.func
            name = raised.attr if isinstance(raised, ast.Attribute) else getattr(raised, "id", "")
            yield name, file, inside, _parts(child.exc.args[0])
        elif isinstance(child, ast.Assert) and child.msg is not None:
            yield "AssertionError", file, inside, _parts(child.msg)
        yield from _in(child, file, inside)


def _parts(message: ast.AST) -> tuple[str, ...]:
    """Return the fixed parts of a message's first line."""
    first = "".join(_pieces(message)).split("\n", 1)[0]
    return tuple(part for part in (" ".join(each.split(" ")) for each in first.split("\0")) if part)


def _pieces(message: ast.AST) -> Iterator[str]:
    """Yield the parts of a message, with a NUL for each value."""
    match message:
        case ast.Constant(value=str(words)):
            yield words
        case ast.JoinedStr(values=values):
            for each in values:
                yield from _pieces(each)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _pieces(left)
            yield from _pieces(right)
        case _:
            yield "\0"


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="+")
    found: dict[Row, list[Version]] = {}
    for release, _, package in (each.partition("=") for each in parser.parse_args().releases):
        for row in errors_of(Path(package)):
            if max((len(part.split()) for part in row[3]), default=0) >= LEAST_WORDS:
                found.setdefault(row, []).append(Version(release))
    rows = [
        [*row[:3], str(min(releases)), str(max(releases)), list(row[3])]
        for row, releases in sorted(found.items())
    ]
    content = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    FILE.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
