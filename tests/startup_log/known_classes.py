"""Write where classes are defined: ``python -m tests.startup_log.known_classes vllm==0.19.0=PATH/TO/vllm``.

The output is service/startup_log/errors/known_classes.json.gz: for each package the files of its classes,
and the functions of the engine's modules, by name; and the model types that transformers knows. Python's own
messages name a class or a function and no file: ``'X' object has no attribute 'y'``.
What the file has of other packages, of model types and of the engine's other files stays; with ``--paths``
only the paths of the engine's files are added, which tell a file that a fork added from those of releases.
"""

import argparse
import ast
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from service.startup_log.catalogue.engine_errors import ENGINE
from service.startup_log.errors.known_classes import FILE

ANY: Final = frozenset({"__init__", "main", "forward", "wrapper", "decorator", "inner"})
"""Names of functions that say nothing about their place."""
MOST_FILES: Final = 6
"""Files of one name at most; a name of more places says nothing."""
LEFT_OUT: Final = ("benchmarks/", "third_party/", "testing/", "_vendor/", "test_", "cli/", "commands/")
KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": ("_inductor/", "_dynamo/", "distributed/", "nn/", "cuda/", "utils/", "_functorch/", "autograd/"),
    "flashinfer": ("jit/", "attention/", "mla/", "fused_moe/", "comm/", "gemm/", "cudnn/"),
}
"""Beginnings of the paths of the files that a start reaches, of packages with many others."""
MODELING: Final = re.compile("/mod(eling|ular)_")
"""Files of transformers whose classes the engine has under the same names."""
MODEL_TYPES: Final = ("CONFIG_MAPPING_NAMES",)


def names_of(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the file of every class, and of every function of a module of the engine."""
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        if not _is_kept(package.name, file):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, file
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(node.name, package):
                yield node.name, file


def _is_public(function: str, package: Path) -> bool:
    return package.name == ENGINE and not function.startswith("_")


def _is_kept(package: str, file: str) -> bool:
    if file.startswith(LEFT_OUT) or "/test_" in file or (package == "transformers" and MODELING.search(file)):
        return False
    return package not in KEPT or file.startswith(KEPT[package]) or "/" not in file


def model_types_of(package: Path) -> Iterator[str]:
    """Yield the keys of the tables that give a model type its config class."""
    for file in ("models/auto/configuration_auto.py", "models/auto/auto_mappings.py"):
        path = package / file
        if path.exists():
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Assign | ast.AnnAssign) and _is_table(node):
                    yield from _keys(node)


def _is_table(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(getattr(each, "id", "") in MODEL_TYPES for each in targets)


def _keys(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Tuple) and each.elts and isinstance(each.elts[0], ast.Constant):
            yield str(each.elts[0].value)
        elif isinstance(each, ast.Dict):
            yield from (str(key.value) for key in each.keys if isinstance(key, ast.Constant))


def by_file(found: Mapping[str, Mapping[str, Version]]) -> dict[str, list[str]]:
    """Return the names of each file; of a name with many files none."""
    files: dict[str, list[str]] = defaultdict(list)
    for name, places in sorted(found.items()):
        newest = max(places.values())
        # A file that was moved counts where it is now.
        now = [file for file, release in places.items() if release == newest]
        if len(now) <= MOST_FILES and name not in ANY:
            for file in now:
                files[file].append(name)
    return dict(sorted(files.items()))


def _is_module(path: str) -> bool:
    return not path.startswith(LEFT_OUT) and not path.endswith("__init__.py")


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--paths", action="store_true")
    given = parser.parse_args()
    paths: set[str] = set()
    found: dict[str, dict[str, dict[str, Version]]] = defaultdict(lambda: defaultdict(dict))
    types: set[str] = set()
    for package, _, rest in (each.partition("==") for each in given.releases):
        release, _, folder = rest.partition("=")
        if package == ENGINE:
            paths.update(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.py"))
        if given.paths:
            continue
        for name, file in names_of(Path(folder)):
            places = found[package][name]
            places[file] = max(Version(release), places.get(file, Version(release)))
        types.update(model_types_of(Path(folder)))
    written = json.loads(gzip.decompress(FILE.read_bytes()))
    files = written["files"] | {name: by_file(each) for name, each in found.items()}
    paths = paths.union(written.get("paths", ())) - files[ENGINE].keys()
    types.update(written["model_types"])
    content = {"model_types": sorted(types), "files": files, "paths": sorted(filter(_is_module, paths))}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
