"""Reports of faults, of one node or of very many at once, in a few statements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import Row, among, insert_rows, update_rows
from api.store.engine import Database, Transaction
from api.store.errors import NotFound
from api.store.fault_records import escalate, review_lemons
from api.store.faults import FaultView, drain_asked, fault_view, heard_of
from api.store.standing import dead_rails_of, health_words, standings_of
from api.store.tables import facts, node_usage, nodes, pods
from api.store.tables_faults import faults
from api.store.topology import read_topology
from scheduler.errors import Problem, SchedulerError
from scheduler.model.lifecycle import PodState
from scheduler.model.plan import FactKind
from scheduler.model.resources import indices_of
from scheduler.model.standing import FaultAction, NodeFault, NodeStanding
from scheduler.recover.codes import FaultCode
from scheduler.recover.health import Verdict, health_of
from scheduler.topology.dead_rails import rail_count
from scheduler.topology.tree import Topology

SKEW_S = 60.0
"""A report may be so far ahead of the service's clock; it then counts as of now."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is reported of a node, or of every node of a set.

    Attributes:
        gpus: GPU indices; empty = the whole node.
        at_s: Unix seconds at which it happened; None = now.
        set_kind, set_name: Of the set that it is reported of; "" = the node.
    """

    code: FaultCode
    message: str = ""
    gpus: tuple[int, ...] = ()
    rail: int | None = None
    at_s: float | None = None
    by: str = ""
    set_kind: str = ""
    set_name: str = ""

    @property
    def gpu_mask(self) -> int:
        return sum(1 << gpu for gpu in set(self.gpus))

    @property
    def stays_open(self) -> bool:
        """Whether it still bears on the node after it happened: it is no event alone."""
        lasting = self.code.action in {FaultAction.REPLACE, FaultAction.DRAIN_RESET}
        return lasting or self.rail is not None

    def when_s(self, now_s: float) -> float:
        """Unix seconds at which it happened, not later than now."""
        return now_s if self.at_s is None else min(self.at_s, now_s)

    @property
    def said(self) -> str:
        """`xid_79: Xid 79: GPU has fallen off the bus (GPU 3): seen in the kernel log`."""
        mask, where = self.gpu_mask, ""
        if mask:
            where = f" (GPU {', '.join(map(str, indices_of(mask)))})"
        if self.rail is not None:
            where += f" (rail {self.rail})"
        of = f", of {self.set_kind} '{self.set_name}'" if self.set_kind else ""
        detail = f": {self.message}" if self.message else ""
        return f"{self.code.name}: {self.code.words}{where}{of}{detail}"


@dataclass(slots=True)
class _Rows:
    """What is to be written, gathered node by node."""

    faults: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    drains: list[Row] = field(default_factory=list)


def report_fault(
    db: Database, node: str, report: Report, *, now_s: float
) -> tuple[FaultView, bool]:
    """Write down a fault of a node, with what follows from it.

    Returns:
        The fault, and whether it is new: the same again while it is open is the same fault.

    Raises:
        NotFound: If there is no such node.
        SchedulerError: If the node has no such GPU or rail, or the time lies ahead.
    """
    (found,) = report_faults(db, [node], report, now_s=now_s)
    return found


def report_faults(
    db: Database, names: Sequence[str], report: Report, *, now_s: float
) -> list[tuple[FaultView, bool]]:
    """The same of several nodes at once, all or none."""

    def work(tx: Transaction) -> list[tuple[FaultView, bool]]:
        topology = read_topology(db, tx.connection).topology
        problems = [p for name in names for p in _problems(topology, name, report)]
        problems += _late(report, now_s)
        if problems:
            raise SchedulerError(problems)
        known = _same(tx.connection, names, report)
        fresh = [name for name in dict.fromkeys(names) if name not in known]
        made = _write(tx, fresh, report)
        if fresh and not report.set_kind:
            review_lemons(tx, fresh)
        escalate(tx, topology, fresh)
        return [(known[n], False) if n in known else (made[n], True) for n in names]

    return db.grouped(work, now_s)


def _problems(topology: Topology, node: str, report: Report) -> list[Problem]:
    index = topology.node_index.get(node)
    if index is None:
        raise NotFound("node", node[:253])
    kind, problems = topology.types[index], []
    wrong = [gpu for gpu in report.gpus if gpu >= kind.gpus]
    if wrong:
        allowed = f"0 to {kind.gpus - 1}" if kind.gpus else "none: it has no GPUs"
        problems.append(Problem("gpus", f"found {wrong[0]}; those of node '{node}' are {allowed}"))
    rails = rail_count(kind)
    if report.rail is not None and report.rail >= rails:
        allowed = f"0 to {rails - 1}" if rails else "none: it has no rails"
        problems.append(
            Problem("rail", f"found {report.rail}; those of node '{node}' are {allowed}")
        )
    return problems


def _late(report: Report, now_s: float) -> list[Problem]:
    if report.at_s is None or report.at_s <= now_s + SKEW_S:
        return []
    return [Problem("at", f"lies ahead by {report.at_s - now_s:.0f} s; leave it out for now")]


def _same(connection: Connection, names: Sequence[str], report: Report) -> dict[str, FaultView]:
    """The same fault of those nodes of which it is open already."""
    query = sa.select(faults).where(
        among(connection, faults.c.node, names),
        faults.c.cleared_at.is_(None),
        faults.c.code == report.code.name,
        faults.c.gpu_mask == report.gpu_mask,
        faults.c.rail.is_(None) if report.rail is None else faults.c.rail == report.rail,
        faults.c.set_kind == report.set_kind,
        faults.c.set_name == report.set_name,
    )
    found: dict[str, FaultView] = {}
    for row in connection.execute(query.order_by(faults.c.id)):
        found.setdefault(row.node, fault_view(row))
    return found


def _write(tx: Transaction, names: Sequence[str], report: Report) -> dict[str, FaultView]:
    if not names:
        return {}
    connection, rows = tx.connection, _Rows()
    standings = standings_of(connection, names)
    busy = sa.select(node_usage.c.node).where(
        among(connection, node_usage.c.node, names), node_usage.c.pods > 0
    )
    held = set(connection.execute(busy).scalars())
    for name in names:
        _gather(tx, rows, name, standings[name], report, is_empty=name not in held)
    insert_rows(connection, faults, rows.faults)
    update_rows(connection, nodes, "name", rows.nodes)
    update_rows(connection, nodes, "name", rows.drains)
    if report.code.action is FaultAction.RESTART_JOB:
        _restart_pods(tx, names, report)
    made = among(connection, faults.c.id, [row["id"] for row in rows.faults])
    return {row.node: fault_view(row) for row in connection.execute(sa.select(faults).where(made))}


def _gather(
    tx: Transaction,
    rows: _Rows,
    name: str,
    before: NodeStanding,
    report: Report,
    *,
    is_empty: bool,
) -> None:
    """The fault of one node, and its health and drain that follow from it."""
    revision = tx.emit(
        "node.fault",
        subject_kind="node",
        name=name,
        uid=name,
        message=report.said,
        body=_body(report),
    )
    rows.faults.append(_fault_row(name, report, revision, tx.now_s))
    standing = before
    if report.stays_open:
        open_ = (*before.faults, _node_fault(report, revision, tx.now_s))
        standing = replace(before, faults=open_, dead_rails=dead_rails_of(open_))
    verdict = health_of(
        standing.faults,
        heard_of(standing),
        standing.health,
        fenced=standing.fenced,
        is_empty=is_empty,
    )
    revision = _emit_health(tx, name, standing, verdict) or revision
    if verdict.drain and standing.drain is None:
        kind, message, body, values = drain_asked(standing, verdict.why, tx.now_s)
        revision = tx.emit(
            kind, subject_kind="node", name=name, uid=name, message=message, body=body
        )
        rows.drains.append({"name": name, **values})
    since_s = standing.since_s if verdict.health is standing.health else tx.now_s
    rows.nodes.append(
        {
            "name": name,
            "health": verdict.health,
            "health_why": verdict.why,
            "health_since": since_s,
            "fenced": verdict.fenced,
            "silent_s": standing.silent_s if verdict.by_silence else None,
            "revision": revision,
        }
    )


def _emit_health(
    tx: Transaction, name: str, standing: NodeStanding, verdict: Verdict
) -> int | None:
    """The event of a new health; None when it is as it was."""
    was = (standing.health, standing.why, standing.fenced)
    if was == (verdict.health, verdict.why, verdict.fenced):
        return None
    message, body = health_words(
        standing.health, verdict.health, verdict.why, fenced=verdict.fenced
    )
    return tx.emit(
        "node.health", subject_kind="node", name=name, uid=name, message=message, body=body
    )


def _body(report: Report) -> dict[str, object]:
    code = report.code
    body: dict[str, object] = {"code": code.name, "action": code.action, "by": report.by}
    body |= {"gpus": indices_of(report.gpu_mask)} if report.gpus else {}
    body |= {} if report.rail is None else {"rail": report.rail}
    body |= {"set_kind": report.set_kind, "set_name": report.set_name} if report.set_kind else {}
    return body


def _node_fault(report: Report, id_: int, now_s: float) -> NodeFault:
    return NodeFault(
        id=id_,
        code=report.code.name,
        at_s=report.when_s(now_s),
        action=report.code.action,
        detail=report.message,
        gpus=tuple(indices_of(report.gpu_mask)),
        rail=report.rail,
        set_kind=report.set_kind,
        set_name=report.set_name,
    )


def _fault_row(name: str, report: Report, revision: int, now_s: float) -> dict[str, object]:
    return {
        "id": revision,
        "node": name,
        "code": report.code.name,
        "action": report.code.action,
        "at": report.when_s(now_s),
        "message": report.message,
        "gpu_mask": report.gpu_mask,
        "rail": report.rail,
        "set_kind": report.set_kind,
        "set_name": report.set_name,
        "reported_by": report.by,
        "reported_at": now_s,
        "cleared_at": None if report.stays_open else now_s,
        "cleared_by": "" if report.stays_open else report.by,
    }


def _restart_pods(tx: Transaction, names: Iterable[str], report: Report) -> None:
    """Tell the leader which pods have to start anew."""
    running = pods.c.state.in_((PodState.BOUND, PodState.RUNNING))
    columns = (pods.c.uid, pods.c.job_uid, pods.c.namespace, pods.c.name, pods.c.node)
    query = sa.select(*columns, pods.c.attempt, pods.c.gpu_mask).where(
        among(tx.connection, pods.c.node, list(names)), running
    )
    told: list[Row] = []
    for row in tx.connection.execute(query.order_by(pods.c.uid)):
        if report.gpu_mask and not row.gpu_mask & report.gpu_mask:
            continue
        revision = tx.emit(
            "pod.fault",
            subject_kind="pod",
            namespace=row.namespace,
            name=row.name,
            uid=row.uid,
            message=f"has to start anew, as node '{row.node}' had a fault {report.said}",
            body={"node": row.node, "attempt": row.attempt},
        )
        told.append(
            {
                "id": revision,
                "kind": FactKind.FAULT,
                "job_uid": row.job_uid,
                "pod_uid": row.uid,
                "attempt": row.attempt,
                "at": tx.now_s,
            }
        )
    insert_rows(tx.connection, facts, told)
