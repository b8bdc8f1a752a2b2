"""What the environment says. Nothing else reads it."""

from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.hub.endpoint import PUBLIC_ENDPOINT
from service.hub.redirects import STORAGE_HOSTS
from service.probes.lifecycle import LEASE_SECONDS
from service.store.jobs import QUEUE_LIMIT

DATABASE: Final = ".local/share/dryserve/dryserve.db"
"""Below the home of whoever runs the service; nothing is made there before there is something to keep."""
IN_MEMORY: Final = Path(":memory:")


def _cache_name(endpoint: str) -> str:
    # One for each Hub: what a mirror says of a commit is not taken for what another says.
    if endpoint.rstrip("/") == PUBLIC_ENDPOINT:
        return "hub.sqlite3"
    return f"hub-{sha256(endpoint.encode()).hexdigest()[:12]}.sqlite3"


class Settings(BaseSettings):
    """Settings, from `DRYSERVE_*` and from the variables that the Hub's own tools read."""

    model_config = SettingsConfigDict(
        env_prefix="DRYSERVE_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    max_connections: Annotated[int, Field(ge=16, le=1_000_000)] = 4096
    """Connections at once, as far as the process may open files; beyond it only operators' routes answer."""
    plan_queue_limit: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Large requests (for more than eight GPU types) that may wait, by default 64; more are refused."""
    open_reads: bool | None = None
    """Whether callers on the service's own host read probes and measurements without a token.

    By default they do where the service listens on loopback alone. Behind a proxy on the same host everybody
    may look like such a caller: set it to 0 there.
    """
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins of web pages that may ask, separated by commas; none by default."""
    database_url: str = Field(default_factory=lambda: f"sqlite:///{Path.home() / DATABASE}")
    """Of probes and measurements: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``."""
    probe_lease_seconds: Annotated[float, Field(ge=1, le=3600)] = LEASE_SECONDS
    """After so long without a word from its worker a job is another worker's."""
    probe_queue_limit: Annotated[int, Field(ge=1, le=1_000_000)] = QUEUE_LIMIT
    """Jobs that may wait for a worker; more are refused."""
    probe_retention_days: Annotated[float, Field(ge=0, le=36_500)] = 90
    """After so long a job that has ended is forgotten, what it measured never; 0 keeps all."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    hf_endpoint: str = Field(default=PUBLIC_ENDPOINT, validation_alias=AliasChoices("HF_ENDPOINT"))
    hf_token: SecretStr | None = Field(default=None, validation_alias=AliasChoices("HF_TOKEN"))
    hf_home: Path | None = Field(default=None, validation_alias=AliasChoices("HF_HOME"))
    hf_hub_disable_implicit_token: bool = Field(
        default=False, validation_alias=AliasChoices("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    )
    xdg_cache_home: Path = Field(default=Path("~/.cache"), validation_alias=AliasChoices("XDG_CACHE_HOME"))
    cache: Path | None = None
    """File that keeps what the Hub answered, or `:memory:`; in `HF_HOME` by default."""
    hub_storage_hosts: Annotated[tuple[str, ...], NoDecode] = STORAGE_HOSTS
    """Domains to which the Hub may send for large files, without the token, separated by commas."""
    hf_hub_offline: bool = Field(default=False, validation_alias=AliasChoices("HF_HUB_OFFLINE"))

    @property
    def cache_file(self) -> Path | None:
        """The file that keeps what the Hub answered; None keeps it in memory."""
        if self.cache == IN_MEMORY:
            return None
        try:
            return self.cache or (self._home / "dryserve" / _cache_name(self.hf_endpoint)).expanduser()
        except RuntimeError:  # whoever runs this has no home
            return None

    @property
    def hub_token(self) -> str | None:
        """The service's own token: `HF_TOKEN`, or what `hf auth login` left in an `HF_HOME` that is named.

        That of the user who happens to run the service is not picked up: strangers would see what it opens.
        """
        if self.hf_token:
            return self.hf_token.get_secret_value().strip()
        if self.hf_home is None or self.hf_hub_disable_implicit_token:
            return None
        try:
            return (self.hf_home.expanduser() / "token").read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError, RuntimeError):
            return None

    @property
    def _home(self) -> Path:
        return self.hf_home or self.xdg_cache_home / "huggingface"

    @field_validator("cors_origins", "hub_storage_hosts", mode="before")
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
