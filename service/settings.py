"""Settings from environment variables. No other module reads the environment."""

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
"""Path below the user's home. The file is created when there is something to store."""
IN_MEMORY: Final = Path(":memory:")


def _cache_name(endpoint: str) -> str:
    # Each Hub or mirror has its own cache file, since two mirrors may answer differently for the same commit.
    if endpoint.rstrip("/") == PUBLIC_ENDPOINT:
        return "hub.sqlite3"
    return f"hub-{sha256(endpoint.encode()).hexdigest()[:12]}.sqlite3"


class Settings(BaseSettings):
    """Settings from the variables `DRYSERVE_*` and from those that the Hub's own tools read."""

    model_config = SettingsConfigDict(
        env_prefix="DRYSERVE_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    max_connections: Annotated[int, Field(ge=16, le=1_000_000)] = 4096
    """Most open connections, if the limit of open files allows it; above it only operators' routes work."""
    plan_queue_limit: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Large plan requests (for more than eight GPU types) that may wait, by default 64; more are rejected."""
    open_reads: bool | None = None
    """Whether callers on the service's own host may read probes and measurements without a token.

    By default they may if the service listens on loopback only. Behind a proxy on the same host every caller
    may appear to be local: set it to 0 there.
    """
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins whose web pages may call the API (CORS), separated by commas; none by default."""
    database_url: str = Field(default_factory=lambda: f"sqlite:///{Path.home() / DATABASE}")
    """Database of probes and measurements: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``."""
    probe_lease_seconds: Annotated[float, Field(ge=1, le=3600)] = LEASE_SECONDS
    """Duration of a lease in seconds: a job without a heartbeat for so long is given to another worker."""
    probe_queue_limit: Annotated[int, Field(ge=1, le=1_000_000)] = QUEUE_LIMIT
    """Jobs that may wait for a worker; more are rejected."""
    probe_retention_days: Annotated[float, Field(ge=0, le=36_500)] = 90
    """Days after which an ended job is deleted; 0 deletes none. Measurements are never deleted."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    hf_endpoint: str = Field(default=PUBLIC_ENDPOINT, validation_alias=AliasChoices("HF_ENDPOINT"))
    hf_token: SecretStr | None = Field(default=None, validation_alias=AliasChoices("HF_TOKEN"))
    hf_home: Path | None = Field(default=None, validation_alias=AliasChoices("HF_HOME"))
    hf_hub_disable_implicit_token: bool = Field(
        default=False, validation_alias=AliasChoices("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    )
    xdg_cache_home: Path = Field(default=Path("~/.cache"), validation_alias=AliasChoices("XDG_CACHE_HOME"))
    cache: Path | None = None
    """File of the cache for the Hub's responses, or `:memory:`; by default a file in `HF_HOME`."""
    hub_storage_hosts: Annotated[tuple[str, ...], NoDecode] = STORAGE_HOSTS
    """Domains to which the Hub may redirect for large files, separated by commas; no token is sent there."""
    hf_hub_offline: bool = Field(default=False, validation_alias=AliasChoices("HF_HUB_OFFLINE"))

    @property
    def cache_file(self) -> Path | None:
        """File of the cache for the Hub's responses; None for a cache in memory."""
        if self.cache == IN_MEMORY:
            return None
        try:
            return self.cache or (self._home / "dryserve" / _cache_name(self.hf_endpoint)).expanduser()
        except RuntimeError:  # the user has no home folder
            return None

    @property
    def hub_token(self) -> str | None:
        """The service's own token: `HF_TOKEN`, else the token that `hf auth login` stored in `HF_HOME`.

        The token in the default folder of `hf auth login` is never used: otherwise users of the service would
        see models that only the user who runs it may see.
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
    def _split(cls, given: Any) -> Any:  # noqa: ANN401 - any value of a variable
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        return given

    @field_validator("hf_endpoint", mode="before")
    @classmethod
    def _public_if_empty(cls, given: Any) -> Any:  # noqa: ANN401 - any value of a variable
        return given or PUBLIC_ENDPOINT

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, given: Any) -> Any:  # noqa: ANN401 - any value of a variable
        return given.lower() if isinstance(given, str) else given
