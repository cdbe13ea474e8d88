"""The ledger made anew from the pods, and compared with the one that triggers keep."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from api.store.claims_audit import audit_claims
from api.store.engine import Database, read_revision
from api.store.promised import Promised, audit_promised
from api.store.rows import AnySelect
from api.store.standing_audit import audit_standings
from api.store.tables import jobs, node_usage, pods
from api.store.triggers import audit_triggers
from api.store.wrong import Parts, Wrong, WrongKind, parts_of
from scheduler.model.lifecycle import LIVE_POD, PodState

_LIVE = pods.c.state.in_(sorted(LIVE_POD))


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that is not what the pods say.

    Attributes:
        kind, name: `node` or `job`, and which.
        what: The column.
        found, expected: As kept, and as the live pods add up.
    """

    kind: str
    name: str
    what: str
    found: int
    expected: int

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}': {self.what} is {self.found}, pods say {self.expected}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What a comparison found.

    Attributes:
        doubles: GPUs that two live pods hold.
        claims: How many there are.
        claim_faults: What is wrong with them.
        standing_faults: What is wrong with how nodes stand.
        broken_promises: Pods that are not where the decision log has them, if it was asked.
        trigger_faults: What of that which keeps the ledger is switched off.
    """

    revision: int
    nodes: int
    pods: int
    differences: tuple[Difference, ...]
    doubles: tuple[Wrong, ...]
    claims: int = 0
    claim_faults: tuple[Wrong, ...] = ()
    standing_faults: tuple[Wrong, ...] = ()
    broken_promises: tuple[Wrong, ...] = ()
    trigger_faults: tuple[Wrong, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.lines

    @property
    def lines(self) -> tuple[str, ...]:
        """All that is wrong, in words, the worst first."""
        found = (*self.doubles, *self.broken_promises, *self.differences, *self.claim_faults)
        return tuple(map(str, (*found, *self.standing_faults, *self.trigger_faults)))

    @property
    def parts(self) -> Parts:
        """Nodes and jobs that something is wrong with: nothing new is to happen there."""
        numbers = (
            Wrong(WrongKind.MOVED, str(one), **{f"{one.kind}s": (one.name,)})
            for one in self.differences
        )
        found = (*self.doubles, *self.broken_promises, *numbers, *self.claim_faults)
        return parts_of((*found, *self.standing_faults))


@dataclass(slots=True)
class _Sum:
    mask: int = 0
    cpu: int = 0
    memory: int = 0
    pods: int = 0
    running: int = 0
    gpus: int = 0
    holders: list[tuple[int, str, str]] = field(default_factory=list)


def audit_ledger(db: Database, promised: Promised | None = None) -> Audit:
    """Add up the live pods and compare, in one snapshot.

    Args:
        promised: What gangs were given, as the decision log has it, to be compared too.
    """
    with db.read() as connection:
        return audit_in(connection, promised)


def audit_in(connection: Connection, promised: Promised | None = None) -> Audit:
    """The same on a connection that is open already."""
    by_node, by_job, doubles = _add_up(connection)
    differences = [*_of_nodes(connection, by_node), *_of_jobs(connection, by_job)]
    claims = audit_claims(connection)
    node_count = connection.execute(sa.select(sa.func.count()).select_from(node_usage))
    return Audit(
        revision=read_revision(connection),
        nodes=node_count.scalar_one(),
        pods=sum(total.pods for total in by_node.values()),
        differences=tuple(differences),
        doubles=tuple(doubles),
        claims=claims.count,
        claim_faults=claims.faults,
        standing_faults=audit_standings(connection),
        broken_promises=() if promised is None else tuple(audit_promised(connection, promised)),
        trigger_faults=audit_triggers(connection),
    )


def _add_up(connection: Connection) -> tuple[dict[str, _Sum], dict[str, _Sum], list[Wrong]]:
    by_node: dict[str, _Sum] = {}
    by_job: dict[str, _Sum] = {}
    doubles: list[Wrong] = []
    columns = (pods.c.uid, pods.c.job_uid, pods.c.node, pods.c.gpu_mask, pods.c.state)
    amounts = (pods.c.cpu_milli, pods.c.memory_mib)
    # Who came first holds them: of two pods with the same GPUs the later row is the one to go.
    order = (pods.c.node, pods.c.revision, pods.c.uid)
    query = sa.select(*columns, *amounts).where(_LIVE).order_by(*order)
    for uid, job, node, mask, state, cpu, memory in connection.execute(query):
        here, his = by_node.setdefault(node, _Sum()), by_job.setdefault(job, _Sum())
        if here.mask & mask:
            first, whose = next((u, j) for m, u, j in here.holders if m & mask)
            said = f"pod '{uid}' holds GPUs of node '{node}' that another live pod holds, '{first}'"
            doubles.append(Wrong(WrongKind.DOUBLE, said, (node,), (job, whose), (uid, first)))
        here.holders.append((mask, uid, job))
        here.mask |= mask
        here.cpu += cpu
        here.memory += memory
        here.pods += 1
        his.pods += 1
        his.running += state == PodState.RUNNING
        his.gpus += mask.bit_count()
    return by_node, by_job, doubles


def _of_nodes(connection: Connection, sums: dict[str, _Sum]) -> list[Difference]:
    names = ("gpu_mask_used", "cpu_milli_used", "memory_mib_used", "pods")
    query = _those_that_count(
        node_usage.c.node, [node_usage.c[name] for name in names], pods.c.node
    )
    found: list[Difference] = []
    left = dict(sums)
    for node, *numbers in connection.execute(query.order_by(node_usage.c.node)):
        total = left.pop(node, _Sum())
        expected = (total.mask, total.cpu, total.memory, total.pods)
        found += _compare("node", node, names, numbers, expected)
    found += [Difference("node", node, "pods", 0, total.pods) for node, total in left.items()]
    return found


def _of_jobs(connection: Connection, sums: dict[str, _Sum]) -> list[Difference]:
    names = ("pods_live", "pods_running", "gpus_held")
    query = _those_that_count(jobs.c.uid, [jobs.c[name] for name in names], pods.c.job_uid)
    found: list[Difference] = []
    for job, *numbers in connection.execute(query.order_by(jobs.c.age)):
        total = sums.get(job, _Sum())
        found += _compare("job", job, names, numbers, (total.pods, total.running, total.gpus))
    return found


def _those_that_count(
    key: Column[str], columns: Sequence[Column[int]], of_pods: Column[str]
) -> AnySelect:
    """Rows that say that they hold something, or that live pods are of; of all others both say 0.

    A hundred thousand jobs that wait are none of these.
    """
    with_pods = sa.select(of_pods).where(_LIVE)
    holds = sa.or_(*(column != 0 for column in columns))
    return sa.select(key, *columns).where(holds | key.in_(with_pods))


def _compare(
    kind: str,
    name: str,
    columns: tuple[str, ...],
    found: list[int],
    expected: tuple[int, ...],
) -> list[Difference]:
    return [
        Difference(kind, name, column, has, says)
        for column, has, says in zip(columns, found, expected, strict=True)
        if has != says
    ]
