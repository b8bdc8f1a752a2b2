"""Stores the methods that `dataclasses` generates and the annotations that `typing` compiles.

`dataclasses` writes the methods of each class as text, and compiles that text at every start: a third of the
time that a command takes. `typing` compiles each annotation that is text, as 700 of Pydantic are. The code
of a text is always the same, so it is stored as that of modules is: in ``__pycache__``, in the form
of ``marshal``, by the text's digest and for one version of Python. A text that is not stored is compiled as
ever. `python -m service.generated_methods` stores those of all modules, for an installation that is not
written to afterwards.

Most classes are never compared, hashed or printed. Until Python 3.12 each method has a text of its own:
``__init__`` is made at once, and where its code was stored, so was that of the other methods, which are made
when they are first called. Since 3.13 one text has all methods of a class.
"""

import dataclasses
import marshal
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib import import_module
from importlib.util import MAGIC_NUMBER
from mmap import ACCESS_READ, mmap
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

from service.stored_beside import place_beside, store_beside

Codes: TypeAlias = Mapping[bytes, bytes]
"""Code in the form of ``marshal`` by the digest of its text."""
Content: TypeAlias = bytes | mmap
"""A file as it is."""

EXECUTES: Final = "exec"
"""The name by which `dataclasses` runs what it wrote: a builtin, unless its module has one of that name."""
CREATES: Final = "_create_fn"
"""The function that writes and runs the text of one method, until Python 3.12."""
COMPILES: Final = "compile"
"""The name by which `typing` compiles an annotation: a builtin, as above."""
FIRST_METHOD: Final = "__init__"
"""The first method of a class that is made."""
MOST_TEXTS: Final = 20_000
"""Texts of a file; those of classes that are gone stay in it until there are so many."""
DIGEST_BYTES: Final = 16
LENGTH_BYTES: Final = 4
SOURCE: Final = Path(__file__)
"""The file beside which the codes are stored."""


class GeneratedMethods:
    """The code of generated texts: as a file has it, and what was compiled since."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._places, self._content = _read(place_beside(source))
        self._compiled: dict[bytes, bytes] = {}
        self._expressions: dict[str, CodeType] = {}
        self._class_is_stored = False
        self._create = self._creator()

    def execute(self, text: str, names: dict[str, Any], local: dict[str, Any]) -> None:
        """Do what the builtin does with the text of a generated method."""
        exec(self._code(text), names, local)  # noqa: S102 - as `dataclasses` does

    def compile(self, text: str, file: str, mode: str) -> CodeType:
        """Do what the builtin does with the text of an annotation."""
        if text not in self._expressions:
            self._expressions[text] = self._code(text, mode, file)
        return self._expressions[text]

    def create(self, name: str, args: list[str], body: list[str], **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        """Return a method, as `dataclasses` does, or what makes it when it is first called."""

        def made() -> Callable[..., Any]:
            return self._create(name, args, body, **options)

        if name == FIRST_METHOD:
            before = len(self._compiled)
            method = made()
            self._class_is_stored = len(self._compiled) == before
            return method
        return _at_first_call(name, made) if self._class_is_stored else made()

    def _creator(self) -> Callable[..., Callable[..., Any]]:
        """Return the function of `dataclasses` that creates a method, which runs what it wrote by ours."""
        theirs = getattr(dataclasses, CREATES, None)
        if not isinstance(theirs, FunctionType):
            return self.create
        names = {**vars(dataclasses), EXECUTES: self.execute}
        ours = FunctionType(theirs.__code__, names, CREATES, theirs.__defaults__)
        ours.__kwdefaults__ = theirs.__kwdefaults__
        return ours

    def _code(self, text: str, mode: str = "exec", file: str = "<string>") -> CodeType:
        digest = blake2b(text.encode(), digest_size=DIGEST_BYTES, person=mode.encode()).digest()
        if (place := self._places.get(digest)) is not None:
            start, end = place
            stored: CodeType = marshal.loads(self._content[start:end])  # noqa: S302 - beside our modules
            return stored
        code: CodeType = compile(text, file, mode)
        self._compiled[digest] = marshal.dumps(code)
        return code

    def store(self) -> None:
        """Store what was compiled; a folder may be read-only."""
        if not self._compiled:
            return
        kept = {} if len(self._places) + len(self._compiled) > MOST_TEXTS else self._places
        codes = {digest: self._content[start:end] for digest, (start, end) in kept.items()}
        store_beside(self._source, _written({**codes, **self._compiled}))


def _at_first_call(name: str, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a method that makes the real one when it is first called, and puts it in its own place."""
    made: Callable[..., Any] | None = None

    def method(self: object, *others: object) -> Any:  # noqa: ANN401 - as the real one
        nonlocal made
        if made is None:
            made = make()
            made.__qualname__ = method.__qualname__
            for each in type(self).__mro__:
                if each.__dict__.get(name) is method:
                    setattr(each, name, made)
        return made(self, *others)

    method.__name__ = name
    return method


@contextmanager
def stored_methods(source: Path = SOURCE) -> Iterator[None]:
    """Let what is imported meanwhile use the code stored beside a file; store what is compiled.

    Inside of another it does nothing.
    """
    if hasattr(dataclasses, EXECUTES):
        yield
        return
    generated = GeneratedMethods(source)
    theirs = getattr(dataclasses, CREATES, None)
    setattr(dataclasses, EXECUTES, generated.execute)
    setattr(typing, COMPILES, generated.compile)
    if theirs is not None:
        setattr(dataclasses, CREATES, generated.create)
    try:
        yield
    finally:
        delattr(dataclasses, EXECUTES)
        delattr(typing, COMPILES)
        if theirs is not None:
            setattr(dataclasses, CREATES, theirs)
        generated.store()


def _written(codes: Codes) -> bytes:
    """Return a file: all codes, the places of each, and how long these places are."""
    places, end = {}, len(MAGIC_NUMBER)
    for digest, code in codes.items():
        places[digest] = (end, end + len(code))
        end += len(code)
    last = marshal.dumps((places, end))
    return b"".join((MAGIC_NUMBER, *codes.values(), last, len(last).to_bytes(LENGTH_BYTES, "little")))


def _read(file: Path) -> tuple[Mapping[bytes, tuple[int, int]], Content]:
    """Return where the codes of a file are, and the file; nothing of one that is damaged."""
    with suppress(OSError, ValueError, EOFError, TypeError), file.open("rb") as opened:
        content = mmap(opened.fileno(), 0, access=ACCESS_READ)
        length = int.from_bytes(content[-LENGTH_BYTES:], "little")
        start = len(content) - LENGTH_BYTES - length
        if content[: len(MAGIC_NUMBER)] == MAGIC_NUMBER and start > 0:
            places, end = marshal.loads(content[start:-LENGTH_BYTES])  # noqa: S302 - as above
            if end == start:
                return places, content
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
