"""The table of figures over time, on the same metadata as `tables.py`."""

import sqlalchemy as sa

from api.store.tables import metadata

# Points of a width: at is where one begins, a multiple of step_s in Unix seconds. body: JSON,
# name -> [how many samples, their sum, the lowest, the highest].
series = sa.Table(
    "series",
    metadata,
    sa.Column("step_s", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.CheckConstraint("step_s > 0 AND at >= 0", name="sign"),
    sqlite_with_rowid=False,
)
