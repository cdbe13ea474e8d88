"""Faults, and how nodes stand because of them; what they have left of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2000"
down_revision = "2026_12_01_1900"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_OPEN = sa.text("cleared_at IS NULL")


def _columns() -> list[sa.Column[object]]:
    """Of nodes; all with a value that the program of the old schema may leave as it is."""
    return [
        sa.Column("drain_why", sa.Text(), server_default="", nullable=False),
        sa.Column("drain_by", sa.Text(), server_default="", nullable=False),
        sa.Column("health_since", sa.Double(), server_default="0", nullable=False),
        sa.Column("health_why", sa.Text(), server_default="", nullable=False),
        sa.Column("fenced", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("has_agent", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("lemon", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("quarantined_until", sa.Double(), nullable=True),
    ]


def upgrade() -> None:
    """Nodes with a lease have an agent."""
    for column in _columns():
        op.add_column("nodes", column)
    op.execute("UPDATE nodes SET has_agent = true WHERE name IN (SELECT node FROM leases)")
    op.add_column("jobs", sa.Column("recovery", sa.Text(), nullable=True))
    op.create_table(
        "faults",
        sa.Column("id", Revision, autoincrement=False, nullable=False),
        sa.Column("node", Name, nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("gpu_mask", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rail", sa.Integer(), nullable=True),
        sa.Column("set_kind", sa.Text(), server_default="", nullable=False),
        sa.Column("set_name", sa.Text(), server_default="", nullable=False),
        sa.Column("reported_by", sa.Text(), server_default="", nullable=False),
        sa.Column("reported_at", sa.Double(), nullable=False),
        sa.Column("cleared_at", sa.Double(), nullable=True),
        sa.Column("cleared_by", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint(
            "gpu_mask >= 0 AND (rail IS NULL OR rail >= 0)", name=op.f("ck_faults_sign")
        ),
        sa.ForeignKeyConstraint(
            ["node"], ["nodes.name"], name=op.f("fk_faults_node_nodes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_faults")),
    )
    op.create_index("ix_faults_node_id", "faults", ["node", "id"], unique=False)
    op.create_index(
        "ix_faults_open",
        "faults",
        ["node"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_table(
        "losses",
        sa.Column("node", Name, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node"], ["nodes.name"], name=op.f("fk_losses_node_nodes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node", "at", name=op.f("pk_losses")),
    )


def downgrade() -> None:
    op.drop_table("losses")
    op.drop_table("faults")
    op.drop_column("jobs", "recovery")
    for column in reversed(_columns()):
        op.drop_column("nodes", column.name)
