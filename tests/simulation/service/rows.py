"""The database as it stands after one commit, read with SQL of its own."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]

LIVE = frozenset({"bound", "running", "terminating", "lost"})
FINAL = frozenset({"succeeded", "failed", "cancelled"})

_JOBS = (
    "SELECT uid, namespace, name, priority, state, reason, message, attempt, spec, age, revision, "
    "finished_at, pods_live, pods_running, gpus_held, held, evict, recovery, saved_at, hooks, "
    "bound_at FROM jobs"
)
_PODS = (
    "SELECT uid, job_uid, role, pod_index, node, gpu_mask, state, attempt, exit_code, bound_at, "
    "cpu_milli, memory_mib, revision FROM pods"
)
_NODES = (
    "SELECT name, health, fenced, cordon_at, drain_at, has_agent, revision, gpu_mask_all, "
    "gpu_mask_used, cpu_milli_used, memory_mib_used, pods FROM nodes JOIN node_usage ON node = name"
)
_CLAIMS = (
    "SELECT uid, why, node, gpu_mask, job_uid, window_name, starts_at, until_at, gone, revision "
    "FROM claims"
)
_FACTS = "SELECT id, kind, job_uid, pod_uid, attempt, pod_state, applied_at FROM facts"
_DELIVERIES = "SELECT number, id, kind, job_uid, lane, body, state, asked_at FROM deliveries"
_EVENTS = "SELECT revision, at, kind, uid, name, body FROM events WHERE revision > ? ORDER BY 1"
_DECISIONS = "SELECT chain, step, committed, dropped, content FROM decisions WHERE committed > ?"


@dataclass(slots=True)
class State:
    """Rows by their keys, and what this commit added to the history.

    Attributes:
        before: The last revision before it.
        events, decisions: Of this commit.
        usage: Job -> GPU-milliseconds accounted for.
    """

    revision: int = 0
    oldest: int = 0
    before: int = 0
    epoch: int = 0
    holder: str = ""
    jobs: dict[str, Row] = field(default_factory=dict)
    pods: dict[str, Row] = field(default_factory=dict)
    nodes: dict[str, Row] = field(default_factory=dict)
    claims: dict[str, Row] = field(default_factory=dict)
    facts: dict[int, Row] = field(default_factory=dict)
    deliveries: dict[int, Row] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)

    def pods_of(self) -> dict[str, list[Row]]:
        """Every job's pods."""
        found: dict[str, list[Row]] = defaultdict(list)
        for pod in self.pods.values():
            found[pod["job_uid"]].append(pod)
        return found

    def live(self) -> Iterator[Row]:
        return (pod for pod in self.pods.values() if pod["state"] in LIVE)

    def kept(self) -> list[Row]:
        """Claims that hold."""
        return [claim for claim in self.claims.values() if not claim["gone"]]


def read(connection: sqlite3.Connection, before: int) -> State:
    """One snapshot; of the history what is newer than `before`."""

    def rows(query: str, *given: int) -> list[Row]:
        return [dict(row) for row in connection.execute(query, given)]

    connection.execute("BEGIN")
    try:
        (counter,) = rows("SELECT revision, oldest FROM counter")
        (leader,) = rows("SELECT epoch, holder FROM leader")
        return State(
            counter["revision"],
            counter["oldest"],
            before,
            leader["epoch"],
            leader["holder"],
            {row["uid"]: row for row in rows(_JOBS)},
            {row["uid"]: row for row in rows(_PODS)},
            {row["name"]: row for row in rows(_NODES)},
            {row["uid"]: row for row in rows(_CLAIMS)},
            {row["id"]: row for row in rows(_FACTS)},
            {row["number"]: row for row in rows(_DELIVERIES)},
            {row["key"]: row["job_uid"] for row in rows("SELECT key, job_uid FROM idempotency")},
            {
                row["job_uid"]: row["ms"]
                for row in rows("SELECT job_uid, sum(gpu_ms) AS ms FROM usage_jobs GROUP BY 1")
            },
            rows(_EVENTS, before),
            rows(_DECISIONS, before),
        )
    finally:
        connection.execute("COMMIT")


def lacks(job: Row, there: list[Row], *, starts: bool) -> Iterator[str]:
    """What of its minimum a gang has not.

    Args:
        starts: It has begun a new attempt, so no part of it is there in part.
    """
    spec = json.loads(job["spec"])
    if not spec["roles"]:
        sizes = spec["parallelism"]
        world = sizes["tp"] * sizes["cp"] * sizes["pp"] * sizes["dp"]
        has = sum(pod["gpu_mask"].bit_count() for pod in there)
        if has != world:
            yield f"has {has} of {world} GPUs"
        return
    for role in spec["roles"]:
        indices = {pod["pod_index"] for pod in there if pod["role"] == role["name"]}
        if len(indices) < role["min"]:
            yield f"has {len(indices)} of at least {role['min']} of role '{role['name']}'"
        if parts := role["parts"]:
            whole = [
                k
                for k in range(parts["count"])
                if indices.issuperset(range(k * parts["size"], (k + 1) * parts["size"]))
            ]
            # Of a part above the minimum a member may be lost or leave while the others run on, or
            # are done; a gang that is bound again as members of it restart may have such a part.
            in_part = starts and len(whole) * parts["size"] != len(indices)
            if len(whole) < parts["min"] or in_part:
                yield f"has {len(indices)} members of role '{role['name']}', {len(whole)} parts"
