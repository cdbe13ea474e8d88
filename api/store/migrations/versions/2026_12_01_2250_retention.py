"""Jobs that ended long ago are found by when they ended."""

from alembic import op

revision = "2026_12_01_2250"
down_revision = "2026_12_01_2213"


def upgrade() -> None:
    """An index; the old program does not ask for it."""
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at"])


def downgrade() -> None:
    """Without it."""
    op.drop_index("ix_jobs_finished_at", table_name="jobs")
