"""Reads the revision of a database's tables, and upgrades them."""

from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from service.store.schema import FIRST, MIGRATIONS, Fitness, Schema
from service.store.tables import SCHEMA_COMPATIBILITY

LOCK: Final = 0x64727973
"""Advisory lock in PostgreSQL: replicas that start at the same time migrate one after another."""
_VERSION: Final = Table("alembic_version", MetaData(), Column("version_num", String(32)))


def read_schema(connection: Connection) -> Schema:
    """Return the revision of a database's tables; nothing is changed."""
    tables = inspect(connection)
    if not tables.has_table(_VERSION.name):
        return Schema(None)
    revision = connection.scalar(select(_VERSION.c.version_num))
    if not tables.has_table(SCHEMA_COMPATIBILITY.name):
        return Schema(revision)
    return Schema(revision, connection.scalar(select(SCHEMA_COMPATIBILITY.c.oldest_program)) or FIRST)


def upgrade_schema(connection: Connection) -> Schema:
    """Upgrade the tables to the revision that this program needs, unless they have it or a newer one.

    Raises:
        DBAPIError: a statement failed; the transaction must be rolled back.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    found = read_schema(connection)
    if found.fitness is not Fitness.OLDER:
        return found
    # Imported here because the import is slow and most processes do not need it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return read_schema(connection)
