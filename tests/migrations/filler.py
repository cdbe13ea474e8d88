"""A row for every table of any version of the schema, beside a gang that lives.

The gang is written as the first program wrote it; columns that came later have their defaults.
Other tables get a row made from what the database itself says of them: their columns, what may not
be empty, what they refer to.
"""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table

from api.schemas.spec import dump_node_type, dump_spec
from scheduler.model.job import JobSpec, Role
from tests.builders import make_type

SPEC = dump_spec(JobSpec(name="j", roles=(Role("m", 2, 2, gpus=4),)))
PENDING_SPEC = dump_spec(JobSpec(name="k", roles=(Role("m", 2, 2, gpus=8),)))
ENDED_SPEC = dump_spec(JobSpec(name="d", roles=(Role("m", 1, 1, gpus=4),)))

_JOB = (
    "INSERT INTO jobs (uid, namespace, name, queue, priority, state, attempt, gpus_per_pod, roles, "
    "node_type, minimum, members, gpus, spec, body, age, spec_revision, revision, submitted_at, "
    "bound_at, finished_at) VALUES ('{uid}', 'default', '{uid}', 'default', 0, '{state}', "
    "{attempt}, 0, 'm', '{type}', {size}, {size}, {gpus}, '{spec}', '{{}}', {age}, {age}, {age}, "
    "4.0, {bound}, {finished})"
)
_POD = (
    "INSERT INTO pods (uid, job_uid, namespace, name, role, role_index, pod_index, node, gpu_mask, "
    "gpus, first_rank, state, attempt, revision) VALUES ('{job}-m-{i}', '{job}', 'default', "
    "'{job}-m-{i}', 'm', 0, {i}, '{node}', {mask}, 4, {rank}, '{state}', 1, 5)"
)

GANGS = (
    "INSERT INTO node_types (name, gpu, gpus, body) VALUES ('t', 'X', 8, "
    f"'{dump_node_type(make_type('t'))}')",
    *(
        f"INSERT INTO nodes (name, type, places, labels, taints, revision) "
        f"VALUES ('{node}', 't', '{{}}', '{{}}', '[]', 1)"
        for node in ("n1", "n2")
    ),
    *(
        "INSERT INTO node_usage (node, gpu_mask_all, cpu_milli_all, memory_mib_all) "
        f"VALUES ('{node}', 255, 0, 0)"
        for node in ("n1", "n2")
    ),
    "INSERT INTO cluster (id, name, levels, scale_up, fabric, racks, sets, revision) "
    "VALUES (1, 'c', '[\"node\"]', 'node', '{}', '[]', '{}', 1)",
    _JOB.format(
        uid="j", state="running", attempt=1, type="t", size=2, gpus=8, spec=SPEC, age=2,
        bound="5.0", finished="NULL",
    ),
    _JOB.format(
        uid="k", state="pending", attempt=0, type="", size=2, gpus=16, spec=PENDING_SPEC, age=3,
        bound="NULL", finished="NULL",
    ),
    _JOB.format(
        uid="d", state="succeeded", attempt=1, type="t", size=1, gpus=4, spec=ENDED_SPEC, age=4,
        bound="5.0", finished="6.0",
    ),
    _POD.format(job="j", i=0, node="n1", mask=15, rank=0, state="running"),
    _POD.format(job="j", i=1, node="n2", mask=240, rank=4, state="bound"),
    _POD.format(job="d", i=0, node="n1", mask=15, rank=0, state="succeeded"),
    "UPDATE counter SET revision = 9",
)  # fmt: skip
"""Gang j holds half of two nodes, one of its two pods runs; k waits; d has ended."""

GIVEN: Mapping[str, Mapping[str, object]] = {
    "claims": {"why": "spare", "gpu_mask": 240, "node": "n1", "window_name": "", "starts_at": 0.0},
    "windows": {"nodes": "[]", "starts_at": 4e9, "ends_at": 5e9},
    "deliveries": {"state": "pending", "url": "http://127.0.0.1:9/", "kind": "notify"},
    "facts": {"kind": "cancel", "job_uid": "d", "applied_at": 5.0},
    "queues": {"name": "filled", "parent": "default"},
    "policy": {"body": '{"paused": false}'},
    "losses": {"at": 1.0},
    "faults": {"action": "note", "cleared_at": 8.0, "code": "note"},
    "tokens": {"kind": "token", "role": "admin", "revoked_at": 2.0},
    "usage": {"month": "2026-11"},
    "usage_jobs": {"month": "2026-11"},
}
"""What checks and programs want to be so."""

NAMED: Mapping[str, object] = {
    "job_uid": "j", "pod_uid": "j-m-0", "node": "n1", "id": 1, "revision": 7, "queue": "default",
    "namespace": "default", "step_s": 10,
}  # fmt: skip
"""By column, where nothing else is said."""

BY_HAND = frozenset(
    {"meta", "counter", "leader", "nodes", "node_types", "node_usage", "jobs", "pods", "cluster",
     "alembic_version"}
)  # fmt: skip
"""Written by migrations, or with the gangs."""

SEEDED = frozenset({"token_state"})
"""Of one row, which a migration writes."""

HISTORY = frozenset({"decisions", "decision_bases"})
"""What is in them only the program can write."""


def fill(connection: Connection) -> set[str]:
    """Write the gangs, and a row into every other table; returns which tables there were."""
    for statement in GANGS:
        connection.exec_driver_sql(statement)
    tables = sa.MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        if table.name not in BY_HAND | HISTORY | SEEDED:
            connection.execute(sa.insert(table).values(row_of(table)))
    return set(tables.tables)


def row_of(table: Table) -> dict[str, object]:
    """A row of a table: what may be left out is, unless something is known of it."""
    given = GIVEN.get(table.name, {})
    made: dict[str, object] = {}
    for column in table.columns:
        if column.name in given:
            made[column.name] = given[column.name]
        elif column.computed is None and _is_needed(column):
            made[column.name] = NAMED.get(column.name, _value(column))
    if table.name == "claims":
        made["job_uid"] = "j"
    return made


def _is_needed(column: Column[object]) -> bool:
    return not column.nullable and column.server_default is None


def _value(column: Column[object]) -> object:
    kind = column.type.python_type
    if kind is bool:
        return False
    if kind is str:
        return _text(column.name)
    return {int: 1, float: 1.5, bytes: b"\x00\xff"}[kind]


def _text(name: str) -> str:
    """JSON where a column's name says that it is; else the name itself."""
    lists = {"nodes", "managed", "namespaces", "dropped"}
    return "[]" if name in lists else "{}" if name in {"body", "labels", "spec"} else name
