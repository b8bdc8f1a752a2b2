"""Settings come from the environment, and secrets stay in them."""

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


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
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
