"""Spares that are lent, pools as claims, and when the service was last seen to work."""

import sqlalchemy as sa
from alembic import op

from api.store.migrations import claims_2026_12_01 as claims
from api.store.migrations import lending_2026_12_01 as lending

revision = "2026_12_01_2213"
down_revision = "2026_12_01_2205"

ONLY_WINDOWS = "(why = 'maintenance') = (job_uid IS NULL)"
ALSO_POOLS = "(why IN ('maintenance', 'pool')) = (job_uid IS NULL)"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

COLUMNS = (
    "uid why node gpu_mask job_uid window_name starts_at until_at role pod_index first_rank "
    "cpu_milli memory_mib other gone revision"
)


def upgrade() -> None:
    """A check and triggers that refuse less, and a table; the old program asks for none of it."""
    if _is_sqlite():
        _run(lending.SQLITE_DROP)
        _claims_anew(ALSO_POOLS)
        _run(lending.SQLITE_UP)
    else:
        _check(ALSO_POOLS)
        _run(lending.POSTGRESQL_UP)
    op.create_table(
        "pulse",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_pulse_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pulse")),
    )


def downgrade() -> None:
    """The old program has its pools without claims."""
    op.drop_table("pulse")
    op.execute("DELETE FROM claims WHERE why = 'pool'")
    if _is_sqlite():
        _run(lending.SQLITE_DROP)
        _claims_anew(ONLY_WINDOWS)
        _run(claims.SQLITE_UP)
    else:
        _check(ONLY_WINDOWS)
        _run(lending.POSTGRESQL_DOWN)


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _run(statements: list[str]) -> None:
    for statement in statements:
        # The functions have percent signs of their own.
        op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})


def _check(condition: str) -> None:
    op.drop_constraint(op.f("ck_claims_why"), "claims", type_="check")
    op.create_check_constraint(op.f("ck_claims_why"), "claims", condition)


def _claims_anew(condition: str) -> None:
    """The table with another check, which SQLite does not change in place."""
    op.create_table(
        "claims_new",
        sa.Column("uid", Name, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("node", Name, nullable=False),
        sa.Column("gpu_mask", sa.BigInteger(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=True),
        sa.Column("window_name", Name, server_default="", nullable=False),
        sa.Column("starts_at", sa.Double(), nullable=False),
        sa.Column("until_at", sa.Double(), nullable=True),
        sa.Column("role", sa.Text(), server_default="", nullable=False),
        sa.Column("pod_index", sa.Integer(), server_default="0", nullable=False),
        sa.Column("first_rank", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cpu_milli", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("other", sa.Text(), nullable=True),
        sa.Column("gone", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("gpu_mask >= 0", name=op.f("ck_claims_mask_sign")),
        sa.CheckConstraint(
            "cpu_milli >= 0 AND memory_mib >= 0", name=op.f("ck_claims_resources_sign")
        ),
        sa.CheckConstraint(
            "starts_at >= 0 AND (until_at IS NULL OR until_at > starts_at)",
            name=op.f("ck_claims_times"),
        ),
        sa.CheckConstraint("(job_uid IS NULL) <> (window_name = '')", name=op.f("ck_claims_owner")),
        sa.CheckConstraint(condition, name=op.f("ck_claims_why")),
        sa.ForeignKeyConstraint(
            ["job_uid"], ["jobs.uid"], name=op.f("fk_claims_job_uid_jobs"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["node"], ["nodes.name"], name=op.f("fk_claims_node_nodes")),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_claims")),
    )
    names = ", ".join(COLUMNS.split())
    op.execute(f"INSERT INTO claims_new ({names}) SELECT {names} FROM claims")
    op.drop_table("claims")
    op.rename_table("claims_new", "claims")
    op.create_index("ix_claims_job_uid", "claims", ["job_uid"], unique=False)
    op.create_index(op.f("ix_claims_revision"), "claims", ["revision"], unique=False)
    op.create_index(
        "ix_claims_node", "claims", ["node"], unique=False, sqlite_where=sa.text("NOT gone")
    )
