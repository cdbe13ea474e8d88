"""The table of the leader's sign of life, on the same metadata as `tables.py`."""

import sqlalchemy as sa

from api.store.tables import metadata

# When the leader last looked, in Unix seconds of the service's clock; written while a clock runs
# that is to stand still when nobody looks.
pulse = sa.Table(
    "pulse",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)
