"""Settings from environment variables. No other module reads the environment."""

import ast
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from service.hub.transport.endpoint import PUBLIC_ENDPOINT, Endpoint
from service.hub.transport.redirects import STORAGE_HOSTS
from service.nearest_names import nearest, quoted
from service.probes.limits import LEASE_SECONDS, MAX_ATTEMPTS, QUEUE_LIMIT
from service.store.limits import POOL_SIZE, TIMEOUT_SECONDS
from service.store.sqlite_file import plain_file

DATABASE: Final = ".local/share/dryserve/dryserve.db"
"""Path below the user's home. The file is created when there is something to store."""
IN_MEMORY: Final = Path(":memory:")
PREFIX: Final = "DRYSERVE_"
_SECRET: Final = frozenset({"database_url", "hf_token"})
"""Settings whose values may hold a password or a token, and are never shown."""
_PREFIX: Final = re.compile(r"(/[\w.~-]+)+/?", re.ASCII)
_ORIGIN: Final = re.compile(r"\*|https?://[^/?#\s]+")


def _default_database() -> str:
    return f"sqlite:///{Path.home() / DATABASE}"


def _cache_name(endpoint: str) -> str:
    # Each Hub or mirror has its own cache file, since two mirrors may answer differently for the same commit.
    if endpoint.rstrip("/") == PUBLIC_ENDPOINT:
        return "hub.sqlite3"
    return f"hub-{sha256(endpoint.encode()).hexdigest()[:12]}.sqlite3"


class Settings(BaseModel):
    """Settings from the variables `DRYSERVE_*` and from those that the Hub's own tools read.

    A variable's name may be in capitals or not, and an empty one says nothing. Those that are given stand in
    the place of the environment's.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, validate_default=True, defer_build=True)

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 and :: are all of the host's addresses."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that serve; each uses one core, and has its own caches in memory."""
    max_connections: Annotated[int, Field(ge=16, le=1_000_000)] = 4096
    """Most open connections, if the limit of open files allows it; above it only operators' routes work."""
    keep_alive_seconds: Annotated[int, Field(ge=1, le=3600)] = 75
    """Seconds that an idle connection stays open after a request; should exceed the load balancer's own."""
    stop_seconds: Annotated[int, Field(ge=4, le=3600)] = 9
    """Seconds in which the service ends after SIGTERM; what is being answered has all but the last three.

    Docker kills after 10, Kubernetes after 30 with `preStop`: this must be less.
    """
    admin_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port on which only probes and metrics are answered, and `/metrics` nowhere else; none by default."""
    root_path: str = ""
    """Prefix of all paths behind a proxy, such as `/dryserve`; the proxy may leave it or take it off."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    plan_queue_limit: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Large plan requests (about a second of one core) that may wait, by default 64; more are rejected."""
    plan_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60
    """Seconds of processor time that one request may take, and seconds that it may wait for its turn."""
    open_reads: bool | None = None
    """Whether callers on the service's own host may read probes and measurements without a token.

    By default they may if the service listens on loopback only. Behind a proxy on the same host every caller
    may appear to be local: set it to 0 there.
    """
    tokens_file: Path | None = None
    """File that declares tokens, such as a mounted Secret: lines of name, scope, token and last day."""
    share_hub_token: bool | None = None
    """Whether what `HF_TOKEN` opens is shown to callers who send no token of the Hub.

    By default it is if the service listens on loopback only.
    """
    cors_origins: tuple[str, ...] = ()
    """Origins whose web pages may call the API (CORS), separated by commas; none by default."""
    database_url: str = Field(default_factory=_default_database)
    """Database of probes and measurements: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`."""
    database_pool_size: Annotated[int, Field(ge=1, le=1000)] = POOL_SIZE
    """Most connections of one replica to PostgreSQL; all replicas together must fit the server's limit."""
    database_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = TIMEOUT_SECONDS
    """Seconds that PostgreSQL may take to connect or to answer a statement; after that the answer is 503."""
    database_upgrade: bool = True
    """Whether the service upgrades older tables itself; with 0 only `dryserve database upgrade` does."""
    probe_lease_seconds: Annotated[float, Field(ge=1, le=3600)] = LEASE_SECONDS
    """Duration of a lease in seconds: a job without a heartbeat for so long is given to another worker."""
    probe_attempts: Annotated[int, Field(ge=1, le=100)] = MAX_ATTEMPTS
    """Leases of a job that may end without a heartbeat before it is given up; the job then says why."""
    probe_queue_limit: Annotated[int, Field(ge=1, le=1_000_000)] = QUEUE_LIMIT
    """Jobs that may wait for a worker; more are rejected."""
    probe_retention_days: Annotated[float, Field(ge=0, le=36_500)] = 90
    """Days after which an ended job is deleted; 0 deletes none. Measurements are never deleted."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the lines that are logged."""
    prices: Path | None = None
    """File of GPU prices in the form of SkyPilot's catalog (`vms.csv`); they come before the bundled ones."""
    cache: Path | None = None
    """File of the cache for the Hub's responses, or `:memory:`; by default a file in `HF_HOME`."""
    hub_storage_hosts: tuple[str, ...] = STORAGE_HOSTS
    """Domains to which the Hub may redirect for large files, separated by commas; no token is sent there."""
    otel_endpoint: str | None = Field(
        default=None, validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT")
    )
    """Address to which traces are sent by OTLP over HTTP, with `dryserve[otel]`; none by default."""
    hf_endpoint: str = Field(default=PUBLIC_ENDPOINT, validation_alias=AliasChoices("HF_ENDPOINT"))
    """Address of the Hub or of a mirror."""
    hf_hub_offline: bool = Field(default=False, validation_alias=AliasChoices("HF_HUB_OFFLINE"))
    """Whether the Hub is never asked: models are then those that are stored or bundled."""
    hf_token: SecretStr | None = Field(default=None, validation_alias=AliasChoices("HF_TOKEN"))
    """The service's own token of the Hub, for gated and private models."""
    hf_home: Path | None = Field(default=None, validation_alias=AliasChoices("HF_HOME"))
    """Folder of the Hub's tools, with the cache, and with the token of `hf auth login`."""
    hf_hub_disable_implicit_token: bool = Field(
        default=False, validation_alias=AliasChoices("HF_HUB_DISABLE_IMPLICIT_TOKEN")
    )
    """Whether the token in `HF_HOME` is left unread."""
    xdg_cache_home: Path = Field(default=Path("~/.cache"), validation_alias=AliasChoices("XDG_CACHE_HOME"))
    """Folder of caches, used where `HF_HOME` is not set."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - checked by the model
        super().__init__(**{**_environment(), **given})

    @property
    def of_one_process(self) -> "Settings":
        """These settings for one of several processes: limits of a replica are shared out among them."""
        shared = {"max_connections": self.max_connections, "database_pool_size": self.database_pool_size}
        return self.model_copy(update={name: max(1, limit // self.workers) for name, limit in shared.items()})

    @property
    def database_file(self) -> Path | None:
        """File of a database of SQLite; None where the address names another, or has parameters."""
        return plain_file(self.database_url)

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
    def without_hub_token(self) -> "Settings":
        """These settings without the service's own token of the Hub."""
        return self.model_copy(update={"hf_token": None, "hf_hub_disable_implicit_token": True})

    @property
    def _home(self) -> Path:
        return self.hf_home or self.xdg_cache_home / "huggingface"

    @field_validator("cors_origins", "hub_storage_hosts", "trusted_proxies", mode="before")
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

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for origin in given:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{quoted(origin)} is no origin such as https://example.org, without a path")
        return given

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            try:
                ip_network(each, strict=False)
            except ValueError:
                raise ValueError(f"{quoted(each)} is no address or network such as 10.0.0.0/8") from None
        return given

    @field_validator("root_path")
    @classmethod
    def _is_prefix(cls, given: str) -> str:
        if given and not _PREFIX.fullmatch(given):
            raise ValueError(f"{quoted(given)} is no prefix such as /dryserve")
        return given.rstrip("/")

    @field_validator("hf_endpoint")
    @classmethod
    def _is_address(cls, given: str) -> str:
        Endpoint(given)
        return given

    @field_validator("database_url")
    @classmethod
    def _is_database(cls, given: str) -> str:
        if given != _default_database():
            from service.store.database_url import check_url  # noqa: PLC0415 - slow to import

            check_url(given)
        return given


class InvalidSettings(ValueError):
    """Environment variables hold values that are no settings; the message has one line for each."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting for people."""

    name: str
    """Name of the environment variable."""
    default: str
    """Its value where the variable is not set, as text; empty for none."""
    meaning: str


def read_settings(given: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of this process's environment; ``given`` ones by name stand in their place.

    Raises:
        InvalidSettings: a variable has a value that is no such setting.
    """
    try:
        return Settings(**given or {})
    except ValidationError as error:
        lines = (_line(each) for each in error.errors(include_url=False))
        raise InvalidSettings("\n".join(dict.fromkeys(lines))) from None


def unknown_variables(environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a sentence for each variable of ours that is no setting, by default of this process."""
    known = list(map(_variable, Settings.model_fields))
    for name in sorted(os.environ if environment is None else environment):
        if name.startswith(PREFIX) and name not in known:
            hint = "".join(f"; the nearest is {near}" for near in nearest(name, known, count=1))
            yield f"{name} is not a setting{hint}"


def settings_table() -> tuple[Setting, ...]:
    """Return every setting with its default and its meaning."""
    meanings = _docstrings()
    return tuple(
        Setting(_variable(name), _default(name, field), meanings[name])
        for name, field in Settings.model_fields.items()
    )


def _environment() -> dict[str, str]:
    """Return what the environment says of each setting, by the name that the model reads."""
    found = {name.upper(): text for name, text in os.environ.items() if text}
    variables = ((name, _variable(name)) for name in Settings.model_fields)
    return {
        name if variable.startswith(PREFIX) else variable: found[variable]
        for name, variable in variables
        if variable in found
    }


def _docstrings() -> dict[str, str]:
    """Return the text below each setting. Only a help shows it, and reading it takes longer than the rest."""
    (settings,) = ast.parse(inspect.getsource(Settings)).body
    found = {}
    for field, text in pairwise(getattr(settings, "body", [])):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
    return found


def _variable(name: str) -> str:
    alias = Settings.model_fields[name].validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"{PREFIX}{name.upper()}"


def _default(name: str, field: FieldInfo) -> str:
    if name == "database_url":
        return f"sqlite:///~/{DATABASE}"
    value = field.default
    if value is None or value == ():
        return ""
    if isinstance(value, bool | float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _line(error: ErrorDetails) -> str:
    given = str(error["loc"][0])
    name = next((field for field in Settings.model_fields if given in {field, _variable(field)}), given)
    shown = "the value" if name in _SECRET else quoted(str(error["input"]))
    return f"{_variable(name)}: {_fault(error, shown, Settings.model_fields[name])}"


def _fault(error: ErrorDetails, shown: str, field: FieldInfo) -> str:
    kind, limits = error["type"], error.get("ctx", {})
    if kind in _KINDS:
        return f"{shown} is not {_KINDS[kind]}"
    if kind in {"greater_than_equal", "less_than_equal"}:
        low, high = _limits(field)
        return f"{shown} is not from {low:,} to {high:,}"
    if kind == "literal_error":
        return f"{shown} is not {limits['expected']}"
    return str(limits.get("error", error["msg"]))


def _limits(field: FieldInfo) -> tuple[int, int]:
    """Return the least and the largest value that a number may have."""
    inside = (part for each in get_args(field.annotation) for part in getattr(each, "__metadata__", ()))
    return _bounds([*field.metadata, *inside])


def _bounds(metadata: Iterable[Any]) -> tuple[int, int]:
    parts = [inner for part in metadata for inner in getattr(part, "metadata", [part])]
    low = next(part.ge for part in parts if hasattr(part, "ge"))
    high = next(part.le for part in parts if hasattr(part, "le"))
    return low, high


_KINDS: Final[Mapping[str, str]] = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_parsing": "1 (yes) or 0 (no)",
}
"""What a value had to be, by the type of Pydantic's error."""
