"""Addresses of databases, as people write them and as managed PostgreSQL prints them."""

from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.store.errors import InvalidDatabase

DRIVERS: Final = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
FORMS: Final = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
SHORT_SCHEME: Final = "postgres:"
"""Scheme that libpq accepts beside `postgresql:`, and that several providers print."""
PLACES: Final = frozenset({"host", "port"})
"""Parameters that say where a server is, such as the folder of its socket."""
UNSUPPORTED: Final = (
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "fallback_application_name",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "require_auth",
    "sslcertmode",
    "sslcompression",
    "sslsni",
    "tcp_user_timeout",
)
"""Parameters of libpq that the driver does not know. It would send them to the server, which refuses them."""


def check_url(url: str) -> URL:
    """Return the parsed URL of a database, with the driver that is used for it.

    Raises:
        InvalidDatabase: it is not a URL, or names another kind of database. No message repeats the URL, which
            may hold a password.
    """
    if url.startswith(SHORT_SCHEME):
        url = f"postgresql:{url.removeprefix(SHORT_SCHEME)}"
    try:
        parsed = make_url(url)
        driver = DRIVERS.get(parsed.get_backend_name())
    except (ArgumentError, ValueError):
        raise InvalidDatabase(f"it is not the URL of a database such as {FORMS}") from None
    if driver is None:
        raise InvalidDatabase(f"it names a {parsed.get_backend_name()} database; give {FORMS}")
    return parsed.set(drivername=driver)


def shown_address(url: URL) -> str:
    """Return where a database is, for people: neither its password nor parameters, which may hold one."""
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        url = url.set(database=str(Path(url.database).absolute()))
    return URL.create(
        url.get_backend_name(),
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query={name: value for name, value in url.query.items() if name in PLACES},
    ).render_as_string()


def driver_address(url: URL) -> str:
    """Return the address of a PostgreSQL database for its driver.

    The driver reads `sslmode`, `sslrootcert`, `target_session_attrs` and the like itself.
    """
    plain = url.set(drivername="postgresql").difference_update_query(UNSUPPORTED)
    return plain.render_as_string(hide_password=False)
