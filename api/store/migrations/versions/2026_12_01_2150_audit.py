"""Nodes and jobs that the audit has set aside."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2150"
down_revision = "2026_12_01_2040"

TABLES = ("nodes", "jobs")


def upgrade() -> None:
    """Columns that the program of the old schema leaves empty."""
    for table in TABLES:
        op.add_column(table, sa.Column("mismatch", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "mismatch")
