"""`dryserve database`, and what commands say when the database cannot be used: one line, and an exit code."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import cli
from service.store.database_url import check_url, shown_address
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
        end = f": The database has tables of revision {HEAD}, as this program needs.\n"
        assert (code, said.endswith(end), said.count("\n")) == (0, True, 1)


def test_checking_names_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative file is named by its whole path: which one it is depends on the folder."""
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "sqlite:///x.db", "database", "check")[1].startswith(
        f"sqlite:///{tmp_path}/x.db: "
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ada:secret@host:6432/x?sslmode=require", "postgresql://ada@host:6432/x"),
        ("postgresql://host/x?user=ada&password=secret", "postgresql://host/x"),
        ("postgresql:///x?host=/run/postgresql&password=secret", "postgresql:///x?host=%2Frun%2Fpostgresql"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, shown: str) -> None:
    assert shown_address(check_url(url)) == shown


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
