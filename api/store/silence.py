"""Nodes whose agents are silent: what that makes of their health is written down."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from api.store.engine import Transaction
from api.store.errors import Deposed
from api.store.leases import Lease, Leases, read_leases
from api.store.standing import all_standings, change_node, set_verdict, standing_of
from api.store.tables import leader, leases
from scheduler.model.ids import NodeId
from scheduler.model.standing import NodeStanding
from scheduler.recover.health import Heard, health_of

AT_A_TIME = 1_000
"""Nodes of one write; more wait for the next, as others want to write too."""

ONE_BY_ONE = 20
"""So few standings are read one by one; of more, all are."""


@dataclass(frozen=True, slots=True)
class Silent:
    """What a node's silence has come to.

    Attributes:
        heard: How it counts.
        seen_s: When its agent was last heard, Unix seconds.
        counted_s: For how long it was silent, without the times that do not count.
    """

    heard: Heard
    seen_s: float
    counted_s: float


def heard_of(book: Leases) -> list[Lease]:
    """When every agent was last heard, as far as this process can know."""
    book.flush()
    with book.database.read() as connection:
        return read_leases(connection)


def write_silence(book: Leases, silent: Mapping[str, Silent], epoch: int, now_s: float) -> int:
    """Write down what silence makes of nodes; one that was heard meanwhile is left alone.

    Args:
        silent: By node.
        epoch: Of the leader that judged.

    Returns:
        Nodes of which something changed.

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
            node: found
            for node, found in sorted(silent.items())[:AT_A_TIME]
            if node in seen and seen[node] <= found.seen_s
        }
        standings = _standings(tx, still)
        return sum(_judge(tx, node, standings[node], found) for node, found in still.items())


def _judge(tx: Transaction, node: str, standing: NodeStanding, found: Silent) -> bool:
    verdict = health_of(standing.faults, found.heard, standing.health, fenced=standing.fenced)
    silent_s = found.counted_s if verdict.by_silence else None
    if verdict.health is not standing.health:
        return set_verdict(tx, node, verdict, silent_s)
    if silent_s is None or standing.silent_s is None or silent_s <= standing.silent_s:
        return False
    said = f"its agent has been silent for {silent_s:.0f} s"
    change_node(tx, node, "node.silent", said, {"silent_s": silent_s}, {"silent_s": silent_s})
    return True


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
