"""Which errors mean that a database cannot be used now, in contrast to faults of this program."""

from typing import Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

CODES: Final = (
    "08",  # connection exception
    "25006",  # read-only transaction: the server became a standby
    "28",  # invalid authorization: an unknown role, a wrong password
    "3D000",  # the database does not exist
    "3F000",  # the schema does not exist
    "40",  # transaction rollback: a deadlock
    "42501",  # insufficient privilege
    "42703",  # undefined column: the tables have another revision
    "42P01",  # undefined table: as above
    "53",  # insufficient resources: too many connections, a full disk
    "55000",  # the database accepts no connections now
    "55P03",  # lock not available
    "57",  # operator intervention: shutdown, start, a cancelled query, a dropped database
    "58",  # system error: the disk of the server
    "XX001",  # corrupted data
    "XX002",  # corrupted index
)
"""SQLSTATE codes of PostgreSQL, or the first characters of them (appendix A of its manual)."""
CLASSES: Final = frozenset({"OperationalError", "InterfaceError", "DatabaseError"})
"""Classes of errors of the connection or the file. Errors of a statement have other classes."""
DRIVERS_OWN: Final = frozenset(
    {
        "ClientConfigurationError",
        "ConnectionDoesNotExistError",
        "InterfaceError",
        "InternalClientError",
        "ProtocolError",
        "TargetServerAttributeNotMatched",
        "UnsupportedClientFeatureError",
    }
)
"""Errors of the PostgreSQL driver that have no code: it raises them while it connects."""
REASON_LENGTH: Final = 300


def is_unusable(error: BaseException) -> bool:
    """Whether an error means that the database cannot be used now.

    A time limit that ended is an `OSError`.
    """
    if isinstance(error, OSError | PoolTimeout):
        return True
    if (code := _code(error)) is not None:
        return code.startswith(CODES)
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or type(error).__name__ in CLASSES
    # The dialect passes on what the driver raises while it connects.
    return type(error).__module__.startswith("asyncpg.") and not DRIVERS_OWN.isdisjoint(
        each.__name__ for each in type(error).__mro__
    )


def reason_of(error: BaseException) -> str:
    """Return one line that says what happened, for operators; it may name hosts and roles."""
    if isinstance(error, PoolTimeout):
        return "all connections of the pool are in use (DRYSERVE_DATABASE_POOL_SIZE)"
    if isinstance(error, TimeoutError):
        return "it did not answer in time (DRYSERVE_DATABASE_TIMEOUT_SECONDS)"
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = _code(error)
    words = " ".join(str(cause).split()) or type(cause).__name__
    if words.startswith("<class"):
        # The dialect writes the class of the driver's error before its message.
        words = words.partition(">: ")[2] or words
    return f"{words[:REASON_LENGTH]}{'' if code is None else f' (SQLSTATE {code})'}"


def _code(error: BaseException) -> str | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlstate", None)
    return code if isinstance(code, str) else None
