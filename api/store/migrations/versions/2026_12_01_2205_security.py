"""Tokens, and what their holders did."""

import sqlalchemy as sa
from alembic import op

revision = "2026_12_01_2205"
down_revision = "2026_12_01_2150"

Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Tables that the program of the old schema does not know."""
    op.create_table(
        "tokens",
        sa.Column("id", Name, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("namespaces", sa.Text(), nullable=True),
        sa.Column("nodes", sa.Text(), nullable=True),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("used_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.CheckConstraint("kind IN ('token', 'session')", name=op.f("ck_tokens_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_index("ix_tokens_name", "tokens", ["name"])
    state = op.create_table(
        "token_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_token_state_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_state")),
    )
    op.bulk_insert(state, [{"id": 1, "version": 0}])
    op.create_table(
        "audit_log",
        sa.Column("id", Revision, autoincrement=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"])
    op.create_index("ix_audit_log_actor", "audit_log", ["actor", "id"])


def downgrade() -> None:
    for table in ("audit_log", "token_state", "tokens"):
        op.drop_table(table)
