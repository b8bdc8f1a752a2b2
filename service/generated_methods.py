"""Stores the methods that `dataclasses` generates, as Python stores its compiled modules.

`dataclasses` writes the methods of each class as text, and compiles that text at every start: a third of the
time that a command takes. The code of a text is always the same, so it is stored in ``__pycache__``, in the
form of ``marshal``, by the text's digest and for one version of Python. A text that is not stored is compiled
as ever. `python -m service.generated_methods` stores those of all modules, for an installation that is not
written to afterwards.
"""

import dataclasses
import marshal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType
from typing import Any, Final, TypeAlias

from service.stored_beside import place_beside, store_beside

Codes: TypeAlias = Mapping[bytes, bytes]
"""Code in the form of ``marshal`` by the digest of its text."""

EXECUTES: Final = "exec"
"""The name by which `dataclasses` runs what it wrote: a builtin, unless its module has one of that name."""
MOST_TEXTS: Final = 20_000
"""Texts of a file; those of classes that are gone stay in it until there are so many."""
DIGEST_BYTES: Final = 16
SOURCE: Final = Path(__file__)
"""The file beside which the codes are stored."""


class GeneratedMethods:
    """The code of generated texts: as a file has it, and what was compiled since."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._places, self._content = _read(place_beside(source))
        self._compiled: dict[bytes, bytes] = {}

    def execute(self, text: str, names: dict[str, Any], local: dict[str, Any]) -> None:
        """Do what the builtin does with the text of a generated method."""
        exec(self._code(text), names, local)  # noqa: S102 - as `dataclasses` does

    def _code(self, text: str) -> CodeType:
        digest = blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
        if (place := self._places.get(digest)) is not None:
            start, end = place
            stored: CodeType = marshal.loads(self._content[start:end])  # noqa: S302 - beside our modules
            return stored
        code = compile(text, "<string>", "exec")
        self._compiled[digest] = marshal.dumps(code)
        return code

    def store(self) -> None:
        """Store what was compiled; a folder may be read-only."""
        if not self._compiled:
            return
        kept = {} if len(self._places) + len(self._compiled) > MOST_TEXTS else self._places
        codes = {digest: self._content[start:end] for digest, (start, end) in kept.items()}
        store_beside(self._source, _written({**codes, **self._compiled}))


@contextmanager
def stored_methods(source: Path = SOURCE) -> Iterator[None]:
    """Let classes that are made meanwhile use the code stored beside a file; store what is compiled."""
    generated = GeneratedMethods(source)
    setattr(dataclasses, EXECUTES, generated.execute)
    try:
        yield
    finally:
        delattr(dataclasses, EXECUTES)
        generated.store()


def _written(codes: Codes) -> bytes:
    """Return a file: the places of all codes, then the codes in one piece, which is read as one."""
    ends, end = {}, 0
    for digest, code in codes.items():
        ends[digest] = (end, end + len(code))
        end += len(code)
    return MAGIC_NUMBER + marshal.dumps((ends, b"".join(codes.values())))


def _read(file: Path) -> tuple[dict[bytes, tuple[int, int]], bytes]:
    try:
        content = file.read_bytes()
        if content.startswith(MAGIC_NUMBER):
            places, codes = marshal.loads(content[len(MAGIC_NUMBER) :])  # noqa: S302 - as above
            return places, codes
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return {}, b""


def _import_all() -> None:
    """Import every module of the package, but for migrations, which run where they are imported."""
    import service  # noqa: PLC0415 - only this function needs the package as a whole

    for each in walk_packages(service.__path__, "service."):
        if not each.name.endswith("__main__") and ".migrations" not in each.name:
            import_module(each.name)


if __name__ == "__main__":
    with stored_methods():
        _import_all()
