"""`dryserve database`, and what commands say when the database cannot be used: one line, and an exit code."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import cli
from service.store.schema import HEAD

URL = "DRYSERVE_DATABASE_URL"


def run(monkeypatch: pytest.MonkeyPatch, url: str, *words: str) -> tuple[int, str]:
    monkeypatch.setenv(URL, url)
    done = CliRunner().invoke(cli, words)
    return done.exit_code, done.output


def test_tables_are_checked_and_upgraded(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    code, said = run(monkeypatch, database_url, "database", "check")
    assert (code, f"no tables; this program needs revision {HEAD}" in said) == (3, True)
    for words in (("database", "upgrade"), ("database", "check")):
        code, said = run(monkeypatch, database_url, *words)
        assert (code, said) == (0, f"The database has tables of revision {HEAD}, as this program needs.\n")


def test_checking_makes_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, f"sqlite:///{tmp_path}/sub/x.db", "database", "check")[0] == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("database", "check"), ("token", "list"), ("measurements", "export")])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgres://someone:secret@127.0.0.1:1/x?sslmode=require", "The database cannot be used: "),
        ("mysql://someone:secret@host/x", "DRYSERVE_DATABASE_URL: "),
        ("nonsense:secret", "DRYSERVE_DATABASE_URL: "),
    ],
)
def test_what_cannot_be_used_is_one_line(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], url: str, said: str
) -> None:
    code, output = run(monkeypatch, url, *words)
    assert code == 2
    assert output.startswith(said)
    assert output.count("\n") == 1
    assert "secret" not in output
