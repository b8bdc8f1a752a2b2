"""Settings come from the environment, and secrets stay in them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import InvalidSettings, Settings, read_settings, settings_table, unknown_variables

NAMES = (
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HF_HUB_OFFLINE",
    "DRYSERVE_HOST",
    "DRYSERVE_PORT",
    "DRYSERVE_CORS_ORIGINS",
    "DRYSERVE_LOG_LEVEL",
)
ALSO = (
    "HF_HOME",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
    "XDG_CACHE_HOME",
    "DRYSERVE_CACHE",
    "DRYSERVE_HUB_STORAGE_HOSTS",
)


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *ALSO):
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_local_and_closed() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.cors_origins) == ("127.0.0.1", 8000, ())
    assert (settings.hf_endpoint, settings.hf_token, settings.hf_hub_offline) == (
        "https://huggingface.co",
        None,
        False,
    )


def test_everything_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(
        NAMES,
        ("http://hub.test", "hf_x", "1", "0.0.0.0", "9", "https://a.test, https://b.test", "DEBUG"),  # noqa: S104
        strict=True,
    ):
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.cors_origins == ("https://a.test", "https://b.test")
    assert (settings.hf_endpoint, settings.hf_hub_offline) == ("http://hub.test", True)
    assert (settings.host, settings.port, settings.log_level) == ("0.0.0.0", 9, "debug")  # noqa: S104
    assert settings.hf_token is not None
    assert settings.hf_token.get_secret_value() == "hf_x"
    assert "hf_x" not in repr(settings)


def test_an_empty_endpoint_is_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert Settings().hf_endpoint == "https://huggingface.co"


def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYSERVE_PORT", "70000")
    with pytest.raises(ValidationError):
        Settings()


def test_answers_of_the_hub_are_kept_in_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert Settings().cache_file == Path("/home/someone/.cache/huggingface/dryserve/hub.sqlite3")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert Settings().cache_file == Path("/var/cache/huggingface/dryserve/hub.sqlite3")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert Settings().cache_file == tmp_path / "dryserve" / "hub.sqlite3"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.test")
    mirrored = Settings().cache_file
    assert mirrored is not None
    assert (mirrored.parent, mirrored.name != "hub.sqlite3") == (tmp_path / "dryserve", True)
    monkeypatch.setenv("DRYSERVE_CACHE", str(tmp_path / "own.sqlite3"))
    assert Settings().cache_file == tmp_path / "own.sqlite3"
    monkeypatch.setenv("DRYSERVE_CACHE", ":memory:")
    assert Settings().cache_file is None


def test_only_a_home_that_is_named_gives_its_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_left_there\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent))
    assert Settings().hub_token is None
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert Settings().hub_token == "hf_left_there"  # noqa: S105 - made up
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    assert Settings().hub_token is None
    monkeypatch.setenv("HF_TOKEN", "hf_given")
    assert Settings().hub_token == "hf_given"  # noqa: S105 - made up
    monkeypatch.setenv("DRYSERVE_HUB_STORAGE_HOSTS", "store.test, other.test:8443")
    assert Settings().hub_storage_hosts == ("store.test", "other.test:8443")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "DRYSERVE_PORT"):
        monkeypatch.setenv(name, "")

    settings = Settings()
    assert (settings.port, settings.hf_token, settings.hf_hub_offline) == (8000, None, False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DRYSERVE_PORT", "abc", "'abc' is not a whole number"),
        ("DRYSERVE_PORT", "99999", "'99999' is not from 0 to 65,535"),
        ("DRYSERVE_LOG_LEVEL", "loud", "'loud' is not 'debug', 'info', 'warning' or 'error'"),
        ("DRYSERVE_PROBE_LEASE_SECONDS", "-5", "'-5' is not from 1 to 3,600"),
        ("DRYSERVE_PROBE_QUEUE_LIMIT", "many", "'many' is not a whole number"),
        ("DRYSERVE_PROBE_RETENTION_DAYS", "x", "'x' is not a number"),
        ("DRYSERVE_PLAN_QUEUE_LIMIT", "0", "'0' is not from 1 to 100,000"),
        ("DRYSERVE_OPEN_READS", "perhaps", "'perhaps' is not 1 (yes) or 0 (no)"),
        ("DRYSERVE_CORS_ORIGINS", "https://a.test, foo", "'foo' is no origin"),
        ("DRYSERVE_CORS_ORIGINS", "http://a/", "'http://a/' is no origin"),
        ("DRYSERVE_DATABASE_URL", "foo", "not the URL of a database"),
        ("DRYSERVE_DATABASE_URL", "mysql://me:secret@host/x", "names a mysql database"),
        ("HF_ENDPOINT", "notaurl", "http(s) address"),
        ("HF_HUB_OFFLINE", "maybe", "'maybe' is not 1 (yes) or 0 (no)"),
    ],
)
def test_a_bad_setting_is_one_line_that_names_its_variable(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings) as caught:
        read_settings()
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{name}: ")
    assert said in line
    assert "secret" not in line


def test_every_bad_setting_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYSERVE_PORT", "abc")
    monkeypatch.setenv("HF_HUB_OFFLINE", "maybe")
    with pytest.raises(InvalidSettings) as caught:
        read_settings()
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "DRYSERVE_PORT",
        "HF_HUB_OFFLINE",
    ]


def test_a_variable_of_ours_that_is_no_setting_is_named_with_its_nearest() -> None:
    environment = {"DRYSERVE_POTR": "1", "DRYSERVE_PORT": "1", "PATH": "/bin", "HF_HUB_OFLINE": "1"}
    assert list(unknown_variables(environment)) == [
        "DRYSERVE_POTR is not a setting; the nearest is DRYSERVE_PORT"
    ]


def test_every_setting_has_a_meaning_and_the_page_of_operations_shows_them_all() -> None:
    """A row for each setting, with the code's own words."""
    rows = [f"| `{each.name}` | {each.default} | {each.meaning} |" for each in settings_table()]
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    section = page.partition("## Settings")[2].partition("\n## ")[0]

    assert all(each.meaning for each in settings_table())
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows
