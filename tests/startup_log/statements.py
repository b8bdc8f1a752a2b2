"""Print where a release says what dates a log: ``python -m tests.startup_log.statements PATH/TO/vllm``.

Its lines go to service/startup_log/statements.toml.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

from service.startup_log.catalogue.phrases import STATEMENTS

LOGGERS = frozenset({"info", "info_once", "debug"})


def statements(package: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the sentence, the file and the line of every statement of a package that logs one of ours."""
    places = {(said, file) for said, file, _ in STATEMENTS}
    for said, file in sorted(places):
        for path in sorted(package.rglob(file)):
            for line in _lines(path, said):
                yield said, file, line


def _lines(path: Path, said: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            words = "".join(
                part.value
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            # Since 0.30.0 the device's name is a value too.
            if node.func.attr in LOGGERS and words.startswith((said, said.replace("GPU ", "%s "))):
                yield node.lineno


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    for said, file, line in statements(parser.parse_args().package):
        print(f"{said!r} {file}: {line}")  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
