"""Nodes whose agents are silent: what that makes of their health is written down."""

from collections.abc import Mapping

import sqlalchemy as sa

from api.store.engine import Transaction
from api.store.errors import Deposed
from api.store.leases import Lease, Leases, read_leases
from api.store.standing import all_standings, set_health, standing_of
from api.store.tables import leader, leases
from scheduler.model.ids import NodeId
from scheduler.model.standing import NodeStanding
from scheduler.recover.health import Heard, health_of

AT_A_TIME = 1_000
"""Nodes of one write; more wait for the next, as others want to write too."""

ONE_BY_ONE = 20
"""So few standings are read one by one; of more, all are."""


def heard_of(book: Leases) -> list[Lease]:
    """When every agent was last heard, as far as this process can know."""
    book.flush()
    with book.database.read() as connection:
        return read_leases(connection)


def write_silence(
    book: Leases, silent: Mapping[str, tuple[Heard, float]], epoch: int, now_s: float
) -> int:
    """Write down what silence makes of nodes; one that was heard meanwhile is left alone.

    Args:
        silent: Node -> how its silence counts, and when it was last heard.
        epoch: Of the leader that judged.

    Returns:
        Nodes whose health changed.

    Raises:
        Deposed: If the epoch is over; nothing was written.
    """
    with book.database.write(now_s) as tx:
        current = tx.connection.execute(sa.select(leader.c.epoch)).scalar_one()
        if current != epoch:
            raise Deposed(epoch, current)
        # Read under the lock: a heartbeat that came before it goes before this.
        seen = _seen(tx, silent) | book.unwritten()
        still = {
            node: heard
            for node, (heard, at) in sorted(silent.items())[:AT_A_TIME]
            if node in seen and seen[node] <= at
        }
        standings = _standings(tx, still)
        return sum(_judge(tx, node, standings[node], heard) for node, heard in still.items())


def _judge(tx: Transaction, node: str, standing: NodeStanding, heard: Heard) -> bool:
    verdict = health_of(standing.faults, heard, standing.health, fenced=standing.fenced)
    if verdict.health is standing.health:
        return False
    return set_health(tx, node, verdict.health, verdict.why, fenced=verdict.fenced)


def _seen(tx: Transaction, nodes: Mapping[str, object]) -> dict[str, float]:
    newest = sa.select(leases.c.node, sa.func.max(leases.c.seen_at)).group_by(leases.c.node)
    if len(nodes) <= ONE_BY_ONE:
        newest = newest.where(leases.c.node.in_(sorted(nodes)))
    return {node: float(at) for node, at in tx.connection.execute(newest)}


def _standings(tx: Transaction, nodes: Mapping[str, object]) -> Mapping[str, NodeStanding]:
    if len(nodes) <= ONE_BY_ONE:
        return {node: standing_of(tx.connection, node) for node in nodes}
    every = all_standings(tx.connection)
    return {node: every.get(NodeId(node), NodeStanding()) for node in nodes}
