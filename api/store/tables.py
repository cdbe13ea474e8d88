"""Tables: what is durable. One metadata, plain columns, constraints named by convention.

Every row that a follower keeps in memory carries the `revision` of its last change, with an index,
so that following is `revision > last`. GPU masks are BIGINT bits, bit i = GPU i. Times are Unix
seconds. JSON is text: nothing here looks into it.
"""

from typing import Any

import sqlalchemy as sa

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=NAMING)

FINAL_STATES = "'succeeded', 'failed', 'cancelled'"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Names that lists are sorted by: by code point in both databases."""

Revision = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite keeps rows by an INTEGER key without a second tree."""


def _one_row() -> tuple[sa.Column[int], sa.CheckConstraint]:
    return (
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.CheckConstraint("id = 1", name="one_row"),
    )


def only(where: str) -> dict[str, Any]:
    """Of which rows an index is."""
    return {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)}


# Which program this database is of.
meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

# revision: the last one given. Its row lock orders all writers. oldest: the smallest `since`
# that the kept events answer.
counter = sa.Table(
    "counter",
    metadata,
    *_one_row(),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("oldest", sa.BigInteger, nullable=False),
)

# Who may commit plans; seen_at is the database's clock.
leader = sa.Table(
    "leader",
    metadata,
    *_one_row(),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
)

# Where the manual clock stands.
clock = sa.Table(
    "clock",
    metadata,
    *_one_row(),
    sa.Column("now_s", sa.Double, nullable=False),
)

# What an inventory says beside nodes; revision: the last change of anything in the map.
cluster = sa.Table(
    "cluster",
    metadata,
    *_one_row(),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("levels", sa.Text, nullable=False),
    sa.Column("scale_up", sa.Text, nullable=False),
    sa.Column("fabric", sa.Text, nullable=False),
    sa.Column("racks", sa.Text, nullable=False),
    sa.Column("sets", sa.Text, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
)

policy = sa.Table(
    "policy",
    metadata,
    *_one_row(),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
)

node_types = sa.Table(
    "node_types",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("gpu", sa.Text, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

# places: as declared, by level; the effective ones come from the whole map. From health on: the
# core's NodeStanding, see standing.py; drain_deadline: NULL = nothing leaves by force. mismatch, of
# nodes and jobs: why the audit has set them aside, see set_aside.py; "" = it has not.
nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("type", Name, sa.ForeignKey("node_types.name"), nullable=False),
    sa.Column("places", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("taints", sa.Text, nullable=False),
    sa.Column("health", sa.Text, nullable=False, server_default="healthy"),
    sa.Column("cordon_reason", sa.Text),
    sa.Column("cordon_by", sa.Text),
    sa.Column("cordon_at", sa.Double),
    sa.Column("drain_at", sa.Double),
    sa.Column("drain_deadline", sa.Double),
    sa.Column("drain_why", sa.Text, nullable=False, server_default=""),
    sa.Column("drain_by", sa.Text, nullable=False, server_default=""),
    sa.Column("health_since", sa.Double, nullable=False, server_default="0"),
    sa.Column("health_why", sa.Text, nullable=False, server_default=""),
    sa.Column("fenced", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("has_agent", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("lemon", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("quarantined_until", sa.Double),
    sa.Column("mismatch", sa.Text, nullable=False, server_default=""),
    sa.Column("silent_s", sa.Double),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
)

# The ledger: what live pods hold of each node. Written by triggers on pods alone. A capacity of
# 0 means that the inventory did not say; it is not checked then.
node_usage = sa.Table(
    "node_usage",
    metadata,
    sa.Column("node", Name, sa.ForeignKey("nodes.name"), primary_key=True),
    sa.Column("gpu_mask_all", sa.BigInteger, nullable=False),
    sa.Column("gpu_mask_used", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("cpu_milli_all", sa.BigInteger, nullable=False),
    sa.Column("cpu_milli_used", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("memory_mib_all", sa.BigInteger, nullable=False),
    sa.Column("memory_mib_used", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("pods", sa.Integer, nullable=False, server_default="0"),
    sa.CheckConstraint("gpu_mask_all >= 0 AND gpu_mask_used >= 0", name="mask_sign"),
    sa.CheckConstraint("(gpu_mask_used & ~gpu_mask_all) = 0", name="gpus_exist"),
    sa.CheckConstraint(
        "cpu_milli_used >= 0 AND (cpu_milli_all = 0 OR cpu_milli_used <= cpu_milli_all)", name="cpu"
    ),
    sa.CheckConstraint(
        "memory_mib_used >= 0 AND (memory_mib_all = 0 OR memory_mib_used <= memory_mib_all)",
        name="memory",
    ),
    sa.CheckConstraint("pods >= 0", name="pods"),
)

# quota_by_model, limit_by_model: GPUs by model, as JSON.
queues = sa.Table(
    "queues",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("parent", Name, sa.ForeignKey("queues.name")),
    sa.Column("quota_gpus", sa.BigInteger),
    sa.Column("limit_gpus", sa.BigInteger),
    sa.Column("weight", sa.Double, nullable=False, server_default="1"),
    sa.Column("max_priority", sa.BigInteger),
    sa.Column("namespaces", sa.Text, nullable=False, server_default="[]"),
    sa.Column("quota_by_model", sa.Text, nullable=False, server_default="{}"),
    sa.Column("limit_by_model", sa.Text, nullable=False, server_default="{}"),
    sa.Column("max_pending", sa.BigInteger),
    sa.Column("closed", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
)

# What pods that ended have used, in thousandths of a GPU-second, by month (UTC, `2026-12`); what
# live pods use is not in it. Neither follows what becomes of a job's record.
usage = sa.Table(
    "usage",
    metadata,
    sa.Column("month", Name, primary_key=True),
    sa.Column("queue", Name, primary_key=True),
    sa.Column("namespace", Name, primary_key=True),
    sa.Column("gpu", Name, primary_key=True),
    sa.Column("gpu_ms", sa.BigInteger, nullable=False),
    sa.CheckConstraint("gpu_ms >= 0", name="sign"),
)

usage_jobs = sa.Table(
    "usage_jobs",
    metadata,
    sa.Column("month", Name, primary_key=True),
    sa.Column("job_uid", Name, primary_key=True),
    sa.Column("gpu", Name, primary_key=True),
    sa.Column("queue", Name, nullable=False),
    sa.Column("namespace", Name, nullable=False),
    sa.Column("name", Name, nullable=False),
    sa.Column("gpu_ms", sa.BigInteger, nullable=False),
    sa.CheckConstraint("gpu_ms >= 0", name="sign"),
    sqlite_with_rowid=False,
)

# queue: without a foreign key; a job that ended may outlive it. spec: the core's JobSpec.
# gpus_per_pod: of the placement of a parallel job; 0 before. roles: names in order,
# comma-separated; '' for a parallel job.
# pods_live, pods_running, gpus_held: kept by triggers on pods.
# saved_*: the last checkpoint that the job told of. evict: the core's Eviction; NULL = stays.
# hooks: who is told of the job, see hook_events.py; NULL = nobody. recovery: what faults and
# crashes have left of it, see job_recovery.py; NULL = nothing.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("queue", Name, nullable=False),
    sa.Column("priority", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("message", sa.Text, nullable=False, server_default=""),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("gpus_per_pod", sa.Integer, nullable=False, server_default="0"),
    sa.Column("node_type", sa.Text, nullable=False, server_default=""),
    sa.Column("search", sa.Text, nullable=False, server_default="exact"),
    sa.Column("gap", sa.Double),
    sa.Column("verdict", sa.Text),
    sa.Column("broken", sa.Text, nullable=False, server_default="[]"),
    sa.Column("roles", sa.Text, nullable=False),
    sa.Column("minimum", sa.Integer, nullable=False),
    sa.Column("members", sa.Integer, nullable=False),
    sa.Column("gpus", sa.BigInteger, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("age", sa.BigInteger, nullable=False, unique=True),
    sa.Column("spec_revision", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    sa.Column("submitted_at", sa.Double, nullable=False),
    sa.Column("bound_at", sa.Double),
    sa.Column("started_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("pods_live", sa.Integer, nullable=False, server_default="0"),
    sa.Column("pods_running", sa.Integer, nullable=False, server_default="0"),
    sa.Column("gpus_held", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("saved_at", sa.Double),
    sa.Column("saved_step", sa.BigInteger),
    sa.Column("saved_uri", sa.Text),
    sa.Column("could_start_at", sa.Double),
    sa.Column("expected_start_at", sa.Double),
    sa.Column("held", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("mismatch", sa.Text, nullable=False, server_default=""),
    sa.Column("evict", sa.Text),
    sa.Column("evicted_at", sa.Double),
    sa.Column("hooks", sa.Text),
    sa.Column("recovery", sa.Text),
    sa.Column(
        "holds_name",
        sa.Boolean,
        sa.Computed(f"(pods_live > 0 OR state NOT IN ({FINAL_STATES}))", persisted=True),
    ),
    sa.CheckConstraint("pods_live >= 0 AND pods_running >= 0 AND gpus_held >= 0", name="counts"),
    sa.Index("ix_jobs_namespace_name_age", "namespace", "name", "age"),
    sa.Index("ix_jobs_state_age", "state", "age"),
    sa.Index("ix_jobs_finished_at", "finished_at"),
    sa.Index("ix_jobs_recovery", "age", **only("recovery IS NOT NULL")),
    sa.Index("uq_jobs_name_held", "namespace", "name", unique=True, **only("holds_name")),
)

# The line of each queue.
sa.Index(
    "ix_jobs_line",
    jobs.c.queue,
    jobs.c.priority.desc(),
    jobs.c.age,
    **only("state = 'pending'"),
)

# Where live pods are is the truth about GPUs; node_usage and the counts of jobs follow it.
pods = sa.Table(
    "pods",
    metadata,
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("job_uid", sa.Text, sa.ForeignKey("jobs.uid", ondelete="CASCADE"), nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("role_index", sa.Integer, nullable=False),
    sa.Column("pod_index", sa.Integer, nullable=False),
    sa.Column("node", Name, nullable=False),
    sa.Column("gpu_mask", sa.BigInteger, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("first_rank", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("bound_at", sa.Double),
    sa.Column("cpu_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("memory_mib", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("other", sa.Text),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    sa.CheckConstraint("gpu_mask >= 0 AND gpus >= 0", name="mask_sign"),
    sa.CheckConstraint("cpu_milli >= 0 AND memory_mib >= 0", name="resources_sign"),
    sa.CheckConstraint("attempt >= 1", name="attempt"),
    sa.UniqueConstraint("job_uid", "role_index", "pod_index"),
    sa.Index("ix_pods_namespace_name", "namespace", "name"),
    sa.Index("ix_pods_node", "node"),
)

# GPUs kept for a gang that is not bound there, or for people. A claim that ended stays as `gone`
# until history is trimmed, so that followers learn of it; nothing is refused on its account.
claims = sa.Table(
    "claims",
    metadata,
    sa.Column("uid", Name, primary_key=True),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("node", Name, sa.ForeignKey("nodes.name"), nullable=False),
    sa.Column("gpu_mask", sa.BigInteger, nullable=False),
    sa.Column("job_uid", sa.Text, sa.ForeignKey("jobs.uid", ondelete="CASCADE"), index=True),
    sa.Column("window_name", Name, nullable=False, server_default=""),
    sa.Column("starts_at", sa.Double, nullable=False),
    sa.Column("until_at", sa.Double),
    sa.Column("role", sa.Text, nullable=False, server_default=""),
    sa.Column("pod_index", sa.Integer, nullable=False, server_default="0"),
    sa.Column("first_rank", sa.Integer, nullable=False, server_default="0"),
    sa.Column("cpu_milli", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("memory_mib", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("other", sa.Text),
    sa.Column("gone", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    sa.CheckConstraint("gpu_mask >= 0", name="mask_sign"),
    sa.CheckConstraint("cpu_milli >= 0 AND memory_mib >= 0", name="resources_sign"),
    sa.CheckConstraint(
        "starts_at >= 0 AND (until_at IS NULL OR until_at > starts_at)", name="times"
    ),
    sa.CheckConstraint("(job_uid IS NULL) <> (window_name = '')", name="owner"),
    sa.CheckConstraint("(why IN ('maintenance', 'pool')) = (job_uid IS NULL)", name="why"),
    sa.Index("ix_claims_node", "node", **only("NOT gone")),
)

# Maintenance windows. nodes: their names as a JSON list.
windows = sa.Table(
    "windows",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("nodes", sa.Text, nullable=False),
    sa.Column("starts_at", sa.Double, nullable=False),
    sa.Column("ends_at", sa.Double, nullable=False),
    sa.Column("why", sa.Text, nullable=False, server_default=""),
    sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    sa.CheckConstraint("starts_at < ends_at", name="times"),
)

# Sessions of agents; that of the largest number is a node's newest, older ones are turned away.
# seen_at is of the service's clock, and may be a second behind.
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("node", Name, sa.ForeignKey("nodes.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("session", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("boot_id", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
)

# What callers and nodes say happened; id is the revision of its event. The leader applies them.
facts = sa.Table(
    "facts",
    metadata,
    sa.Column("id", Revision, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("job_uid", sa.Text, nullable=False),
    sa.Column("pod_uid", sa.Text),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("pod_state", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("request_id", sa.Text),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("applied_at", sa.Double),
    sa.Index("ix_facts_open", "id", **only("applied_at IS NULL")),
    sa.Index("ix_facts_job_open", "job_uid", "id", **only("applied_at IS NULL")),
)

# What jobs have saved. nodes: names of those that hold copies, as a JSON list; none = kept
# elsewhere.
checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("job_uid", sa.Text, sa.ForeignKey("jobs.uid", ondelete="CASCADE"), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("uri", sa.Text, nullable=False),
    sa.Column("tier", sa.Text, nullable=False, server_default=""),
    sa.Column("nodes", sa.Text, nullable=False, server_default="[]"),
    sa.Column("request_id", sa.Text),
    sa.Column("at", sa.Double, nullable=False),
    sa.CheckConstraint("step >= 0", name="step_sign"),
)

# The outbox: what hooks are to be told, written with the event it is about. number: that event's
# revision x 64 + which of the job's hooks. lane: what is delivered one after the other. Without a
# foreign key: that a job ended is told also when its record is gone.
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("number", Revision, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("job_uid", sa.Text, nullable=False, index=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("lane", Name, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("request_id", sa.Text),
    sa.Column("grace_s", sa.Double),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("asked_at", sa.Double),
    sa.Column("done_at", sa.Double),
    sa.Column("status", sa.Integer),
    sa.Column("error", sa.Text, nullable=False, server_default=""),
    sa.CheckConstraint("state IN ('pending', 'delivered', 'dead', 'withdrawn')", name="state"),
    sa.CheckConstraint("attempts >= 0", name="attempts"),
    sa.Index("ix_deliveries_open", "lane", "number", **only("state = 'pending'")),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("revision", Revision, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject_kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("uid", Name, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("ix_events_uid_revision", "uid", "revision"),
    sa.Index("ix_events_subject", "subject_kind", "namespace", "name", "revision"),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("caller", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body_hash", sa.Text, nullable=False),
    sa.Column("job_uid", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False, index=True),
)

# The decision log; see decisions.py. A chain begins with a copy of the world, its base.
decision_bases = sa.Table(
    "decision_bases",
    metadata,
    sa.Column("chain", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

# revision: decided on; committed: the last that its commit wrote. Without an index of its own and
# a second tree in SQLite: each would be a page more in every commit.
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("chain", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("committed", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("dropped", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
