"""Write which releases have which names: ``python -m tests.startup_log.released_names FOLDER``.

FOLDER holds unpacked releases, FOLDER/0.19.0/vllm. The output is
service/startup_log/catalogue/released_names.json.gz:
for each module of the engine the names that can be imported from it, and the first and the last of the given
releases that have them, where not all have. Python's own message names both: ``cannot import name 'a' from
'vllm.b'``.
"""

import argparse
import ast
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.version import Version

from service.startup_log.catalogue.released_names import FILE

LEFT_OUT: Final = (
    "benchmarks/",
    "third_party/",
    "vllm_flash_attn/",
    "model_executor/layers/fused_moe/configs/",
)
"""Beginnings of the paths of files that nobody imports."""


def names_of(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of all that can be imported from a release; a module itself has none."""
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if file.startswith(LEFT_OUT):
            continue
        parts = (package.name, *file.removesuffix(".py").removesuffix("__init__").rstrip("/").split("/"))
        module = ".".join(filter(None, parts))
        yield module, ""
        for node in ast.parse(path.read_text("utf-8")).body:
            yield from ((module, name) for name in _defined(node) if not name.startswith("__"))


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.ImportFrom(names=names, module=str(module)) if module.startswith("vllm"):
            yield from (each.asname or each.name for each in names)
        case ast.If(body=body, orelse=orelse) | ast.Try(body=body, orelse=orelse):
            for each in (*body, *orelse):
                yield from _defined(each)


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    releases = sorted(Version(each.name) for each in folder.iterdir() if (each / "vllm").is_dir())
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, release in enumerate(releases):
        for module, name in dict.fromkeys(names_of(folder / str(release) / "vllm")):
            found[module][name].append(position)
    modules = {
        module: {
            name: [min(at), max(at)] for name, at in sorted(names.items()) if len(at) < len(found[module][""])
        }
        | {"": [min(names[""]), max(names[""])]}
        for module, names in sorted(found.items())
    }
    content = json.dumps(
        {"releases": list(map(str, releases)), "modules": modules}, separators=(",", ":")
    ).encode()
    FILE.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
