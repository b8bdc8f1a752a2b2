"""Runs the migrations on the connection that `service.store.database` passes in."""

from alembic import context

from service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
