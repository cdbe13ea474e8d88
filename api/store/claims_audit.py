"""Claims looked at all together: what the schema refuses one by one, and what only the code keeps.

Written without regard to how the triggers do it, so that it finds what they let by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.claims import read_claims
from api.store.tables import jobs, node_usage, pods
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState

HELD = frozenset({ClaimWhy.PREEMPTION, ClaimWhy.RECOVERY, ClaimWhy.SPARE})
"""Kinds of claims whose GPUs are taken as soon as they are free."""


@dataclass(frozen=True, slots=True)
class ClaimsAudit:
    """What a look at all claims found.

    Attributes:
        count: Claims that are not gone.
        faults: In words.
    """

    count: int
    faults: tuple[str, ...]


def audit_claims(connection: Connection) -> ClaimsAudit:
    """Look at every claim."""
    found = read_claims(connection)
    by_node: dict[str, list[Claim]] = {}
    for claim in found:
        by_node.setdefault(claim.node, []).append(claim)
    faults = [
        *_that_meet(by_node),
        *_beyond(connection, by_node),
        *_of_nobody(connection, found),
        *_under_others(connection, by_node),
    ]
    return ClaimsAudit(len(found), tuple(faults))


def _that_meet(by_node: dict[str, list[Claim]]) -> Iterator[str]:
    for node in sorted(by_node):
        for one, other in combinations(by_node[node], 2):
            apart = _ends(one) <= other.starts_s or _ends(other) <= one.starts_s
            if one.gpu_mask & other.gpu_mask and not apart:
                yield (
                    f"claims '{one.uid}' and '{other.uid}' have the same GPUs of node '{node}' at "
                    "one time"
                )


def _ends(claim: Claim) -> float:
    return float("inf") if claim.until_s is None else claim.until_s


def _beyond(connection: Connection, by_node: dict[str, list[Claim]]) -> Iterator[str]:
    has = dict(connection.execute(sa.select(node_usage.c.node, node_usage.c.gpu_mask_all)).all())
    for node in sorted(by_node):
        for claim in by_node[node]:
            if claim.gpu_mask & ~has.get(node, 0):
                yield f"claim '{claim.uid}' has GPUs that node '{node}' does not have"


def _of_nobody(connection: Connection, found: list[Claim]) -> Iterator[str]:
    states = dict(connection.execute(sa.select(jobs.c.uid, jobs.c.state)).all()) if found else {}
    for claim in found:
        if claim.job is not None and states.get(claim.job, JobState.CANCELLED) in FINAL:
            yield f"claim '{claim.uid}' is of job '{claim.job}', which has ended"


def _under_others(connection: Connection, by_node: dict[str, list[Claim]]) -> Iterator[str]:
    """Pods that stay on GPUs which another gang is to have as soon as they are free."""
    if not any(claim.why in HELD for claims in by_node.values() for claim in claims):
        return
    staying = sorted(LIVE_POD - {PodState.TERMINATING, PodState.LOST})
    query = (
        sa.select(pods.c.uid, pods.c.job_uid, pods.c.node, pods.c.gpu_mask)
        .join(jobs, jobs.c.uid == pods.c.job_uid)
        .where(pods.c.state.in_(staying), jobs.c.evict.is_(None))
        .order_by(pods.c.uid)
    )
    for uid, job, node, mask in connection.execute(query):
        for claim in by_node.get(node, ()):
            if claim.why in HELD and claim.job != job and claim.gpu_mask & mask:
                yield (
                    f"pod '{uid}' stays on GPUs of node '{node}' that claim '{claim.uid}' is to "
                    "have"
                )
