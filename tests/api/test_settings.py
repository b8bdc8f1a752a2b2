"""Settings come from the environment, and secrets stay in them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Settings

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
