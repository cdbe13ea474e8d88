"""What jobs have saved, whom they want told, and the outbox of what is to be told."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_1800"
down_revision = "2026_12_01_1700"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_OPEN = sa.text("state = 'pending'")


def upgrade() -> None:
    """New tables, and columns that the program of the old schema leaves at NULL."""
    op.add_column("jobs", sa.Column("hooks", sa.Text(), nullable=True))
    op.add_column("facts", sa.Column("request_id", sa.Text(), nullable=True))
    op.create_table(
        "checkpoints",
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), server_default="", nullable=False),
        sa.Column("nodes", sa.Text(), server_default="[]", nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint("step >= 0", name=op.f("ck_checkpoints_step_sign")),
        sa.ForeignKeyConstraint(
            ["job_uid"],
            ["jobs.uid"],
            name=op.f("fk_checkpoints_job_uid_jobs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_uid", "revision", name=op.f("pk_checkpoints")),
    )
    _create_deliveries()


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("number", Revision, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("lane", Name, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("grace_s", sa.Double(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=True),
        sa.Column("done_at", sa.Double(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint(
            "state IN ('pending', 'delivered', 'dead', 'withdrawn')",
            name=op.f("ck_deliveries_state"),
        ),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_deliveries_attempts")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("id", name=op.f("uq_deliveries_id")),
    )
    op.create_index(op.f("ix_deliveries_job_uid"), "deliveries", ["job_uid"], unique=False)
    op.create_index(
        "ix_deliveries_open",
        "deliveries",
        ["lane", "number"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("checkpoints")
    op.drop_column("facts", "request_id")
    op.drop_column("jobs", "hooks")
