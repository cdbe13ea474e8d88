"""Claims looked at all together: what the schema refuses one by one, and what only the code keeps.

Written without regard to how the triggers do it, so that it finds what they let by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import load_spec
from api.store.claims import read_claims
from api.store.tables import jobs, node_usage, pods
from api.store.wrong import Wrong, WrongKind
from scheduler.model.claim import LENT, MAKING_ROOM, Claim
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState

HELD = LENT | MAKING_ROOM
"""Kinds of claims whose GPUs are taken as soon as they are free, or needed."""


@dataclass(frozen=True, slots=True)
class ClaimsAudit:
    """What a look at all claims found.

    Attributes:
        count: Claims that are not gone.
        faults: What is wrong with them.
    """

    count: int
    faults: tuple[Wrong, ...]


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


def _that_meet(by_node: dict[str, list[Claim]]) -> Iterator[Wrong]:
    for node in sorted(by_node):
        for one, other in combinations(by_node[node], 2):
            apart = _ends(one) <= other.starts_s or _ends(other) <= one.starts_s
            if one.gpu_mask & other.gpu_mask and not apart:
                said = (
                    f"claims '{one.uid}' and '{other.uid}' have the same GPUs of node '{node}' at "
                    "one time"
                )
                whose = tuple(c.job for c in (one, other) if c.job is not None)
                uids = (one.uid, other.uid)
                yield Wrong(WrongKind.CLAIMS_MEET, said, (node,), whose, uids)


def _ends(claim: Claim) -> float:
    return float("inf") if claim.until_s is None else claim.until_s


def _beyond(connection: Connection, by_node: dict[str, list[Claim]]) -> Iterator[Wrong]:
    has = dict(connection.execute(sa.select(node_usage.c.node, node_usage.c.gpu_mask_all)).all())
    for node in sorted(by_node):
        for claim in by_node[node]:
            if claim.gpu_mask & ~has.get(node, 0):
                said = f"claim '{claim.uid}' has GPUs that node '{node}' does not have"
                yield _about(WrongKind.CLAIM_BEYOND, said, claim)


def _of_nobody(connection: Connection, found: list[Claim]) -> Iterator[Wrong]:
    states = dict(connection.execute(sa.select(jobs.c.uid, jobs.c.state)).all()) if found else {}
    for claim in found:
        if claim.job is not None and states.get(claim.job, JobState.CANCELLED) in FINAL:
            said = f"claim '{claim.uid}' is of job '{claim.job}', which has ended"
            yield Wrong(WrongKind.CLAIM_OF_NOBODY, said, (claim.node,), uids=(claim.uid,))


def _under_others(connection: Connection, by_node: dict[str, list[Claim]]) -> Iterator[Wrong]:
    """Pods that stay on GPUs which another gang is to have as soon as they are free."""
    if not any(claim.why in HELD for claims in by_node.values() for claim in claims):
        return
    staying = sorted(LIVE_POD - {PodState.TERMINATING, PodState.LOST})
    query = (
        sa.select(pods.c.uid, pods.c.job_uid, pods.c.node, pods.c.gpu_mask, jobs.c.spec)
        .join(jobs, jobs.c.uid == pods.c.job_uid)
        .where(pods.c.state.in_(staying), jobs.c.evict.is_(None))
        .order_by(pods.c.uid)
    )
    for uid, job, node, mask, spec in connection.execute(query):
        for claim in by_node.get(node, ()):
            if claim.why in HELD and claim.job != job and claim.gpu_mask & mask:
                if claim.why in LENT and _leaves_at_once(spec):
                    continue
                said = (
                    f"pod '{uid}' stays on GPUs of node '{node}' that claim '{claim.uid}' is to "
                    "have"
                )
                yield _about(WrongKind.CLAIM_OVER_POD, said, claim, uid)


def _leaves_at_once(spec: str) -> bool:
    """Whether a job may use what is kept spare for another."""
    body = load_spec(spec)
    return body.preemptible and body.grace_s is None


def _about(kind: WrongKind, said: str, claim: Claim, *uids: str) -> Wrong:
    jobs_of_it = () if claim.job is None else (str(claim.job),)
    return Wrong(kind, said, (claim.node,), jobs_of_it, (claim.uid, *uids))
