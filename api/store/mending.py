"""What the doctor may put right by itself: numbers that follow from live pods, claims of nobody.

Live pods are the truth, so no pod is touched. What is wrong with the pods themselves, or with a
gang that is still there, people decide; `advice` says how.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from api.store.claims import read_claims
from api.store.engine import Database, Transaction
from api.store.ledger import Audit, Difference, audit_in
from api.store.tables import claims, jobs, node_usage
from scheduler.model.claim import Claim
from scheduler.model.lifecycle import FINAL

_NODE = "node"


def mend(db: Database, *, now_s: float) -> list[str]:
    """Put right what can be, in one transaction; what was done, in words."""
    with db.write(now_s) as tx:
        audit = audit_in(tx.connection)
        return [*_numbers(tx, audit.differences), *_claims_of_nobody(tx)]


def advice(audit: Audit) -> Iterator[str]:
    """What people can do about what is left."""
    if audit.doubles:
        yield "two gangs hold a GPU: cancel one of them, and stop its pods on that node by hand"
    for difference in audit.differences:
        if difference.kind == _NODE and difference.what == "pods" and not difference.found:
            yield f"import the inventory again, with node '{difference.name}' in it"
    if audit.claim_faults:
        yield "claims of a gang that is there: yardctl suspend and resume give it new ones"
    if audit.standing_faults:
        yield "a node's standing: clear its faults with yardctl faults, and report them again"


def _numbers(tx: Transaction, differences: Sequence[Difference]) -> Iterator[str]:
    for one in differences:
        table, key = (node_usage, node_usage.c.node) if one.kind == _NODE else (jobs, jobs.c.uid)
        done = tx.connection.execute(
            sa.update(table).where(key == one.name).values({one.what: one.expected})
        )
        if done.rowcount:
            yield f"{one.kind} '{one.name}': {one.what} was {one.found}, is {one.expected}"


def _claims_of_nobody(tx: Transaction) -> Iterator[str]:
    """Claims of jobs that have ended, or are not there any more."""
    found = read_claims(tx.connection)
    wanted = {claim.job for claim in found if claim.job is not None}
    query = sa.select(jobs.c.uid).where(jobs.c.uid.in_(sorted(wanted)))
    living = set(tx.connection.execute(query.where(jobs.c.state.not_in(sorted(FINAL)))).scalars())
    for claim in found:
        if claim.job is not None and claim.job not in living:
            _end(tx, claim)
            yield f"claim '{claim.uid}' of job '{claim.job}', which has ended, is gone"


def _end(tx: Transaction, claim: Claim) -> None:
    revision = tx.emit(
        "claim.mended",
        subject_kind="node",
        name=claim.node,
        uid=claim.node,
        message=f"claim '{claim.uid}' was left by a job that has ended",
    )
    values = {"gone": True, "revision": revision}
    tx.connection.execute(sa.update(claims).where(claims.c.uid == claim.uid).values(values))
