"""A class made with stored code is the class that `dataclasses` makes alone."""

import builtins
import dataclasses
import inspect
import marshal
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from service.generated_methods import CREATES, stored_methods
from service.stored_beside import place_beside

BEFORE = getattr(dataclasses, CREATES, None)
MADE: dict[str, Any] = {"frozen": True, "slots": True, "order": True}


def made() -> type[Any]:
    return dataclasses.make_dataclass(
        "Point", [("x", int), ("names", tuple[str, ...], dataclasses.field(default=("a",)))], **MADE
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "module.py"
    file.write_text("", "utf-8")
    file.chmod(0o644)
    return file


def test_the_second_start_compiles_nothing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stored_methods(source):
        made()
    assert place_beside(source).stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(builtins, "compile", lambda *_: pytest.fail("compiled again"))
    with stored_methods(source):
        made()


def test_a_class_of_stored_code_is_the_class_that_was_compiled(source: Path) -> None:
    compiled = made()
    for _ in range(2):
        with stored_methods(source):
            stored = made()
        assert inspect.signature(stored) == inspect.signature(compiled)
        assert repr(stored(1)) == repr(compiled(1))
        assert hash(stored(1, ("b",))) == hash(compiled(1, ("b",)))
        assert stored(1) == stored(1) != stored(2)
        assert stored(1) < stored(2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            stored(1).x = 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            del stored(1).x
        for name in ("__init__", "__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__", "__lt__"):
            codes = (getattr(each, name).__code__ for each in (compiled, stored))
            assert len({(code.co_code, code.co_names, code.co_varnames) for code in codes}) == 1


def test_another_text_is_compiled_and_stored_beside_the_first(source: Path) -> None:
    with stored_methods(source):
        made()
    before = place_beside(source).stat().st_size
    with stored_methods(source):
        other = dataclasses.make_dataclass("Other", ["alone"], frozen=True)
        assert other(3).alone == 3
    assert place_beside(source).stat().st_size > before
    with stored_methods(source):
        assert made()(4).x == 4


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"marshal"])
def test_a_damaged_file_is_not_used(source: Path, content: bytes) -> None:
    with stored_methods(source):
        made()
    stored = place_beside(source)
    stored.write_bytes(content or stored.read_bytes()[:-100])
    with stored_methods(source):
        assert made()(5).x == 5
    with stored_methods(source):
        assert made()(6).x == 6


def test_nothing_is_stored_where_python_stores_nothing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with stored_methods(source):
        assert made()(7).x == 7
    assert not place_beside(source).exists()


def test_dataclasses_is_left_as_it_was(source: Path) -> None:
    with stored_methods(source):
        pass
    assert not hasattr(dataclasses, "exec")
    assert getattr(dataclasses, CREATES, None) is BEFORE
    assert not hasattr(typing, "compile")


def test_one_inside_of_another_changes_nothing(source: Path) -> None:
    with stored_methods(source):
        outer = vars(dataclasses)["exec"]
        with stored_methods(source):
            assert vars(dataclasses)["exec"] == outer
        assert vars(dataclasses)["exec"] == outer
    assert not hasattr(dataclasses, "exec")


def test_an_annotation_is_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "dict[str, list[int | None]]"
    with stored_methods(source):
        compiled = typing.ForwardRef(text)
    monkeypatch.setattr(builtins, "compile", lambda *_: pytest.fail("compiled again"))
    with stored_methods(source):
        stored = typing.ForwardRef(text)
    assert stored == compiled
    assert eval(stored.__forward_code__) == dict[str, list[int | None]]  # noqa: S307 - the text above


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="one text has all methods of a class")
def test_a_method_is_made_when_it_is_first_called(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stored_methods(source):
        made()
    loaded: list[bytes] = []
    loads = marshal.loads

    def noted(code: bytes) -> Any:  # noqa: ANN401 - as loads
        loaded.append(code)
        return loads(code)

    with stored_methods(source):
        monkeypatch.setattr(marshal, "loads", noted)
        stored = made()
    points = stored(1), stored(1)
    assert len(loaded) == 1  # `__init__`
    assert points[0] == points[1]
    assert points[0] == points[1]
    assert len(loaded) == 2  # and `__eq__`, once


def test_what_inherits_a_method_has_it_too(source: Path) -> None:
    with stored_methods(source):
        made()
    with stored_methods(source):
        other = type("Other", (made(),), {})
    assert other(1) == other(1) != other(2)
    assert len({other(1), other(1), other(2)}) == 2


def test_a_command_answers_the_same_with_and_without_stored_code() -> None:
    """The first run of the two may compile; the second has all that the first stored, if it may store."""
    words = [sys.executable, "-m", "service", "gpus", "list"]
    answers = [
        subprocess.run([words[0], *option, *words[1:]], check=True, capture_output=True).stdout  # noqa: S603
        for option in ((), (), ("-B",))
    ]
    assert len(set(answers)) == 1
    assert answers[0]
