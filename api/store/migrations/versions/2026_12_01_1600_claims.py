"""Claims on GPUs, maintenance windows, and what a job needs that waits, is held or leaves."""

import sqlalchemy as sa
from alembic import op

from api.store.migrations import claims_2026_12_01 as ledger

revision = "2026_12_01_1600"
down_revision = "2026_12_01_1500"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """New tables, and columns that the program of the old schema leaves at their defaults."""
    _add_job_columns()
    _create_claims()
    op.create_table(
        "windows",
        sa.Column("name", Name, nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("starts_at", sa.Double(), nullable=False),
        sa.Column("ends_at", sa.Double(), nullable=False),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("starts_at < ends_at", name=op.f("ck_windows_times")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_windows")),
    )
    op.create_index(op.f("ix_windows_revision"), "windows", ["revision"], unique=False)
    _run(ledger.SQLITE_UP, ledger.POSTGRESQL_UP)


def downgrade() -> None:
    _run(ledger.SQLITE_DOWN, ledger.POSTGRESQL_DOWN)
    op.drop_table("windows")
    op.drop_table("claims")
    for column in reversed(JOB_COLUMNS):
        op.drop_column("jobs", column)


JOB_COLUMNS = (
    "saved_at",
    "saved_step",
    "saved_uri",
    "could_start_at",
    "expected_start_at",
    "held",
    "evict",
    "evicted_at",
)


def _add_job_columns() -> None:
    op.add_column("jobs", sa.Column("saved_at", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("saved_step", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("saved_uri", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("could_start_at", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("expected_start_at", sa.Double(), nullable=True))
    op.add_column(
        "jobs", sa.Column("held", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    op.add_column("jobs", sa.Column("evict", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("evicted_at", sa.Double(), nullable=True))


def _create_claims() -> None:
    op.create_table(
        "claims",
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
        sa.CheckConstraint("(why = 'maintenance') = (job_uid IS NULL)", name=op.f("ck_claims_why")),
        sa.ForeignKeyConstraint(
            ["job_uid"], ["jobs.uid"], name=op.f("fk_claims_job_uid_jobs"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["node"], ["nodes.name"], name=op.f("fk_claims_node_nodes")),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_claims")),
    )
    op.create_index("ix_claims_job_uid", "claims", ["job_uid"], unique=False)
    op.create_index(op.f("ix_claims_revision"), "claims", ["revision"], unique=False)
    op.create_index(
        "ix_claims_node",
        "claims",
        ["node"],
        unique=False,
        sqlite_where=sa.text("NOT gone"),
        postgresql_where=sa.text("NOT gone"),
    )


def _run(sqlite: list[str], postgresql: list[str]) -> None:
    connection = op.get_bind()
    for statement in sqlite if connection.dialect.name == "sqlite" else postgresql:
        # The functions have percent signs of their own.
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
