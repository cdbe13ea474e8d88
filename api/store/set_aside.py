"""Parts of the yard that an audit has set aside: nothing new happens there until they are mended.

A node whose books contradict each other takes no new pods; a gang in line that something is wrong
with is held. What runs stays where it is. Both are facts with an event like any other, so that the
leader learns of them, and both are taken back when an audit finds the part clean.
"""

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from api.store.control import IN_LINE, control_in
from api.store.engine import Database, Transaction
from api.store.standing import change_node
from api.store.tables import jobs, nodes
from api.store.wrong import Parts
from scheduler.errors import StateError
from scheduler.model.lifecycle import FINAL
from scheduler.model.plan import FactKind


def set_parts_aside(db: Database, parts: Parts, *, now_s: float) -> list[str]:
    """Set aside these parts and no others; what changed, in words. Nothing new changes nothing."""
    with db.read() as connection:
        nodes_now, jobs_now = _aside(connection, nodes.c.name), _aside(connection, jobs.c.uid)
    if nodes_now == dict(parts.nodes) and not jobs_now and not parts.jobs:
        return []
    with db.write(now_s) as tx:
        return set_aside_in(tx, parts)


def set_aside_in(tx: Transaction, parts: Parts) -> list[str]:
    """The same in a transaction that also writes other things."""
    return [*_nodes(tx, parts), *_jobs(tx, parts)]


def _aside(connection: Connection, key: Column[str]) -> dict[str, str]:
    """Those that are aside now, and why."""
    why = key.table.c.mismatch
    rows = connection.execute(sa.select(key, why).where(why != ""))
    return dict(rows.all())


def _nodes(tx: Transaction, parts: Parts) -> Iterator[str]:
    now = _aside(tx.connection, nodes.c.name)
    known = set(tx.connection.execute(sa.select(nodes.c.name)).scalars())
    for name, why in parts.nodes.items():
        if name in known and now.get(name) != why:
            said = f"takes nothing new, as an audit found: {why}"
            change_node(tx, name, "node.mismatch", said, {"why": why}, {"mismatch": why})
            yield f"node '{name}' {said}"
    for name in sorted(now.keys() - parts.nodes.keys()):
        said = "its books agree again; may take new pods"
        change_node(tx, name, "node.agrees", said, {}, {"mismatch": ""})
        yield f"node '{name}': {said}"


def _jobs(tx: Transaction, parts: Parts) -> Iterator[str]:
    now = _aside(tx.connection, jobs.c.uid)
    columns = (jobs.c.uid, jobs.c.namespace, jobs.c.name, jobs.c.held)
    wanted = sa.select(*columns).where(jobs.c.uid.in_([*parts.jobs]))
    in_line = wanted.where(jobs.c.state.in_(sorted(IN_LINE)), sa.not_(jobs.c.held))
    for row in tx.connection.execute(in_line.order_by(jobs.c.age)).all():
        why = parts.jobs[row.uid]
        control_in(tx, row.namespace, row.name, FactKind.HOLD)
        said = f"is held, as an audit found: {why}"
        _mark(tx, row.uid, row.namespace, row.name, "job.mismatch", said, why)
        yield f"job '{row.namespace}/{row.name}' {said}"
    over = sa.select(*columns, jobs.c.state).where(
        jobs.c.uid.in_(sorted(now.keys() - parts.jobs.keys()))
    )
    for job in tx.connection.execute(over.order_by(jobs.c.age)).all():
        said = "its books agree again; it may start"
        _mark(tx, job.uid, job.namespace, job.name, "job.agrees", said, "")
        if job.state not in FINAL:
            try:
                control_in(tx, job.namespace, job.name, FactKind.RELEASE)
            except StateError:
                continue  # it is on its way out, and will not start
        yield f"job '{job.namespace}/{job.name}': {said}"


def _mark(
    tx: Transaction, uid: str, namespace: str, name: str, kind: str, said: str, why: str
) -> None:
    revision = tx.emit(
        kind, subject_kind="job", namespace=namespace, name=name, uid=uid, message=said
    )
    change = sa.update(jobs).where(jobs.c.uid == uid).values(mismatch=why, revision=revision)
    tx.connection.execute(change)
