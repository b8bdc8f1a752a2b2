"""Defaults of the settings of the database."""

from typing import Final

POOL_SIZE: Final = 10
"""Most connections of one process to PostgreSQL."""
TIMEOUT_SECONDS: Final = 10.0
"""How long PostgreSQL may take to connect, or to answer one statement."""
