"""The head of each queue's line is found without a look at all that stands behind it."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_03_0800"
down_revision = "2026_12_02_0140"

PENDING, RECOVERY = sa.text("state = 'pending'"), sa.text("recovery IS NOT NULL")


def upgrade() -> None:
    """Two indexes: the old program writes them without knowing."""
    op.create_index(
        "ix_jobs_line",
        "jobs",
        ["queue", sa.text("priority DESC"), "age"],
        sqlite_where=PENDING,
        postgresql_where=PENDING,
    )
    op.create_index(
        "ix_jobs_recovery",
        "jobs",
        ["age"],
        sqlite_where=RECOVERY,
        postgresql_where=RECOVERY,
    )


def downgrade() -> None:
    """Without them."""
    op.drop_index("ix_jobs_recovery", "jobs")
    op.drop_index("ix_jobs_line", "jobs")
