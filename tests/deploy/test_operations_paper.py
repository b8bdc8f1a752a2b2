"""What docs/operations.md prints for operators is run as printed, by a shell."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.container_engine import ROOT

pytestmark = pytest.mark.slow

TEXT = (ROOT / "docs" / "operations.md").read_text("utf-8")
PRINTED = re.findall(
    r"(?:`|^    )((?:dryserve (?:database|token|measurements)|sqlite3) [^`\n]+)", TEXT, re.MULTILINE
)
BLANKS = {"NAME": "ada", "operator|reader|worker": "operator"}
"""Words of the printed commands that stand for the reader's own."""


def ran(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DRYSERVE_DATABASE_URL": f"sqlite:///{folder}/dryserve.db"}
    (folder / "dryserve").write_text(f'#!/bin/sh\nexec {sys.executable} -m service "$@"\n')
    (folder / "dryserve").chmod(0o755)
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    for blank, word in BLANKS.items():
        command = command.replace(blank, word)
    return subprocess.run(  # noqa: S602 - printed for a shell
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def printed(start: str) -> str:
    (found,) = {str(each).partition("  #")[0].rstrip() for each in PRINTED if each.startswith(start)}
    return found


def test_tables_are_made_checked_and_copied(tmp_path: Path) -> None:
    made = ran(printed("dryserve database upgrade"), tmp_path)
    assert made.returncode == 0, made.stderr
    assert ran(printed("dryserve database check"), tmp_path).returncode == 0
    token = ran(printed("dryserve token create"), tmp_path)
    assert (token.returncode, len(token.stdout.strip()) >= 32) == (0, True), token.stderr
    listed = ran(printed("dryserve token list"), tmp_path)
    assert (listed.returncode, "ada" in listed.stdout, "operator" in listed.stdout) == (0, True, True)
    exported, imported = re.findall(r"dryserve measurements \w+[^`]*", TEXT)[:2]
    assert ran(exported, tmp_path).returncode == 0
    assert ran(f"{imported} measurements.ndjson", tmp_path).returncode == 0
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed: the copy of the database was not made")
    assert ran(printed("sqlite3"), tmp_path).returncode == 0
    (tmp_path / "copy.db").replace(tmp_path / "dryserve.db")
    assert ran(printed("dryserve token list"), tmp_path).stdout == listed.stdout


def test_exit_codes_are_as_printed(tmp_path: Path) -> None:
    check = printed("dryserve database check")
    codes = dict(re.findall(r"(\d): (the tables suit|they do not|the database cannot be used)", TEXT))
    assert codes.keys() == {"0", "3", "2"}
    assert ran(check, tmp_path).returncode == 3
    (tmp_path / "dryserve.db").write_text("this is no database, and it is long enough to be read as one" * 20)
    assert ran(check, tmp_path).returncode == 2
