"""How nodes stand: read as the core's values, and changed with an event like every other fact.

Each change bumps the node's revision, so that followers and commits see it. What it means, and
what health follows from what, is the core's (`scheduler/recover`); here it is only written down.
"""

from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among
from api.store.errors import NotFound
from api.store.losses import note_loss
from api.store.rows import AnyRow, AnySelect
from api.store.tables import nodes
from api.store.tables_faults import faults
from api.store.transaction import Transaction
from scheduler.model.ids import NodeId
from scheduler.model.node import Health
from scheduler.model.resources import indices_of
from scheduler.model.standing import GONE, PLAIN, Drain, FaultAction, NodeFault, NodeStanding
from scheduler.recover.health import Verdict

STANDING_COLUMNS = (
    nodes.c.name,
    nodes.c.health,
    nodes.c.health_since,
    nodes.c.health_why,
    nodes.c.cordon_at,
    nodes.c.drain_at,
    nodes.c.drain_deadline,
    nodes.c.drain_why,
    nodes.c.drain_by,
    nodes.c.fenced,
    nodes.c.has_agent,
    nodes.c.lemon,
    nodes.c.quarantined_until,
    nodes.c.mismatch,
    nodes.c.silent_s,
)
"""What `standing_from` reads, in this order."""

_OPEN = faults.c.cleared_at.is_(None)


def standing_of(connection: Connection, node: str) -> NodeStanding:
    """How a node stands.

    Raises:
        NotFound: If there is no such node.
    """
    row = connection.execute(_select().where(nodes.c.name == node)).one_or_none()
    if row is None:
        raise NotFound("node", node)
    return standing_from(row, open_faults(connection, [node]).get(node, ()))


def all_standings(connection: Connection) -> dict[NodeId, NodeStanding]:
    """Every node that is not `PLAIN`, by name."""
    found = _standings(connection.execute(_TOLD), open_faults(connection))
    return {name: standing for name, standing in found.items() if standing != PLAIN}


def standings_of(connection: Connection, names: Collection[str]) -> dict[str, NodeStanding]:
    """Of these nodes, plain or not; names that no node has are left out."""
    rows = connection.execute(_select().where(among(connection, nodes.c.name, names))).all()
    of_nodes = open_faults(connection, names)
    return {row.name: standing_from(row, of_nodes.get(row.name, ())) for row in rows}


def changed_standings(connection: Connection, first: int, last: int) -> dict[NodeId, NodeStanding]:
    """Of every node that changed in these revisions, plain or not."""
    span = {"first": first, "last": last}
    # After an import all nodes are there, and most are plain: of these the name is enough.
    names = connection.execute(_CHANGED, span).scalars().all()
    rows = connection.execute(_CHANGED_TOLD, span).all()
    found = _standings(rows, open_faults(connection, [row.name for row in rows]))
    return {NodeId(name): found.get(NodeId(name), PLAIN) for name in names}


def open_faults(
    connection: Connection, names: Iterable[str] | None = None
) -> dict[str, tuple[NodeFault, ...]]:
    """Open faults by node, each oldest first; of all nodes unless some are named."""
    query = sa.select(faults).where(_OPEN).order_by(faults.c.id)
    if names is not None:
        wanted = list(names)
        if not wanted:
            return {}
        query = query.where(among(connection, faults.c.node, wanted))
    found: dict[str, list[NodeFault]] = {}
    for row in connection.execute(query):
        found.setdefault(row.node, []).append(node_fault(row))
    return {node: tuple(these) for node, these in found.items()}


def node_fault(row: AnyRow) -> NodeFault:
    """A row of the table of faults as the core has it."""
    r = row._mapping
    return NodeFault(
        id=int(r["id"]),
        code=r["code"],
        at_s=r["at"],
        action=FaultAction(r["action"]),
        detail=r["message"],
        gpus=tuple(indices_of(r["gpu_mask"])),
        rail=r["rail"],
        set_kind=r["set_kind"],
        set_name=r["set_name"],
    )


def standing_from(row: AnyRow, of_node: tuple[NodeFault, ...]) -> NodeStanding:
    """A row that has `STANDING_COLUMNS`, with the node's open faults."""
    r = row._mapping
    drain = None
    if r["drain_at"] is not None:
        drain = Drain(r["drain_deadline"], r["drain_why"], r["drain_by"])
    return NodeStanding(
        health=Health(r["health"]),
        since_s=r["health_since"],
        why=r["health_why"],
        cordoned=r["cordon_at"] is not None,
        drain=drain,
        has_agent=bool(r["has_agent"]),
        fenced=bool(r["fenced"]),
        dead_rails=dead_rails_of(of_node),
        faults=of_node,
        lemon=bool(r["lemon"]),
        quarantined_until_s=r["quarantined_until"],
        mismatch=r["mismatch"],
        silent_s=r["silent_s"],
    )


def dead_rails_of(these: Iterable[NodeFault]) -> int:
    """Mask of the rails that faults are about."""
    mask = 0
    for fault in these:
        if fault.rail is not None:
            mask |= 1 << fault.rail
    return mask


def set_health(
    tx: Transaction,
    node: str,
    health: Health,
    why: str,
    *,
    fenced: bool | None = None,
    silent_s: float | None = None,
    more: Mapping[str, object] | None = None,
) -> bool:
    """Write down how a machine is, with an event; the same again changes nothing.

    Args:
        why: In words, for people; part of what is compared, so without a figure that grows.
        fenced: Whether its pods are known to be gone; None = as it was. Only one that is lost or
            out can be.
        silent_s: Of a node that is lost for silence alone: how long that has counted.
        more: Of the event's body.

    Returns:
        Whether that was news.

    Raises:
        NotFound: If there is no such node.
    """
    columns = (nodes.c.health, nodes.c.health_why, nodes.c.fenced)
    query = sa.select(*columns).where(nodes.c.name == node)
    row = tx.connection.execute(query).one_or_none()
    if row is None:
        raise NotFound("node", node)
    is_fenced = bool(row.fenced) if fenced is None else fenced
    if health not in GONE:
        is_fenced = False
    if (row.health, row.health_why, bool(row.fenced)) == (health, why, is_fenced):
        return False
    body: dict[str, object] = {
        "health": health,
        "was": row.health,
        "why": why,
        "fenced": is_fenced,
        **(more or {}),
    }
    said = f"{health}: {why}" if why else str(health)
    values: dict[str, object] = {"health": health, "health_why": why, "fenced": is_fenced}
    values["silent_s"] = silent_s
    if row.health != health:
        values["health_since"] = tx.now_s
    if health is Health.LOST and row.health != Health.LOST:
        until_s = note_loss(tx, node)
        if until_s is not None:
            values["quarantined_until"] = until_s
            body["quarantined_until"] = until_s
            said += "; it comes and goes, and is kept out of use for a time"
    change_node(tx, node, "node.health", said, body, values)
    return True


def set_verdict(tx: Transaction, node: str, verdict: Verdict, silent_s: float | None) -> bool:
    """The same of what is found to be so; `silent_s` counts where that is for silence alone."""
    return set_health(
        tx,
        node,
        verdict.health,
        verdict.why,
        fenced=verdict.fenced,
        silent_s=silent_s if verdict.by_silence else None,
    )


def health_words(
    was: Health, health: Health, why: str, *, fenced: bool
) -> tuple[str, dict[str, object]]:
    """Message and body of the event about a node's new health."""
    body: dict[str, object] = {"health": health, "was": was, "why": why, "fenced": fenced}
    return (f"{health}: {why}" if why else str(health)), body


def set_agent(tx: Transaction, node: str) -> bool:
    """Write down that an agent runs on a node, with an event; whether that was news."""
    query = sa.select(nodes.c.has_agent).where(nodes.c.name == node)
    if tx.connection.execute(query).scalar_one_or_none() is not False:
        return False
    change_node(tx, node, "node.agent", "an agent runs there", {}, {"has_agent": True})
    return True


def change_node(
    tx: Transaction,
    node: str,
    kind: str,
    message: str,
    body: Mapping[str, object],
    values: Mapping[str, object],
) -> int:
    """Set columns of a node with an event of that kind; the event's revision."""
    revision = tx.emit(
        kind, subject_kind="node", name=node, uid=node, message=message, body=dict(body)
    )
    change = sa.update(nodes).where(nodes.c.name == node).values(**values, revision=revision)
    tx.connection.execute(change)
    return revision


def _standings(
    rows: Iterable[AnyRow], of_nodes: Mapping[str, tuple[NodeFault, ...]]
) -> dict[NodeId, NodeStanding]:
    return {NodeId(row.name): standing_from(row, of_nodes.get(row.name, ())) for row in rows}


def _select() -> AnySelect:
    return sa.select(*STANDING_COLUMNS)


_IS_TOLD = sa.or_(
    nodes.c.health != Health.HEALTHY,
    nodes.c.health_since != 0,
    nodes.c.cordon_at.is_not(None),
    nodes.c.drain_at.is_not(None),
    nodes.c.fenced,
    nodes.c.has_agent,
    nodes.c.lemon,
    nodes.c.quarantined_until.is_not(None),
    nodes.c.mismatch != "",
    nodes.c.name.in_(sa.select(faults.c.node).where(_OPEN)),
)
"""Not plain, most likely; whoever is not in here is plain."""

_TOLD = _select().where(_IS_TOLD).order_by(nodes.c.name)
_IS_CHANGED = nodes.c.revision.between(sa.bindparam("first"), sa.bindparam("last"))
_CHANGED = sa.select(nodes.c.name).where(_IS_CHANGED).order_by(nodes.c.name)
_CHANGED_TOLD = _select().where(_IS_CHANGED, _IS_TOLD).order_by(nodes.c.name)
