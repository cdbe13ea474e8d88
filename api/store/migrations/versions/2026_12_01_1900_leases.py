"""When the agent of each node was last heard."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_1900"
down_revision = "2026_12_01_1800"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """A table that the program of the old schema does not know."""
    op.create_table(
        "leases",
        sa.Column("node", Name, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node"], ["nodes.name"], name=op.f("fk_leases_node_nodes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node", "session", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    op.drop_table("leases")
