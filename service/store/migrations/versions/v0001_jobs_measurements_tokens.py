"""Creates the tables of jobs, measurements and tokens."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("gpu_name", sa.String(128)),
        sa.Column("gpu_uuid", sa.String(64)),
        sa.Column("label", sa.String(64)),
        sa.Column("engine_release", sa.String(32)),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("worker", sa.String(64)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("phase", sa.String(64), nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("result_digest", sa.String(64)),
        sa.UniqueConstraint("idempotency_key", name="jobs_idempotency_key"),
    )
    op.create_index("jobs_by_state", "jobs", ["state", "created_at"])
    op.create_index("jobs_by_expiry", "jobs", ["state", "expires_at"])
    op.create_table(
        "measurements",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(32)),
        sa.Column("measured_at", sa.Double, nullable=False),
        sa.Column("stored_at", sa.Double, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.UniqueConstraint("job_id", name="measurements_job_id"),
    )
    op.create_index("measurements_by_time", "measurements", ["stored_at", "digest"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("secret_digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
    )


def downgrade() -> None:
    """Drop these tables."""
    for table in ("tokens", "measurements", "jobs"):
        op.drop_table(table)
