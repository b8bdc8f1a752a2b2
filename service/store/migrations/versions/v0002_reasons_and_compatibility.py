"""Expands: why a job ended without a result, and which programs can use the tables."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade() -> None:
    """Add a column and a table; programs of revision 0001 use neither."""
    op.add_column("jobs", sa.Column("reason", sa.Text))
    table = op.create_table(
        "schema_compatibility", sa.Column("oldest_program", sa.String(32), nullable=False)
    )
    op.bulk_insert(table, [{"oldest_program": "0001"}])


def downgrade() -> None:
    """Drop both."""
    op.drop_table("schema_compatibility")
    op.drop_column("jobs", "reason")
