"""What a queue states beside its plain numbers, when a pod was bound, and what was used."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_1700"
down_revision = "2026_12_01_1600"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

QUEUE_COLUMNS = ("quota_by_model", "limit_by_model", "max_pending", "closed")


def upgrade() -> None:
    """New tables, and columns that the program of the old schema leaves at their defaults."""
    op.add_column(
        "queues", sa.Column("quota_by_model", sa.Text(), server_default="{}", nullable=False)
    )
    op.add_column(
        "queues", sa.Column("limit_by_model", sa.Text(), server_default="{}", nullable=False)
    )
    op.add_column("queues", sa.Column("max_pending", sa.BigInteger(), nullable=True))
    op.add_column(
        "queues", sa.Column("closed", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    # Pods from before have no time of their own: they count from the binding of their job.
    op.add_column("pods", sa.Column("bound_at", sa.Double(), nullable=True))
    op.create_table(
        "usage",
        sa.Column("month", Name, nullable=False),
        sa.Column("queue", Name, nullable=False),
        sa.Column("namespace", Name, nullable=False),
        sa.Column("gpu", Name, nullable=False),
        sa.Column("gpu_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("gpu_ms >= 0", name=op.f("ck_usage_sign")),
        sa.PrimaryKeyConstraint("month", "queue", "namespace", "gpu", name=op.f("pk_usage")),
    )
    op.create_table(
        "usage_jobs",
        sa.Column("month", Name, nullable=False),
        sa.Column("job_uid", Name, nullable=False),
        sa.Column("gpu", Name, nullable=False),
        sa.Column("queue", Name, nullable=False),
        sa.Column("namespace", Name, nullable=False),
        sa.Column("name", Name, nullable=False),
        sa.Column("gpu_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("gpu_ms >= 0", name=op.f("ck_usage_jobs_sign")),
        sa.PrimaryKeyConstraint("month", "job_uid", "gpu", name=op.f("pk_usage_jobs")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("usage_jobs")
    op.drop_table("usage")
    op.drop_column("pods", "bound_at")
    for column in reversed(QUEUE_COLUMNS):
        op.drop_column("queues", column)
