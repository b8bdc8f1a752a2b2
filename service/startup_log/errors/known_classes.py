"""Finds whose code Python's own messages are about, by the class or the function that they name."""

import builtins
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("known_classes.json.gz")
"""Files of classes and functions by package; tests/startup_log/known_classes.py writes it."""
ENGINE: Final = "vllm"
OF_PYTHON: Final = frozenset(vars(builtins))
"""Classes of Python itself, whose names a package can use again: Triton has a `tuple`."""
MOST: Final = 600
"""Characters of a message that are read."""
_OBJECT: Final = re.compile(
    r"(?:'(?:\w{1,60}\.){0,6}(\w{1,120})'|(?<![\w.])([A-Z]\w{0,60}[a-z][A-Z]\w{0,60})) "
    r"object (?:has no attribute|is not|does not support)"
)
"""The class of an object; people leave its quotes out, where capitals inside of the name still show it."""
_TYPE: Final = re.compile(r"type object '(\w{1,120})' has no attribute")
_CALL: Final = re.compile(
    r"(?<![\w.])(?:(\w{1,120})\.)?(\w{1,120})\(\) (?:got |missing |takes |argument )", re.ASCII
)
_ABSTRACT: Final = re.compile(r"Can't instantiate abstract class (\w{1,120})")
_MODULE: Final = re.compile(r"module '(\w{1,60}(?:\.\w{1,60}){0,8})' has no attribute")
_CODE_NAME: Final = re.compile(
    r"(?<![\w./-])(?=\w{0,60}_|[A-Za-z]{0,40}[a-z][A-Z]|[A-Z]{2,10}[a-z])"
    r"([A-Za-z_]\w{4,80}(?:\.py)?)(?![\w/-])",
    re.ASCII,
)
"""A name of code in a sentence: with an underscore, or with a capital letter inside."""
MOST_FILES: Final = 4
"""Modules of one name at most; a name of more says nothing."""
_KEY: Final = re.compile(r"^['\"]([\w.-]{1,80})['\"]$")


def places_named(message: str) -> Sequence[str]:
    """Return the paths of the files that can be meant by a message of Python; none for an unknown name."""
    text = message[:MOST]
    if (found := _MODULE.search(text)) is not None:
        return (f"{found[1].replace('.', '/')}/",)
    for pattern in (_OBJECT, _TYPE, _ABSTRACT):
        if (found := pattern.search(text)) is not None:
            name = next(filter(None, found.groups()))
            return () if name in OF_PYTHON else _files().get(name, ())
    if (found := _CALL.search(text)) is not None:
        return _files().get(found[1] or found[2], ())
    return ()


def places_mentioned(text: str) -> Sequence[tuple[str, Sequence[str]]]:
    """Return the names of classes, functions and modules in a text, each with the files that it can mean."""
    words = dict.fromkeys(_CODE_NAME.findall(text[:MOST]))
    return [(word, _files().get(word) or _modules().get(word.removesuffix(".py"), ())) for word in words]


def file_of_call(name: str, function: str) -> str:
    """Return the path of the engine's file of this name that has a function; empty for another program's.

    People write the name of a file without its folder, where the engine prints the whole path.
    """
    named = _file_names().get(name, ())
    having = [file for file in named if function in _content()["files"][ENGINE][file]]
    found = having or (named if len(named) == 1 and "_" in name else ())
    return f"{ENGINE}/{found[0]}" if found else ""


@cache
def files_of_engine() -> frozenset[str]:
    """Return the paths of the modules of the engine's releases inside of its package."""
    return frozenset(_content()["files"][ENGINE]).union(_content()["paths"])


def is_model_type(message: str) -> bool:
    """Whether the message of a KeyError is a model type that releases of transformers know."""
    found = _KEY.match(message)
    return found is not None and found[1] in _model_types()


@cache
def _files() -> Mapping[str, Sequence[str]]:
    """Return the files of each name; those of the engine alone where it has the name too."""
    files: dict[str, list[str]] = defaultdict(list)
    taken: set[str] = set()
    for package, folder in _content()["files"].items():
        here = defaultdict(list)
        for file, names in folder.items():
            for name in names:
                if name not in taken:
                    here[name].append(f"{package}/{file}")
        for name, places in here.items():
            files[name] += places
        taken |= here.keys()
    return files


@cache
def _modules() -> Mapping[str, Sequence[str]]:
    """Return the files of the engine's modules by their names, where few have the same."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in _content()["files"][ENGINE]:
        name = file.rpartition("/")[2].removesuffix(".py")
        if "_" in name:
            found[name].append(f"{ENGINE}/{file}")
    return {name: files for name, files in found.items() if len(files) <= MOST_FILES}


@cache
def _file_names() -> Mapping[str, Sequence[str]]:
    """Return the paths of the engine's files by their names without a folder."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in _content()["files"][ENGINE]:
        found[file.rpartition("/")[2]].append(file)
    return found


@cache
def _model_types() -> frozenset[str]:
    return frozenset(_content()["model_types"])


@cache
def _content() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return content
