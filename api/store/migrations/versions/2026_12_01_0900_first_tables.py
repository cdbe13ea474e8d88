"""The first tables, their ledger and the rows that are always there."""

import sqlalchemy as sa
from alembic import op

from api.store.migrations import ledger_2026_12_01 as ledger

revision = "2026_12_01_0900"
down_revision = None

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_single_rows()
    _create_nodes()
    _create_queues()
    _create_jobs()
    _create_pods()
    _create_history()
    _create_first_rows()
    _run(ledger.SQLITE_UP, ledger.POSTGRESQL_UP)


def downgrade() -> None:
    _run(ledger.SQLITE_DOWN, ledger.POSTGRESQL_DOWN)
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_single_rows() -> None:
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "counter",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("oldest", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_counter_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_counter")),
    )
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )
    op.create_table(
        "clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("now_s", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_clock_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clock")),
    )
    op.create_table(
        "cluster",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("scale_up", sa.Text(), nullable=False),
        sa.Column("fabric", sa.Text(), nullable=False),
        sa.Column("racks", sa.Text(), nullable=False),
        sa.Column("sets", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_cluster_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster")),
    )
    op.create_table(
        "policy",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_policy_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policy")),
    )


def _create_nodes() -> None:
    op.create_table(
        "node_types",
        sa.Column("name", Name, nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_node_types")),
    )
    op.create_table(
        "nodes",
        sa.Column("name", Name, nullable=False),
        sa.Column("type", Name, nullable=False),
        sa.Column("places", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("taints", sa.Text(), nullable=False),
        sa.Column("health", sa.Text(), server_default="healthy", nullable=False),
        sa.Column("cordon_reason", sa.Text(), nullable=True),
        sa.Column("cordon_by", sa.Text(), nullable=True),
        sa.Column("cordon_at", sa.Double(), nullable=True),
        sa.Column("drain_at", sa.Double(), nullable=True),
        sa.Column("drain_deadline", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["type"], ["node_types.name"], name=op.f("fk_nodes_type_node_types")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_index(op.f("ix_nodes_revision"), "nodes", ["revision"], unique=False)
    op.create_table(
        "node_usage",
        sa.Column("node", Name, nullable=False),
        sa.Column("gpu_mask_all", sa.BigInteger(), nullable=False),
        sa.Column("gpu_mask_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cpu_milli_all", sa.BigInteger(), nullable=False),
        sa.Column("cpu_milli_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("memory_mib_all", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib_used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pods", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "(gpu_mask_used & ~gpu_mask_all) = 0", name=op.f("ck_node_usage_gpus_exist")
        ),
        sa.CheckConstraint(
            "cpu_milli_used >= 0 AND (cpu_milli_all = 0 OR cpu_milli_used <= cpu_milli_all)",
            name=op.f("ck_node_usage_cpu"),
        ),
        sa.CheckConstraint(
            "gpu_mask_all >= 0 AND gpu_mask_used >= 0", name=op.f("ck_node_usage_mask_sign")
        ),
        sa.CheckConstraint(
            "memory_mib_used >= 0 AND (memory_mib_all = 0 OR memory_mib_used <= memory_mib_all)",
            name=op.f("ck_node_usage_memory"),
        ),
        sa.CheckConstraint("pods >= 0", name=op.f("ck_node_usage_pods")),
        sa.ForeignKeyConstraint(["node"], ["nodes.name"], name=op.f("fk_node_usage_node_nodes")),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_node_usage")),
    )


def _create_queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", Name, nullable=False),
        sa.Column("parent", Name, nullable=True),
        sa.Column("quota_gpus", sa.BigInteger(), nullable=True),
        sa.Column("limit_gpus", sa.BigInteger(), nullable=True),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column("max_priority", sa.BigInteger(), nullable=True),
        sa.Column("namespaces", sa.Text(), server_default="[]", nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["parent"], ["queues.name"], name=op.f("fk_queues_parent_queues")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queues")),
    )
    op.create_index(op.f("ix_queues_revision"), "queues", ["revision"], unique=False)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("queue", Name, nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("gpus_per_pod", sa.Integer(), server_default="0", nullable=False),
        sa.Column("node_type", sa.Text(), server_default="", nullable=False),
        sa.Column("search", sa.Text(), server_default="exact", nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("broken", sa.Text(), server_default="[]", nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("age", sa.BigInteger(), nullable=False),
        sa.Column("spec_revision", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=False),
        sa.Column("bound_at", sa.Double(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("pods_live", sa.Integer(), server_default="0", nullable=False),
        sa.Column("pods_running", sa.Integer(), server_default="0", nullable=False),
        sa.Column("gpus_held", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "holds_name",
            sa.Boolean(),
            sa.Computed(
                "(pods_live > 0 OR state NOT IN ('succeeded', 'failed', 'cancelled'))",
                persisted=True,
            ),
            nullable=True,
        ),
        sa.CheckConstraint(
            "pods_live >= 0 AND pods_running >= 0 AND gpus_held >= 0", name=op.f("ck_jobs_counts")
        ),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_jobs")),
        sa.UniqueConstraint("age", name=op.f("uq_jobs_age")),
    )
    op.create_index(
        "ix_jobs_namespace_name_age", "jobs", ["namespace", "name", "age"], unique=False
    )
    op.create_index(op.f("ix_jobs_revision"), "jobs", ["revision"], unique=False)
    op.create_index("ix_jobs_state_age", "jobs", ["state", "age"], unique=False)
    op.create_index(
        "uq_jobs_name_held",
        "jobs",
        ["namespace", "name"],
        unique=True,
        sqlite_where=sa.text("holds_name"),
        postgresql_where=sa.text("holds_name"),
    )


def _create_pods() -> None:
    op.create_table(
        "pods",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("role_index", sa.Integer(), nullable=False),
        sa.Column("pod_index", sa.Integer(), nullable=False),
        sa.Column("node", Name, nullable=False),
        sa.Column("gpu_mask", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("first_rank", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("cpu_milli", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("other", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("attempt >= 1", name=op.f("ck_pods_attempt")),
        sa.CheckConstraint(
            "cpu_milli >= 0 AND memory_mib >= 0", name=op.f("ck_pods_resources_sign")
        ),
        sa.CheckConstraint("gpu_mask >= 0 AND gpus >= 0", name=op.f("ck_pods_mask_sign")),
        sa.ForeignKeyConstraint(
            ["job_uid"], ["jobs.uid"], name=op.f("fk_pods_job_uid_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_pods")),
        sa.UniqueConstraint(
            "job_uid", "role_index", "pod_index", name=op.f("uq_pods_job_uid_role_index_pod_index")
        ),
    )
    op.create_index("ix_pods_namespace_name", "pods", ["namespace", "name"], unique=False)
    op.create_index("ix_pods_node", "pods", ["node"], unique=False)
    op.create_index(op.f("ix_pods_revision"), "pods", ["revision"], unique=False)


def _create_history() -> None:
    op.create_table(
        "facts",
        sa.Column("id", Revision, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("pod_state", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("applied_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_facts")),
    )
    op.create_index(
        "ix_facts_job_open",
        "facts",
        ["job_uid", "id"],
        unique=False,
        sqlite_where=sa.text("applied_at IS NULL"),
        postgresql_where=sa.text("applied_at IS NULL"),
    )
    op.create_index(
        "ix_facts_open",
        "facts",
        ["id"],
        unique=False,
        sqlite_where=sa.text("applied_at IS NULL"),
        postgresql_where=sa.text("applied_at IS NULL"),
    )
    op.create_table(
        "events",
        sa.Column("revision", Revision, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", Name, nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_events")),
    )
    op.create_index(
        "ix_events_subject",
        "events",
        ["subject_kind", "namespace", "name", "revision"],
        unique=False,
    )
    op.create_index("ix_events_uid_revision", "events", ["uid", "revision"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("caller", "namespace", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_at"), "idempotency", ["at"], unique=False)


def _create_first_rows() -> None:
    for statement in (
        "INSERT INTO meta (key, value) VALUES ('program', 'podyard')",
        "INSERT INTO counter (id, revision, oldest) VALUES (1, 0, 0)",
        "INSERT INTO leader (id, epoch, holder, seen_at) VALUES (1, 0, '', 0)",
        "INSERT INTO queues (name, revision) VALUES ('default', 0)",
    ):
        op.execute(statement)


def _run(sqlite: list[str], postgresql: list[str]) -> None:
    connection = op.get_bind()
    for statement in sqlite if connection.dialect.name == "sqlite" else postgresql:
        # The functions have percent signs of their own.
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


TABLES = (
    "meta",
    "counter",
    "leader",
    "clock",
    "cluster",
    "policy",
    "node_types",
    "nodes",
    "node_usage",
    "queues",
    "jobs",
    "pods",
    "facts",
    "events",
    "idempotency",
)
