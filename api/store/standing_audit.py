"""How nodes stand, compared with the faults that are open."""

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.standing import all_standings
from api.store.tables import node_usage
from api.store.wrong import Wrong, WrongKind
from scheduler.model.node import Health
from scheduler.model.standing import FaultAction, NodeStanding


def audit_standings(connection: Connection) -> tuple[Wrong, ...]:
    """What is wrong with the standing of any node."""
    query = sa.select(node_usage.c.node).where(node_usage.c.pods > 0)
    busy = set(connection.execute(query).scalars())
    return tuple(
        Wrong(WrongKind.STANDING, f"node '{name}': {fault}", nodes=(name,))
        for name, standing in all_standings(connection).items()
        for fault in _faults(standing, is_busy=name in busy)
    )


def _faults(standing: NodeStanding, *, is_busy: bool) -> Iterator[str]:
    useless = [f.code for f in standing.faults if f.action is FaultAction.REPLACE]
    if useless and not standing.is_gone:
        yield f"is {standing.health}, though its open fault {useless[0]} says that it is of no use"
    if standing.fenced and not standing.is_gone:
        yield f"is {standing.health}, and said to be fenced"
    if standing.health is Health.TESTING and is_busy:
        yield "is being tested with pods on it"
