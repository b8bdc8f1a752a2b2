"""What the environment says. Nothing else reads it."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.hub.client import PUBLIC_ENDPOINT
from service.probe.life import LEASE_SECONDS

DATABASE: Final = ".local/share/dryserve/dryserve.db"
"""Below the home of whoever runs the service; nothing is made there before there is something to keep."""


class Settings(BaseSettings):
    """Settings, from `DRYSERVE_*` and from the variables that the Hub's own tools read."""

    model_config = SettingsConfigDict(env_prefix="DRYSERVE_", extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins of web pages that may ask, separated by commas; none by default."""
    database_url: str = Field(default_factory=lambda: f"sqlite:///{Path.home() / DATABASE}")
    """Of probes and measurements: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``."""
    probe_lease_seconds: Annotated[float, Field(ge=1, le=3600)] = LEASE_SECONDS
    """After so long without a word from its worker a job is another worker's."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    hf_endpoint: str = Field(default=PUBLIC_ENDPOINT, validation_alias=AliasChoices("HF_ENDPOINT"))
    hf_token: SecretStr | None = Field(default=None, validation_alias=AliasChoices("HF_TOKEN"))
    hf_hub_offline: bool = Field(default=False, validation_alias=AliasChoices("HF_HUB_OFFLINE"))

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the environment holds
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        return given

    @field_validator("hf_endpoint", mode="before")
    @classmethod
    def _public_if_empty(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the environment holds
        return given or PUBLIC_ENDPOINT

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the environment holds
        return given.lower() if isinstance(given, str) else given
