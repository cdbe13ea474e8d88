"""What the doctor puts right by itself, in one transaction.

Live pods are the truth about numbers, the decision log is the truth about where pods were put. What
follows from these is written anew; pods that nothing is wrong with are never touched. What is left
people decide; `advice` says how.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from api.schemas.spec import load_node_type
from api.store.claims import read_claims
from api.store.engine import Database, Transaction
from api.store.faults import judge
from api.store.ledger import Audit, Difference, audit_in
from api.store.mending_pods import give_to_one, put_back
from api.store.promised import Promised
from api.store.set_aside import set_aside_in
from api.store.tables import claims, node_types, node_usage, nodes
from api.store.tables import jobs as jobs_table
from api.store.triggers import restore_triggers
from api.store.wrong import Wrong, WrongKind
from scheduler.model.claim import Claim
from scheduler.model.resources import full_mask

_NODE = "node"
_ENDED = (
    WrongKind.CLAIM_OF_NOBODY,
    WrongKind.CLAIM_BEYOND,
    WrongKind.CLAIM_OVER_POD,
    WrongKind.CLAIMS_MEET,
)


def mend(db: Database, *, now_s: float, promised: Promised | None = None) -> list[str]:
    """Put right what can be; what was done, in words. Parts that agree then are used again.

    Args:
        promised: What gangs were given, as the decision log has it, if it tells.
    """
    with db.write(now_s) as tx:
        done = [*restore_triggers(tx.connection), *_missing_usage(tx)]
        audit = audit_in(tx.connection, promised)
        done += [*_numbers(tx, audit.differences), *_claims(tx, audit.claim_faults)]
        if promised is not None and audit.broken_promises:
            done += put_back(tx, audit.broken_promises, promised)
            done += _numbers(tx, audit_in(tx.connection).differences)
        doubles = audit_in(tx.connection).doubles
        if doubles:
            done += give_to_one(tx, doubles)
            done += _numbers(tx, audit_in(tx.connection).differences)
        done += _standings(tx, audit.standing_faults)
        set_aside_in(tx, audit_in(tx.connection, promised).parts)
        return done


def advice(audit: Audit) -> Iterator[str]:
    """What people can do about what is left."""
    if audit.doubles:
        yield "two gangs hold a GPU: cancel one of them, and stop its pods on that node by hand"
    if audit.broken_promises:
        yield "a pod's place is taken by another gang: requeue its job with yardctl requeue"
    for difference in audit.differences:
        if difference.kind == _NODE and difference.what == "pods" and not difference.found:
            yield f"import the inventory again, with node '{difference.name}' in it"
    if audit.claim_faults:
        yield "claims of a gang that is there: yardctl suspend and resume give it new ones"
    if audit.standing_faults:
        yield "a node's standing: clear its faults with yardctl faults, and report them again"


def _numbers(tx: Transaction, differences: Sequence[Difference]) -> Iterator[str]:
    for one in differences:
        is_node = one.kind == _NODE
        table, key = (node_usage, node_usage.c.node) if is_node else (jobs_table, jobs_table.c.uid)
        done = tx.connection.execute(
            sa.update(table).where(key == one.name).values({one.what: one.expected})
        )
        if done.rowcount:
            yield f"{one.kind} '{one.name}': {one.what} was {one.found}, is {one.expected}"


def _missing_usage(tx: Transaction) -> Iterator[str]:
    """Nodes of the inventory that the ledger has no row of get one, with nothing in use."""
    query = (
        sa.select(nodes.c.name, node_types.c.body)
        .join(node_types, node_types.c.name == nodes.c.type)
        .where(nodes.c.name.not_in(sa.select(node_usage.c.node)))
        .order_by(nodes.c.name)
    )
    for name, body in tx.connection.execute(query).all():
        kind = load_node_type(body)
        row = {
            "node": name,
            "gpu_mask_all": full_mask(kind.gpus),
            "cpu_milli_all": kind.capacity.cpu_milli,
            "memory_mib_all": kind.capacity.memory_mib,
        }
        tx.connection.execute(sa.insert(node_usage), row)
        yield f"node '{name}' has a row in the ledger again"


def _claims(tx: Transaction, found: Sequence[Wrong]) -> Iterator[str]:
    """End claims that should not be; a gang's whole set, which it then makes anew.

    Of two that meet the later one goes.
    """
    known = {str(claim.uid): claim for claim in read_claims(tx.connection)}
    rows = tx.connection.execute(sa.select(claims.c.uid, claims.c.revision)).all()
    revision = dict(rows)
    for wrong in found:
        if wrong.kind not in _ENDED:
            continue
        first = wrong.uids[:1]
        if wrong.kind is WrongKind.CLAIMS_MEET:
            if not all(uid in known for uid in wrong.uids):
                continue  # one of them has gone already
            first = (max(wrong.uids, key=lambda uid: (revision.get(uid, 0), uid)),)
        for uid in first:
            if uid in known:
                yield from _end_with_its_kind(tx, known, known[uid], wrong)


def _end_with_its_kind(
    tx: Transaction, known: dict[str, Claim], one: Claim, wrong: Wrong
) -> Iterator[str]:
    is_alone = wrong.kind is WrongKind.CLAIM_OF_NOBODY or one.job is None
    alike = [c for c in known.values() if c.job == one.job and c.why == one.why]
    for claim in [one] if is_alone else alike:
        del known[str(claim.uid)]
        _end(tx, claim)
        if wrong.kind is WrongKind.CLAIM_OF_NOBODY:
            yield f"claim '{claim.uid}' of job '{claim.job}', which has ended, is gone"
        else:
            yield f"claim '{claim.uid}' is gone; whom it was for gets a new one"


def _end(tx: Transaction, claim: Claim) -> None:
    revision = tx.emit(
        "claim.mended",
        subject_kind="node",
        name=claim.node,
        uid=claim.node,
        message=f"claim '{claim.uid}' should not have been there",
    )
    values = {"gone": True, "revision": revision}
    tx.connection.execute(sa.update(claims).where(claims.c.uid == claim.uid).values(values))


def _standings(tx: Transaction, found: Sequence[Wrong]) -> Iterator[str]:
    """Health as the open faults have it."""
    for name in dict.fromkeys(node for wrong in found for node in wrong.nodes):
        judge(tx, name)
        yield f"node '{name}': its health follows from its faults again"
