"""What Alembic runs: the migrations, on the connection that `api.store.schema` hands over."""

from alembic import context
from sqlalchemy import Connection

from api.store import (
    tables_agents,
    tables_faults,
    tables_objects,
    tables_recovery,
    tables_security,
    tables_series,
)
from api.store.tables import metadata

AREAS = (
    tables_agents,
    tables_faults,
    tables_objects,
    tables_recovery,
    tables_security,
    tables_series,
)
"""Each puts its tables on the metadata."""


def _run(connection: Connection) -> None:
    # SQLite alters tables by copying them; Alembic's batch mode does that.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        compare_server_default=False,
        transaction_per_migration=False,
    )
    context.run_migrations()


_run(context.config.attributes["connection"])
