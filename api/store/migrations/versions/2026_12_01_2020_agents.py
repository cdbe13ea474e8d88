"""Tails of logs that people wait for."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2020"
down_revision = "2026_12_01_2010"

Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """A table that the program of the old schema does not know."""
    op.create_table(
        "log_requests",
        sa.Column("id", Revision, autoincrement=False, nullable=False),
        sa.Column("node", Name, nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("process", sa.Integer(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("tail_bytes", sa.Integer(), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.Column("answered_at", sa.Double(), nullable=True),
        sa.Column("problem", sa.Text(), server_default="", nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node"], ["nodes.name"], name=op.f("fk_log_requests_node_nodes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_requests")),
    )
    op.create_index("ix_log_requests_node", "log_requests", ["node"])


def downgrade() -> None:
    op.drop_table("log_requests")
