"""What is stored of a TOML file is what the file says."""

import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

import pytest

from service.bundled_toml import bundled_files, read_toml

ROOT = Path(__file__).parents[1]


def stored_form(source: Path) -> Path:
    return Path(cache_from_source(f"{source}.marshal"))


@contextmanager
def package(folder: Path) -> Iterator[str]:
    module = ModuleType("a_package_of_data")
    module.__path__ = [str(folder)]
    sys.modules[module.__name__] = module
    try:
        yield module.__name__
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize("source", list(bundled_files()), ids=lambda source: source.name)
def test_each_file_is_read_as_it_is_written(source: Path) -> None:
    folder = source.parent if (source.parent / "__init__.py").exists() else source.parent.parent
    name, path = ".".join(folder.relative_to(ROOT).parts), source.relative_to(folder).as_posix()
    expected = tomllib.loads(source.read_text("utf-8"))
    assert read_toml(name, path) == expected
    assert read_toml(name, path) == expected


def test_a_file_that_changed_is_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = tmp_path / "data.toml"
    source.write_text("a = 1\n", "utf-8")
    with package(tmp_path) as name:
        assert read_toml(name, "data.toml") == {"a": 1}
        assert stored_form(source).exists()
        then = source.stat().st_mtime_ns
        source.write_text("a = 2\n", "utf-8")
        os.utime(source, ns=(then, then))
        assert read_toml(name, "data.toml") == {"a": 2}


def test_the_stored_form_serves_another_user_and_a_copy_with_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image: root stores it, a layer keeps whole seconds, and an unprivileged user reads it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = tmp_path / "data.toml"
    source.write_text("a = 1\n", "utf-8")
    source.chmod(0o644)
    with package(tmp_path) as name:
        read_toml(name, "data.toml")
        assert stored_form(source).stat().st_mode & 0o777 == 0o644
        os.utime(source, (0, 0))
        monkeypatch.setattr("tomllib.loads", lambda _: pytest.fail("parsed again"))
        assert read_toml(name, "data.toml") == {"a": 1}


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"marshal"])
def test_a_stored_form_that_is_damaged_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = tmp_path / "data.toml"
    source.write_text("a = [1, 2]\n", "utf-8")
    with package(tmp_path) as name:
        read_toml(name, "data.toml")
        stored = stored_form(source)
        whole = stored.read_bytes()
        for damaged in (content, whole[:-3]):
            stored.write_bytes(damaged)
            assert read_toml(name, "data.toml") == {"a": [1, 2]}
        assert stored.read_bytes() == whole


def test_a_date_is_parsed_each_time_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "data.toml").write_text("day = 2026-05-01\n", "utf-8")
    with package(tmp_path) as name:
        assert str(read_toml(name, "data.toml")["day"]) == "2026-05-01"
    assert not list(tmp_path.glob("__pycache__/*"))


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.toml").write_text("a = 1\n", "utf-8")
    (tmp_path / "__pycache__").write_text("a file in the place of the folder", "utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with package(tmp_path) as name:
        assert read_toml(name, "data.toml") == {"a": 1}
