"""Nodes whose agents come and go: how often that was, and how long that keeps them out of use."""

import sqlalchemy as sa

from api.store.policy import read_policy
from api.store.tables_faults import faults, losses
from api.store.transaction import Transaction
from scheduler.model.standing import FaultAction
from scheduler.recover.lemons import QUARANTINE_MAX_S, quarantined_until_s

KEPT_S = 4 * QUARANTINE_MAX_S
"""A loss so long ago makes no quarantine longer."""


def note_loss(tx: Transaction, node: str) -> float | None:
    """Note that the agent of a node has been silent for too long.

    A machine that is known to be gone or broken is none that comes and goes: whoever clears its
    fault says that it is mended.

    Returns:
        Unix seconds until when the node is kept out of use for it; None = it is not.
    """
    connection = tx.connection
    told = (faults.c.node == node, faults.c.cleared_at.is_(None))
    known = sa.select(faults.c.id).where(*told, faults.c.action == FaultAction.REPLACE).limit(1)
    if connection.execute(known).first() is not None:
        return None
    old = losses.c.at < tx.now_s - KEPT_S
    connection.execute(sa.delete(losses).where(losses.c.node == node, old))
    rows = connection.execute(
        sa.select(losses.c.at, losses.c.quarantined).where(losses.c.node == node)
    ).all()
    times = {row.at for row in rows} | {tx.now_s}
    before = sum(bool(row.quarantined) for row in rows)
    until_s = quarantined_until_s(times, before, read_policy(connection), tx.now_s)
    if tx.now_s not in {row.at for row in rows}:
        row = {"node": node, "at": tx.now_s, "quarantined": until_s is not None}
        connection.execute(sa.insert(losses), row)
    return until_s
