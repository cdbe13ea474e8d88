"""Rows written past the code, as a faulty program would write them."""

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.engine import Database
from api.store.triggers import restore_triggers

LIVE = ("bound", "running", "terminating", "lost")


def execute(database: Database, statement: str, **values: object) -> None:
    """One statement in a transaction of its own."""
    with database.engine.begin() as connection:
        connection.execute(sa.text(statement), values)


def add_node(
    database: Database, name: str, *, gpus: int = 8, cpu: int = 0, memory: int = 0
) -> None:
    """A node and its ledger row; capacities in thousandths of a CPU and MiB, 0 = not known."""
    with database.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO node_types (name, gpu, gpus, body) VALUES (:t, 'X', :g, '{}') "
                "ON CONFLICT DO NOTHING"
            ),
            {"t": f"t{gpus}", "g": gpus},
        )
        connection.execute(
            sa.text(
                "INSERT INTO nodes (name, type, places, labels, taints, revision) "
                "VALUES (:n, :t, '{}', '{}', '[]', 0)"
            ),
            {"n": name, "t": f"t{gpus}"},
        )
        connection.execute(
            sa.text(
                "INSERT INTO node_usage (node, gpu_mask_all, cpu_milli_all, memory_mib_all) "
                "VALUES (:n, :mask, :cpu, :memory)"
            ),
            {"n": name, "mask": (1 << gpus) - 1, "cpu": cpu, "memory": memory},
        )


def add_job(
    database: Database,
    uid: str,
    *,
    state: str = "bound",
    name: str | None = None,
    spec: str = "{}",
) -> None:
    """A job without pods."""
    execute(
        database,
        "INSERT INTO jobs (uid, namespace, name, queue, priority, state, roles, minimum, members, "
        "gpus, spec, body, age, spec_revision, revision, submitted_at) VALUES (:uid, 'default', "
        ":name, 'default', 0, :state, '', 1, 1, 8, :spec, '{}', "
        "(SELECT coalesce(max(age), 0) + 1 FROM jobs), 1, 1, 0)",
        uid=uid,
        name=name or uid,
        state=state,
        spec=spec,
    )


def pod_values(uid: str, job: str, node: str, mask: int, **more: object) -> dict[str, object]:
    """Every column of a pod."""
    values: dict[str, object] = {
        "uid": uid,
        "job_uid": job,
        "name": uid,
        "pod_index": int(uid.rpartition("-")[2]),
        "node": node,
        "gpu_mask": mask,
        "gpus": mask.bit_count(),
        "state": "bound",
        "cpu_milli": 0,
        "memory_mib": 0,
    }
    return values | more


INSERT_POD = (
    "INSERT INTO pods (uid, job_uid, namespace, name, role, role_index, pod_index, node, gpu_mask, "
    "gpus, first_rank, state, attempt, cpu_milli, memory_mib, revision) VALUES (:uid, :job_uid, "
    "'default', :name, '', 0, :pod_index, :node, :gpu_mask, :gpus, 0, :state, 1, :cpu_milli, "
    ":memory_mib, 1)"
)


def add_pod(database: Database, uid: str, job: str, node: str, mask: int, **more: object) -> None:
    """One pod; its uid ends in its index, as in `j-0`."""
    execute(database, INSERT_POD, **pod_values(uid, job, node, mask, **more))


def used(database: Database, node: str) -> tuple[int, int, int, int]:
    """What the ledger has of a node: GPU mask, CPU, memory, pods."""
    with database.read() as connection:
        return _used(connection, node)


def _used(connection: Connection, node: str) -> tuple[int, int, int, int]:
    row = connection.execute(
        sa.text(
            "SELECT gpu_mask_used, cpu_milli_used, memory_mib_used, pods FROM node_usage "
            "WHERE node = :node"
        ),
        {"node": node},
    ).one()
    return (row[0], row[1], row[2], row[3])


def counts(database: Database, job: str) -> tuple[int, int, int]:
    """Live pods, running pods and GPUs held of a job, as its row has them."""
    with database.read() as connection:
        row = connection.execute(
            sa.text("SELECT pods_live, pods_running, gpus_held FROM jobs WHERE uid = :uid"),
            {"uid": job},
        ).one()
    return (row[0], row[1], row[2])


INSERT_CLAIM = (
    "INSERT INTO claims (uid, why, node, gpu_mask, job_uid, window_name, starts_at, until_at, "
    "cpu_milli, revision) VALUES (:uid, :why, :node, :mask, :job, :window, :starts, :until, "
    ":cpu, 1)"
)


def claim_values(uid: str, mask: int = 0b1, **more: object) -> dict[str, object]:
    """Every column of a claim for preemption of job j on node a."""
    values: dict[str, object] = {
        "uid": uid,
        "why": "preemption",
        "node": "a",
        "mask": mask,
        "job": "j",
        "window": "",
        "starts": 0.0,
        "until": None,
        "cpu": 0,
    }
    return values | more


def add_claim(database: Database, uid: str, mask: int = 0b1, **more: object) -> None:
    """One claim."""
    execute(database, INSERT_CLAIM, **claim_values(uid, mask, **more))


def switch_off_triggers(database: Database, table: str) -> None:
    """As if the schema had none on a table."""
    if not database.is_sqlite:
        execute(database, f"ALTER TABLE {table} DISABLE TRIGGER USER")
        return
    with database.read() as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"
        names = connection.execute(sa.text(query), {"table": table}).scalars().all()
    for name in names:
        execute(database, f"DROP TRIGGER {name}")


def switch_on_triggers(database: Database) -> None:
    """All of them, as they were."""
    with database.write_quietly() as connection:
        list(restore_triggers(connection))
