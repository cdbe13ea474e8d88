"""What follows from many faults: lemons, bad scale-up domains, and how often machines fail."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among
from api.store.engine import Database, Transaction
from api.store.policy import read_policy
from api.store.standing import change_node
from api.store.tables import events, nodes
from api.store.tables_faults import faults
from scheduler.model.node import Health
from scheduler.model.standing import FaultAction
from scheduler.policy import Policy
from scheduler.recover.lemons import drains_domain, is_lemon
from scheduler.topology.tree import Topology

BY_ESCALATION = "escalation"
"""Who drains the rest of a domain; such a drain ends when enough of it is well again."""

_UNDRAINED = {"drain_at": None, "drain_deadline": None, "drain_why": "", "drain_by": ""}


def review_lemons(tx: Transaction, names: Iterable[str]) -> None:
    """Mark nodes that fail far more often than their like, and those that do no more.

    Counted are faults of the machine itself: not those of its whole rack or switch, and not what a
    job's own program does to a GPU.
    """
    policy = read_policy(tx.connection)
    since_s = tx.now_s - policy.lemon_window_s
    own = (
        faults.c.at > since_s,
        faults.c.set_kind == "",
        faults.c.action != FaultAction.RESTART_JOB,
    )
    count = sa.func.count()
    of_fleet = tx.connection.execute(sa.select(count).select_from(faults).where(*own)).scalar_one()
    fleet = tx.connection.execute(sa.select(count).select_from(nodes)).scalar_one()
    wanted = list(dict.fromkeys(names))
    query = sa.select(faults.c.node, count).where(*own, among(tx.connection, faults.c.node, wanted))
    by_node = tx.connection.execute(query.group_by(faults.c.node))
    found = {name: int(number) for name, number in by_node}
    marked = sa.select(nodes.c.name).where(nodes.c.lemon)
    lemons = set(tx.connection.execute(marked).scalars())
    for name in wanted:
        mine = found.get(name, 0)
        now = is_lemon(mine, of_fleet, max(fleet, 1), policy)
        if now != (name in lemons):
            rate = f"{mine} faults of its own, {of_fleet} of {fleet} nodes"
            said = f"fails far more than others: {rate}" if now else f"is no lemon any more: {rate}"
            body: dict[str, object] = {"lemon": now, "faults": mine, "faults_of_all": of_fleet}
            change_node(tx, name, "node.lemon", said, body, {"lemon": now})


def review_all_lemons(db: Database, *, now_s: float) -> None:
    """The same of every node that is marked: time passes."""
    marked = sa.select(nodes.c.name).where(nodes.c.lemon).order_by(nodes.c.name)
    with db.read() as connection:
        found = list(connection.execute(marked).scalars())
    if found:
        db.grouped(lambda tx: review_lemons(tx, found), now_s)


def escalate(tx: Transaction, topology: Topology, names: Iterable[str]) -> None:
    """Drain the scale-up domains of these nodes of which enough are bad, or let them be again."""
    policy = read_policy(tx.connection)
    if not policy.escalate_nodes:
        return
    domains = {_domain_of(topology, name) for name in names} - {()}
    for members in sorted(domains):
        if len(members) > 1:
            _review_domain(tx, policy, members)


def _domain_of(topology: Topology, name: str) -> tuple[str, ...]:
    """The nodes of a node's scale-up domain; none where it is a domain by itself."""
    index = topology.node_index[name]
    depth = topology.level_index.get(topology.types[index].scale_up or topology.scale_up)
    if depth is None or depth == len(topology.levels) - 1:
        return ()
    level, domain = topology.levels[depth], topology.place[depth][index]
    if not level.names[domain]:
        return ()
    return tuple(n.name for n in topology.nodes[level.node_lo[domain] : level.node_hi[domain]])


def _review_domain(tx: Transaction, policy: Policy, members: Sequence[str]) -> None:
    bad = _bad_of(tx.connection, members)
    columns = (nodes.c.name, nodes.c.drain_at, nodes.c.drain_by)
    mine = among(tx.connection, nodes.c.name, members)
    rows = tx.connection.execute(sa.select(*columns).where(mine).order_by(nodes.c.name)).all()
    if drains_domain(len(bad), len(members), policy):
        why = f"{len(bad)} of {len(members)} nodes of its scale-up domain are bad"
        for row in rows:
            if row.drain_at is None:
                values = {"drain_at": tx.now_s, "drain_why": why, "drain_by": BY_ESCALATION}
                body = {"reason": why, "by": BY_ESCALATION, "deadline": None}
                said = f"its pods are to leave: {why}"
                change_node(tx, row.name, "node.draining", said, body, values)
        return
    for row in rows:
        if row.drain_at is not None and row.drain_by == BY_ESCALATION:
            body = {"by": BY_ESCALATION}
            change_node(tx, row.name, "node.undrained", "may take new pods", body, _UNDRAINED)


def _bad_of(connection: Connection, members: Sequence[str]) -> set[str]:
    """Those that are lost or out, or are to be reset."""
    mine = among(connection, nodes.c.name, members)
    gone = nodes.c.health.in_((Health.LOST, Health.OUT))
    found = set(connection.execute(sa.select(nodes.c.name).where(mine, gone)).scalars())
    asks = faults.c.action.in_((FaultAction.DRAIN_RESET, FaultAction.REPLACE))
    open_ = (faults.c.cleared_at.is_(None), asks, among(connection, faults.c.node, members))
    return found | set(connection.execute(sa.select(faults.c.node).where(*open_)).scalars())


@dataclass(frozen=True, slots=True)
class Observed:
    """How often machines failed, and how long they were away.

    Attributes:
        faults: Of single machines that had to be replaced or reset, within `span_s` until now.
        repairs: Those of them that are over; `repair_s` is their mean length, 0 when there is none.
    """

    nodes: int
    faults: int
    span_s: float
    repairs: int
    repair_s: float


def observed_faults(db: Database, *, now_s: float) -> Observed:
    """What was observed within the policy's window, or as long as there is anything to look at."""
    with db.read() as connection:
        window_s = read_policy(connection).lemon_window_s
        oldest_fault = sa.select(sa.func.min(faults.c.at)).scalar_subquery()
        # The oldest event by its number: an index has it, and times follow the order of events.
        oldest_event = sa.select(events.c.at).order_by(events.c.revision).limit(1).scalar_subquery()
        first = connection.execute(sa.select(oldest_event, oldest_fault)).one()
        fleet = connection.execute(sa.select(sa.func.count()).select_from(nodes)).scalar_one()
        known = [at for at in first if at is not None]
        span_s = min(window_s, now_s - min(known)) if known else 0.0
        query = sa.select(faults.c.at, faults.c.cleared_at).where(
            faults.c.at > now_s - window_s,
            faults.c.set_kind == "",
            faults.c.action.in_((FaultAction.DRAIN_RESET, FaultAction.REPLACE)),
        )
        rows = connection.execute(query).all()
    lengths = [row.cleared_at - row.at for row in rows if row.cleared_at is not None]
    mean_s = sum(lengths) / len(lengths) if lengths else 0.0
    return Observed(fleet, len(rows), max(span_s, 0.0), len(lengths), mean_s)
