"""How far a job's place may be from the best."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2040"
down_revision = "2026_12_01_2030"


def upgrade() -> None:
    """A column that the program of the old schema leaves empty."""
    op.add_column("jobs", sa.Column("gap", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "gap")
