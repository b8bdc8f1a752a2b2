"""The definitions of the tables for queries. Migrations create the tables."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA: Final = MetaData()

JOBS: Final = Table(
    "jobs",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("idempotency_key", String(255)),
    Column("request_digest", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("gpu_name", String(128)),
    Column("gpu_uuid", String(64)),
    Column("label", String(64)),
    Column("engine_release", String(32)),
    Column("gpus", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("worker", String(64)),
    Column("attempts", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("phase", String(64), nullable=False),
    Column("result", Text),
    Column("result_digest", String(64)),
    Column("reason", Text),
    UniqueConstraint("idempotency_key", name="jobs_idempotency_key"),
    Index("jobs_by_state", "state", "created_at"),
    Index("jobs_by_expiry", "state", "expires_at"),
)

SCHEMA_COMPATIBILITY: Final = Table(
    "schema_compatibility",
    METADATA,
    Column("oldest_program", String(32), nullable=False),
)

MEASUREMENTS: Final = Table(
    "measurements",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("key", String(64), nullable=False),
    Column("job_id", String(32)),
    Column("measured_at", Double, nullable=False),
    Column("stored_at", Double, nullable=False),
    Column("document", Text, nullable=False),
    UniqueConstraint("job_id", name="measurements_job_id"),
    Index("measurements_by_time", "stored_at", "digest"),
)

TOKENS: Final = Table(
    "tokens",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("secret_digest", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
    Column("expires_at", Double),
    Column("last_used_at", Double),
)
