"""Expands: when a token expires, and when it was last used."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"


def upgrade() -> None:
    """Add two columns; programs of earlier revisions use neither, and so accept expired tokens."""
    op.add_column("tokens", sa.Column("expires_at", sa.Double))
    op.add_column("tokens", sa.Column("last_used_at", sa.Double))


def downgrade() -> None:
    """Drop both."""
    op.drop_column("tokens", "last_used_at")
    op.drop_column("tokens", "expires_at")
