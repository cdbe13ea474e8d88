"""Nodes: read them, and say that they take no new pods."""

from collections.abc import Callable, Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.schemas.spec import load_taints
from api.store.bulk import among
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import NotFound
from api.store.inventory import import_inventory
from api.store.paging import clamp, encode_cursor, page_of, str_cursor
from api.store.rows import AnyRow, AnySelect
from api.store.standing import open_faults, standing_from
from api.store.tables import node_types, node_usage, nodes, pods
from api.store.topology import load_labels, read_topology
from api.store.views import NodeUsage, NodeView, Page
from scheduler.model.lifecycle import LIVE_POD
from scheduler.model.node import Health
from scheduler.model.standing import NodeFault
from scheduler.topology.tree import Topology

__all__ = [
    "cordon_node",
    "get_node",
    "import_inventory",
    "jobs_by_node",
    "list_nodes",
    "uncordon_node",
    "usage",
]


def get_node(db: Database, name: str) -> NodeView:
    """A node by its name.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return _get(db, connection, name)


def list_nodes(
    db: Database,
    *,
    node_type: str | None = None,
    domain: tuple[str, str] | None = None,
    limit: int = 500,
    cursor: str | None = None,
) -> Page[NodeView]:
    """Nodes by name.

    Args:
        domain: Only nodes of this (level, domain name).

    Raises:
        NotFound: If there is no such domain.
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = []
    if node_type is not None:
        wanted.append(nodes.c.type == node_type)
    if cursor is not None:
        wanted.append(nodes.c.name > str_cursor(cursor))
    with db.read() as connection:
        topology = read_topology(db, connection).topology
        if domain is not None:
            members = _members(topology, *domain)
            after = str_cursor(cursor) if cursor is not None else ""
            wanted.append(nodes.c.name.in_(sorted(n for n in members if n > after)[: size + 1]))
        revision = read_revision(connection)
        query = _select().where(*wanted).order_by(nodes.c.name).limit(size + 1)
        rows = connection.execute(query).all()
        view = _viewer(connection, topology)
    return page_of(
        rows,
        size,
        revision=revision,
        view=view,
        cursor_of=lambda row: encode_cursor(row._mapping["name"]),
    )


def read_nodes(
    db: Database, connection: Connection, names: Collection[str] | None
) -> list[NodeView]:
    """Nodes by name as a snapshot has them; of these names alone if they are given."""
    query = _select().order_by(nodes.c.name)
    if names is not None:
        query = query.where(among(connection, nodes.c.name, names))
    view = _viewer(connection, read_topology(db, connection).topology)
    return [view(row) for row in connection.execute(query)]


def usage(db: Database) -> tuple[int, dict[str, NodeUsage]]:
    """The revision, and what is in use of every node by name; cheap."""
    columns = (node_usage.c.gpu_mask_all, node_usage.c.gpu_mask_used, node_usage.c.pods)
    marks = (
        nodes.c.health,
        nodes.c.cordon_at,
        nodes.c.drain_at,
        nodes.c.mismatch,
        nodes.c.quarantined_until,
    )
    query = sa.select(nodes.c.name, *columns, *marks).join(
        node_usage, node_usage.c.node == nodes.c.name
    )
    with db.read() as connection:
        revision = read_revision(connection)
        rows = connection.execute(query).all()
    return revision, {
        name: NodeUsage(name, all_, used, count, Health(health), _aside_of(health, *marks_of_node))
        for name, all_, used, count, health, *marks_of_node in rows
    }


def jobs_by_node(db: Database) -> dict[str, tuple[str, ...]]:
    """Uids of the jobs with live pods on each node that has any."""
    query = (
        sa.select(pods.c.node, pods.c.job_uid)
        .where(pods.c.state.in_(sorted(LIVE_POD)))
        .distinct()
        .order_by(pods.c.node, pods.c.job_uid)
    )
    found: dict[str, list[str]] = {}
    with db.read() as connection:
        for node, uid in connection.execute(query):
            found.setdefault(node, []).append(uid)
    return {node: tuple(uids) for node, uids in found.items()}


def cordon_node(db: Database, name: str, *, reason: str, by: str, now_s: float) -> NodeView:
    """Have a node take no new pods; what runs there stays. The same again changes nothing.

    Raises:
        NotFound: If there is no such node.
    """

    def work(tx: Transaction) -> NodeView:
        node = _get(db, tx.connection, name)
        if node.cordon is not None and (node.cordon["reason"], node.cordon["by"]) == (reason, by):
            return node
        message = f"takes no new pods: {reason}" if reason else "takes no new pods"
        revision = _emit(tx, name, "node.cordoned", message, {"reason": reason, "by": by})
        values = {"cordon_reason": reason, "cordon_by": by, "cordon_at": tx.now_s}
        _update(tx, name, values | {"revision": revision})
        return _get(db, tx.connection, name)

    return db.grouped(work, now_s)


def uncordon_node(db: Database, name: str, *, now_s: float) -> NodeView:
    """Let a node take new pods again. The same again changes nothing.

    Raises:
        NotFound: If there is no such node.
    """

    def work(tx: Transaction) -> NodeView:
        node = _get(db, tx.connection, name)
        if node.cordon is None:
            return node
        revision = _emit(tx, name, "node.uncordoned", "may take new pods", {})
        values = {"cordon_reason": None, "cordon_by": None, "cordon_at": None}
        _update(tx, name, values | {"revision": revision})
        return _get(db, tx.connection, name)

    return db.grouped(work, now_s)


def _aside_of(
    health: str,
    cordon_at: float | None,
    drain_at: float | None,
    mismatch: str,
    quarantined_until: float | None,
) -> str | None:
    """As the core's `aside_of`; quarantines that are over end a little later here."""
    if health != Health.HEALTHY:
        return health
    if drain_at is not None:
        return "draining"
    if cordon_at is not None:
        return "cordoned"
    if mismatch:
        return "mismatch"
    return "quarantined" if quarantined_until is not None else None


def _select() -> AnySelect:
    columns = (node_usage.c.gpu_mask_all, node_usage.c.gpu_mask_used, node_usage.c.pods)
    amounts = (node_usage.c.cpu_milli_all, node_usage.c.memory_mib_all)
    return sa.select(nodes, *columns, *amounts).join(node_usage, node_usage.c.node == nodes.c.name)


def _get(db: Database, connection: Connection, name: str) -> NodeView:
    row = connection.execute(_select().where(nodes.c.name == name)).one_or_none()
    if row is None:
        raise NotFound("node", name)
    return _viewer(connection, read_topology(db, connection).topology)(row)


def _members(topology: Topology, level: str, name: str) -> list[str]:
    depth = topology.level_index.get(level)
    if depth is None:
        raise NotFound("level", level)
    row = topology.levels[depth]
    if not name or name not in row.names:
        raise NotFound("domain", f"{level}/{name}")
    domain = row.names.index(name)
    return [topology.nodes[i].name for i in range(row.node_lo[domain], row.node_hi[domain])]


def _viewer(connection: Connection, topology: Topology) -> Callable[[AnyRow], NodeView]:
    types = dict(connection.execute(sa.select(node_types.c.name, node_types.c.gpu)).all())
    of_nodes = open_faults(connection)
    return lambda row: _view(row, topology, types, of_nodes)


def _view(
    row: AnyRow,
    topology: Topology,
    gpu_of_type: Mapping[str, str],
    of_nodes: Mapping[str, tuple[NodeFault, ...]],
) -> NodeView:
    r = row._mapping
    index = topology.node_index.get(r["name"])
    cordon = {"reason": r["cordon_reason"], "by": r["cordon_by"], "at": r["cordon_at"]}
    drain = {"deadline": r["drain_deadline"], "at": r["drain_at"], "done": not r["pods"]}
    drain |= {"reason": r["drain_why"], "by": r["drain_by"]}
    return NodeView(
        name=r["name"],
        type=r["type"],
        gpu=gpu_of_type.get(r["type"], ""),
        gpus=r["gpu_mask_all"].bit_count(),
        gpus_free=(r["gpu_mask_all"] & ~r["gpu_mask_used"]).bit_count(),
        gpu_mask_used=r["gpu_mask_used"],
        health=Health(r["health"]),
        cordon=cordon if r["cordon_at"] is not None else None,
        drain=drain if r["drain_at"] is not None else None,
        places={} if index is None else topology.domains_of(index),
        labels=load_labels(r["labels"]),
        taints=load_taints(r["taints"]),
        pods=r["pods"],
        cpu_milli=r["cpu_milli_all"],
        memory_mib=r["memory_mib_all"],
        revision=r["revision"],
        standing=standing_from(row, of_nodes.get(r["name"], ())),
    )


def _emit(tx: Transaction, name: str, kind: str, message: str, body: dict[str, object]) -> int:
    return tx.emit(kind, subject_kind="node", name=name, uid=name, message=message, body=body)


def _update(tx: Transaction, name: str, values: dict[str, object]) -> None:
    tx.connection.execute(sa.update(nodes).where(nodes.c.name == name).values(**values))
