"""The decision log: copies of the world, and what each cycle read and decided."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_1500"
down_revision = "2026_12_01_0900"


def upgrade() -> None:
    """Two tables; what runs on the old schema does not look at them."""
    op.create_table(
        "decision_bases",
        sa.Column("chain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_decision_bases")),
    )
    op.create_table(
        "decisions",
        sa.Column("chain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("committed", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("dropped", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "step", name=op.f("pk_decisions")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("decisions")
    op.drop_table("decision_bases")
