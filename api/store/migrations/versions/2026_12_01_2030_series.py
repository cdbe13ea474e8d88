"""Figures over time."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2030"
down_revision = "2026_12_01_2020"


def upgrade() -> None:
    """A table that the program of the old schema does not know."""
    op.create_table(
        "series",
        sa.Column("step_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint("step_s > 0 AND at >= 0", name=op.f("ck_series_sign")),
        sa.PrimaryKeyConstraint("step_s", "at", name=op.f("pk_series")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("series")
