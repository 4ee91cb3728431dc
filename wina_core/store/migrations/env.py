"""Alembic's entry point. `wina_core.store.upgrade` hands over a connection that is already in a transaction.

To change the schema: change tables.py, add versions/<next number>_<what>.py by hand, raise upgrade.HEAD. A test
checks that the migrations lead to exactly what tables.py declares.
"""

from alembic import context

from wina_core.store.tables import StoreTable
from wina_core.store.upgrade import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=StoreTable.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
