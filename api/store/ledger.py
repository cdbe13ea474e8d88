"""The ledger made anew from the pods, and compared with the one that triggers keep."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.claims_audit import audit_claims
from api.store.engine import Database, read_revision
from api.store.standing_audit import audit_standings
from api.store.tables import jobs, node_usage, pods
from scheduler.model.lifecycle import LIVE_POD, PodState


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
        doubles: GPUs, named in words, that two live pods hold.
        claims: How many there are.
        claim_faults: What is wrong with them, in words.
        standing_faults: What is wrong with how nodes stand, in words.
    """

    revision: int
    nodes: int
    pods: int
    differences: tuple[Difference, ...]
    doubles: tuple[str, ...]
    claims: int = 0
    claim_faults: tuple[str, ...] = ()
    standing_faults: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        wrong = (self.differences, self.doubles, self.claim_faults, self.standing_faults)
        return not any(wrong)


@dataclass(slots=True)
class _Sum:
    mask: int = 0
    cpu: int = 0
    memory: int = 0
    pods: int = 0
    running: int = 0
    gpus: int = 0


def audit_ledger(db: Database) -> Audit:
    """Add up the live pods and compare, in one snapshot."""
    with db.read() as connection:
        return audit_in(connection)


def audit_in(connection: Connection) -> Audit:
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
    )


def _add_up(connection: Connection) -> tuple[dict[str, _Sum], dict[str, _Sum], list[str]]:
    by_node: dict[str, _Sum] = {}
    by_job: dict[str, _Sum] = {}
    doubles: list[str] = []
    columns = (pods.c.uid, pods.c.job_uid, pods.c.node, pods.c.gpu_mask, pods.c.state)
    amounts = (pods.c.cpu_milli, pods.c.memory_mib)
    live = pods.c.state.in_(sorted(LIVE_POD))
    query = sa.select(*columns, *amounts).where(live).order_by(pods.c.node, pods.c.uid)
    for uid, job, node, mask, state, cpu, memory in connection.execute(query):
        here, his = by_node.setdefault(node, _Sum()), by_job.setdefault(job, _Sum())
        if here.mask & mask:
            doubles.append(f"pod '{uid}' holds GPUs of node '{node}' that another live pod holds")
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
    query = sa.select(node_usage.c.node, *(node_usage.c[name] for name in names))
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
    query = sa.select(jobs.c.uid, *(jobs.c[name] for name in names))
    found: list[Difference] = []
    for job, *numbers in connection.execute(query.order_by(jobs.c.age)):
        total = sums.get(job, _Sum())
        found += _compare("job", job, names, numbers, (total.pods, total.running, total.gpus))
    return found


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
