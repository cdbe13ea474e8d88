"""Faults: what is reported of nodes, what follows from it for them, and the list of it all.

A report is one transaction: the fault, the node's health that follows from it, the drain that it
asks for, and a fact for each pod that has to start anew. What becomes of jobs is the leader's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.engine import Database, Transaction, read_revision
from api.store.errors import NotFound
from api.store.fault_records import escalate
from api.store.paging import clamp, decode_cursor, encode_cursor, page_of
from api.store.rows import AnyRow
from api.store.standing import change_node, node_fault, set_verdict, standing_of
from api.store.tables import node_usage, nodes
from api.store.tables_faults import faults
from api.store.topology import read_topology
from api.store.views import Page
from scheduler.model.node import Health
from scheduler.model.standing import FaultAction, NodeFault, NodeStanding
from scheduler.recover.codes import CODES
from scheduler.recover.health import Heard, health_of

BY_FAULT = "fault"
"""Who drains a node because of a fault; such a drain ends with the fault."""

KEPT_S = 400 * 86_400.0
"""How long a fault is remembered after it was cleared: a year and a month."""


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault as it stands.

    Attributes:
        reported_at: Unix seconds; `fault.at_s` is when it happened.
        cleared_at: None while it is open.
    """

    fault: NodeFault
    node: str
    reported_by: str
    reported_at: float
    cleared_at: float | None
    cleared_by: str


def clear_fault(db: Database, node: str, fault_id: int, *, by: str, now_s: float) -> FaultView:
    """Say that a fault is over; a second time does nothing.

    Raises:
        NotFound: If the node has no such fault.
    """

    def work(tx: Transaction) -> FaultView:
        view = _get(tx.connection, node, fault_id)
        if view.cleared_at is not None:
            return view
        clear(tx, node, [view.fault], by=by)
        escalate(tx, read_topology(db, tx.connection).topology, [node])
        return _get(tx.connection, node, fault_id)

    return db.grouped(work, now_s)


def clear(tx: Transaction, node: str, these: Iterable[NodeFault], *, by: str) -> None:
    """Close open faults of a node, with an event each, and judge its health anew."""
    before = standing_of(tx.connection, node)
    for fault in these:
        body = {"id": fault.id, "code": fault.code, "by": by}
        change_node(tx, node, "node.fault_cleared", f"{fault.code} is over", body, {})
        done = {"cleared_at": tx.now_s, "cleared_by": by}
        tx.connection.execute(sa.update(faults).where(faults.c.id == fault.id).values(**done))
    judge_cleared(tx, node, before)


def get_fault(db: Database, node: str, fault_id: int) -> FaultView:
    """A fault of a node.

    Raises:
        NotFound: If it has none of that number.
    """
    with db.read() as connection:
        return _get(connection, node, fault_id)


def list_faults(
    db: Database,
    *,
    node: str | None = None,
    code: str | None = None,
    is_open: bool | None = None,
    limit: int = 500,
    cursor: str | None = None,
) -> Page[FaultView]:
    """Faults, oldest first.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = []
    if node is not None:
        wanted.append(faults.c.node == node)
    if code is not None:
        wanted.append(faults.c.code == code)
    if is_open is not None:
        open_ = faults.c.cleared_at.is_(None)
        wanted.append(open_ if is_open else ~open_)
    if cursor is not None:
        wanted.append(faults.c.id > decode_cursor(cursor, int)[0])
    with db.read() as connection:
        revision = read_revision(connection)
        query = sa.select(faults).where(*wanted).order_by(faults.c.id).limit(size + 1)
        rows = connection.execute(query).all()
    return page_of(
        rows,
        size,
        revision=revision,
        view=fault_view,
        cursor_of=lambda row: encode_cursor(row._mapping["id"]),
    )


def forget_faults(db: Database, *, now_s: float) -> int:
    """Forget faults that were cleared long ago; how many."""
    with db.write_quietly() as connection:
        old = sa.delete(faults).where(faults.c.cleared_at < now_s - KEPT_S)
        return connection.execute(old).rowcount


# -- what follows ---------------------------------------------------------------------------------


def judge(tx: Transaction, node: str, *, passed: bool = False) -> None:
    """Write down the health that follows from a node's open faults, and the drain they ask for.

    Args:
        passed: Its agent says that the machine passed its check.
    """
    standing = standing_of(tx.connection, node)
    if passed:
        mended = [f for f in standing.faults if f.action is FaultAction.DRAIN_RESET]
        if mended:
            clear(tx, node, mended, by="agent")
            return
    _write(tx, node, standing, heard_of(standing))


def judge_cleared(tx: Transaction, node: str, before: NodeStanding) -> None:
    """The same after faults were cleared.

    A machine that was given up and has an agent comes back when that is heard: pods that nobody
    wants any more may run there, and only the agent knows.
    """
    standing = standing_of(tx.connection, node)
    if before.is_gone and standing.has_agent:
        _write(tx, node, replace(standing, health=Health.LOST), Heard.LOST)
    else:
        _write(tx, node, standing, heard_of(standing))


def set_apart_emptied(tx: Transaction) -> None:
    """Set apart, to be tested, the nodes that a fault has had drained and that are empty now."""
    emptied = (
        sa.select(faults.c.node)
        .join(nodes, nodes.c.name == faults.c.node)
        .join(node_usage, node_usage.c.node == faults.c.node)
        .where(
            faults.c.cleared_at.is_(None),
            faults.c.action == FaultAction.DRAIN_RESET,
            nodes.c.health.in_((Health.HEALTHY, Health.SUSPECT)),
            node_usage.c.pods == 0,
        )
        .distinct()
        .order_by(faults.c.node)
    )
    for node in list(tx.connection.execute(emptied).scalars()):
        judge(tx, node)


def heard_of(standing: NodeStanding) -> Heard:
    """What is known of the agent, by the health it has given the node."""
    if not standing.has_agent:
        return Heard.NONE
    silent = {Health.SUSPECT: Heard.SUSPECT, Health.LOST: Heard.LOST}
    return silent.get(standing.health, Heard.HEARD)


def _write(tx: Transaction, node: str, standing: NodeStanding, heard: Heard) -> None:
    empty = sa.select(node_usage.c.pods == 0).where(node_usage.c.node == node)
    verdict = health_of(
        standing.faults,
        heard,
        standing.health,
        fenced=standing.fenced,
        is_empty=bool(tx.connection.execute(empty).scalar_one()),
    )
    set_verdict(tx, node, verdict, standing.silent_s)
    if verdict.drain and standing.drain is None:
        change_node(tx, node, *drain_asked(standing, verdict.why, tx.now_s))
    elif standing.drain is not None and standing.drain.by == BY_FAULT and not verdict.drain:
        change = {"drain_at": None, "drain_deadline": None, "drain_why": "", "drain_by": ""}
        change_node(tx, node, "node.undrained", "may take new pods", {"by": BY_FAULT}, change)


def drain_asked(
    standing: NodeStanding, why: str, now_s: float
) -> tuple[str, str, dict[str, object], dict[str, object]]:
    """The drain that open faults ask for: kind, message and body of its event, and the columns."""
    asked = [CODES[f.code].deadline_s for f in standing.faults if f.code in CODES]
    limits = [seconds for seconds in asked if seconds is not None]
    deadline = now_s + min(limits) if limits else None
    body: dict[str, object] = {"reason": why, "by": BY_FAULT, "deadline": deadline}
    values: dict[str, object] = {
        "drain_at": now_s,
        "drain_deadline": deadline,
        "drain_why": why,
        "drain_by": BY_FAULT,
    }
    return "node.draining", f"is drained: {why}", body, values


def _get(connection: Connection, node: str, fault_id: int) -> FaultView:
    query = sa.select(faults).where(faults.c.node == node, faults.c.id == fault_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        if connection.execute(sa.select(nodes.c.name).where(nodes.c.name == node)).first() is None:
            raise NotFound("node", node[:253])
        raise NotFound("fault", f"{node}/{fault_id}")
    return fault_view(row)


def fault_view(row: AnyRow) -> FaultView:
    r = row._mapping
    return FaultView(
        fault=node_fault(row),
        node=r["node"],
        reported_by=r["reported_by"],
        reported_at=r["reported_at"],
        cleared_at=r["cleared_at"],
        cleared_by=r["cleared_by"],
    )
