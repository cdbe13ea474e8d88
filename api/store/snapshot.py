"""The world in memory: read whole from plain columns, then kept up by what changed since."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection

from api.schemas.spec import load_eviction, load_rules, load_spec
from api.store.backlog import UNENDED, Backlog, is_long, next_part, of_these, read_head
from api.store.bulk import among
from api.store.claims import claim_of, read_claims
from api.store.engine import Database
from api.store.job_recovery import with_recovery
from api.store.newest import newest, newest_open_fact
from api.store.pods import read_resources
from api.store.policy import parse_policy, policy_body
from api.store.queue_rows import read_queues
from api.store.rows import AnyRow, AnySelect
from api.store.standing import all_standings, changed_standings
from api.store.tables import claims, counter, events, facts, jobs, nodes, pods, queues, windows
from api.store.told_facts import fact_of
from api.store.topology import map_revision_select, read_topology
from api.store.windows import WINDOWS_GONE, read_windows
from scheduler.cluster.world import World
from scheduler.model.claim import Claim
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState, Reason
from scheduler.model.plan import Fact, JobRecord, PodRecord
from scheduler.model.standing import PLAIN
from scheduler.policy import QUEUE_ORDERS, Policy
from scheduler.topology.tree import Topology

_JOB_COLUMNS = (
    jobs.c.uid,
    jobs.c.state,
    jobs.c.age,
    jobs.c.reason,
    jobs.c.message,
    jobs.c.attempt,
    jobs.c.gpus_per_pod,
    jobs.c.node_type,
    jobs.c.broken,
    jobs.c.submitted_at,
    jobs.c.bound_at,
    jobs.c.started_at,
    jobs.c.saved_at,
    jobs.c.could_start_at,
    jobs.c.expected_start_at,
    jobs.c.held,
    jobs.c.evict,
    jobs.c.evicted_at,
    jobs.c.recovery,
    jobs.c.members,
)
_POD_COLUMNS = (
    pods.c.uid,
    pods.c.job_uid,
    pods.c.name,
    pods.c.role,
    pods.c.pod_index,
    pods.c.node,
    pods.c.gpu_mask,
    pods.c.first_rank,
    pods.c.state,
    pods.c.attempt,
    pods.c.cpu_milli,
    pods.c.memory_mib,
    pods.c.other,
    pods.c.exit_code,
)
_SPEC_COLUMNS = (*_JOB_COLUMNS, jobs.c.spec)
JOB_FIELDS = tuple(column.name for column in _JOB_COLUMNS)
POD_FIELDS = tuple(column.name for column in _POD_COLUMNS)
"""What `job_record` and `pod_record` read, in this order."""

Span: TypeAlias = tuple[int, int]
"""First and last revision. Both ends are given so that PostgreSQL, which knows nothing of a new
table yet, expects few rows and goes by the index."""


def _between(column: Column[int]) -> ColumnElement[bool]:
    return column.between(sa.bindparam("first"), sa.bindparam("last"))


JOB_DELETED = "job.deleted"
QUEUE_DELETED = "queue.deleted"


_NOW = sa.select(counter.c.revision, policy_body())
# Built once: the loop asks these after every revision.
_CHANGED_PODS = sa.select(*_POD_COLUMNS).where(_between(pods.c.revision))
_CHANGED_JOBS = (
    sa.select(
        *_JOB_COLUMNS,
        sa.case((jobs.c.spec_revision >= sa.bindparam("first"), jobs.c.spec)).label("spec"),
    )
    .where(_between(jobs.c.revision))
    .order_by(jobs.c.age)
)
_CHANGED_CLAIMS = sa.select(claims).where(_between(claims.c.revision)).order_by(claims.c.uid)
_DELETED = sa.select(events.c.uid).where(_between(events.c.revision), events.c.kind == JOB_DELETED)
_LIVE = pods.c.state.in_(sorted(LIVE_POD))
# In two parts: of most pods, which live, no job has to be looked at.
_PODS = sa.union_all(
    sa.select(*_POD_COLUMNS).where(_LIVE),
    sa.select(*_POD_COLUMNS).where(
        ~_LIVE, pods.c.job_uid.in_(sa.select(jobs.c.uid).where(UNENDED))
    ),
)
_OPEN_FACTS = sa.select(facts).where(facts.c.applied_at.is_(None)).order_by(facts.c.id)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A world and the policy of the same moment.

    Attributes:
        backlog: The end of the line, if the world does not have it yet.
    """

    world: World
    policy: Policy
    backlog: Backlog | None = None


def load_world(db: Database) -> World:
    """Everything the runner keeps in memory, read in one snapshot."""
    return load_snapshot(db).world


def load_snapshot(
    db: Database, make_world: Callable[[Topology], World] = World, *, head_first: bool = False
) -> Snapshot:
    """The same with the policy.

    Args:
        head_first: Leave the end of a long line for later, see `read_part`.
    """
    with db.read() as connection:
        revision, body = connection.execute(_NOW).one()
        policy = parse_policy(body)
        later = head_first and policy.order == QUEUE_ORDERS[0] and is_long(connection)
        world = make_world(read_topology(db, connection).topology)
        for name, standing in all_standings(connection).items():
            world.put_node(name, standing)
        world.set_queues(read_queues(connection).values())
        everyone = sa.select(*_SPEC_COLUMNS).where(UNENDED).order_by(jobs.c.age)
        # Rows are fetched all at once: one at a time they cost half as much again.
        if later:
            found: Sequence[AnyRow] = read_head(connection, _SPEC_COLUMNS)
        else:
            found = connection.execute(everyone).all()
        for row in found:
            world.put_job(job_record(row, load_spec(row.spec)))
        held = [pod_record(row) for row in connection.execute(_PODS).all()]
        world.put_ended(_queues_of_ended(connection, world, held))
        world.put_pods(held)
        world.put_claims(read_claims(connection), ())
        world.set_windows(read_windows(connection))
        world.facts = _open_facts(connection)
    world.paused = policy.paused
    world.revision = revision
    return Snapshot(world, policy, Backlog(revision) if later else None)


def _queues_of_ended(
    connection: Connection, world: World, held: Iterable[PodRecord]
) -> dict[JobId, str]:
    """Live pods of jobs that ended hold their GPUs too, and their queues are charged for them.

    Such pods are few, and jobs that ended are many: so the pods tell which.
    """
    strange = {pod.job for pod in held if pod.is_live and pod.job not in world.jobs}
    if not strange:
        return {}
    among_them = among(connection, jobs.c.uid, sorted(strange))
    found = connection.execute(sa.select(jobs.c.uid, jobs.c.queue).where(~UNENDED, among_them))
    return {JobId(uid): queue for uid, queue in found}


def read_part(db: Database, world: World, backlog: Backlog) -> bool:
    """Tell the world of a part of those who wait behind; whether that was the last."""
    with db.read() as connection:
        rows = next_part(connection, backlog, _SPEC_COLUMNS)
        _learn(world, connection, [row for row in rows if row.uid not in world.jobs])
    return backlog.is_read


def _learn_of(world: World, connection: Connection, uids: Collection[str]) -> None:
    """Tell the world of jobs that something is about before their turn to be read came."""
    if uids:
        _learn(world, connection, of_these(connection, uids, _SPEC_COLUMNS))


def _learn(world: World, connection: Connection, rows: Sequence[AnyRow]) -> None:
    """Take in jobs with the pods that they had."""
    for row in rows:
        world.put_job(job_record(row, load_spec(row.spec)))
    uids = [row.uid for row in rows]
    had = sa.select(*_POD_COLUMNS).where(among(connection, pods.c.job_uid, uids))
    world.put_pods([pod_record(row) for row in connection.execute(had)])


def follow(db: Database, world: World) -> bool:
    """Apply every change after `world.revision`.

    Returns:
        Whether there was one. Facts that were taken account of leave without a revision.
    """
    return follow_with_policy(db, world) is not None


def follow_with_policy(db: Database, world: World) -> Policy | None:
    """The same; the policy of that moment if there was a change."""
    with db.read() as connection:
        news = _read_news(connection, world.revision)
        had_facts = bool(world.facts)
        if had_facts or news.facts:
            world.facts = _open_facts(connection)
        if news.revision > world.revision:
            _apply(db, connection, world, news)
        elif not (had_facts and not world.facts):
            return None
        _learn_of(world, connection, {f.job for f in world.facts} - world.jobs.keys())
    policy = parse_policy(news.policy)
    world.paused = policy.paused
    world.revision = news.revision
    return policy


def _apply(db: Database, connection: Connection, world: World, news: "_News") -> None:
    since = world.revision
    span = (since + 1, news.revision)
    changed = _changed_pods(connection, span) if news.pods else []
    claimed, released = _changed_claims(connection, span) if news.claims else ([], [])
    # What ends does so first: pods may come where a claim was, or a job that is gone by now.
    world.put_claims((), released)
    if news.deleted:
        _forget_deleted(world, connection, span)
    if news.map_revision > since:
        # What left does so first: the new map may have no room for it any more.
        world.put_pods(pod for pod in changed if not pod.is_live)
        topology = read_topology(db, connection).topology
        # Claims on nodes that are gone are deleted with them, and no row tells.
        homeless = (c.uid for c in world.claims.values() if c.node not in topology.node_index)
        world.put_claims((), list(homeless))
        for name in [name for name in world.standing if name not in topology.node_index]:
            world.put_node(name, PLAIN)
        world.set_topology(topology)
    if news.nodes:
        for name, standing in changed_standings(connection, *span).items():
            if standing is not PLAIN or name in world.standing:
                world.put_node(name, standing)
    if news.queues or news.queue_gone:
        world.set_queues(read_queues(connection).values())
    if news.jobs:
        _put_changed_jobs(world, connection, span)
    world.put_pods(changed)
    world.put_claims(claimed, ())
    if news.windows or news.window_gone:
        world.set_windows(read_windows(connection))


@dataclass(frozen=True, slots=True)
class _News:
    """What has changed since a revision, asked in one statement.

    Attributes:
        policy: As stored.
        facts: Whether any waits to be taken account of.
        deleted: Whether the record of a job was.
        window_gone: Whether a maintenance window was withdrawn or is over.
        queue_gone: Whether a queue was deleted.
    """

    revision: int
    map_revision: int
    policy: str | None
    facts: bool
    jobs: bool
    pods: bool
    nodes: bool
    claims: bool
    windows: bool
    queues: bool
    deleted: bool
    window_gone: bool
    queue_gone: bool


def _read_news(connection: Connection, since: int) -> _News:
    return _News(*connection.execute(_NEWS, {"since": since}).one())


def _news_select() -> AnySelect:
    since = sa.bindparam("since", type_=sa.BigInteger)
    followed = (jobs, pods, nodes, claims, windows, queues)
    changed = (newest(table.c.revision) > since for table in followed)
    return sa.select(
        sa.select(counter.c.revision).scalar_subquery(),
        map_revision_select(),
        policy_body(),
        newest_open_fact() > 0,
        *changed,
        _happened(since, JOB_DELETED),
        _happened(since, *WINDOWS_GONE),
        _happened(since, QUEUE_DELETED),
    )


def _happened(since: ColumnElement[int], *kinds: str) -> ColumnElement[bool]:
    current = sa.select(counter.c.revision).scalar_subquery()
    return sa.exists().where(
        events.c.revision.between(since + 1, current),
        sa.or_(*(events.c.kind == kind for kind in kinds)),
    )


_NEWS = _news_select()


def _bounds(span: Span) -> dict[str, int]:
    return {"first": span[0], "last": span[1]}


def _changed_pods(connection: Connection, span: Span) -> list[PodRecord]:
    return [pod_record(row) for row in connection.execute(_CHANGED_PODS, _bounds(span))]


def _changed_claims(connection: Connection, span: Span) -> tuple[list[Claim], list[ClaimId]]:
    """Those that are there, and those that are not any more."""
    rows = connection.execute(_CHANGED_CLAIMS, _bounds(span)).all()
    there = [claim_of(row) for row in rows if not row.gone]
    return there, [ClaimId(row.uid) for row in rows if row.gone]


def _put_changed_jobs(world: World, connection: Connection, span: Span) -> None:
    """Jobs that changed; a spec is sent only where it is new or changed itself."""
    unknown = []
    for row in connection.execute(_CHANGED_JOBS, _bounds(span)):
        known = world.jobs.get(row.uid)
        if row.state in FINAL:
            if known is not None:
                world.put_job(replace(known, state=JobState(row.state)))
            continue
        if row.spec is not None:
            spec_now = load_spec(row.spec)
        elif known is not None:
            spec_now = known.spec
        else:
            unknown.append(row.uid)
            continue
        world.put_job(job_record(row, spec_now))
    _learn_of(world, connection, unknown)


def _forget_deleted(world: World, connection: Connection, span: Span) -> None:
    """Jobs that ended and were deleted before it was seen that they had ended: no row tells."""
    for uid in connection.execute(_DELETED, _bounds(span)).scalars():
        known = world.jobs.get(uid)
        if known is not None:
            world.put_pods(replace(p, state=PodState.CANCELLED) for p in world.live_pods(uid))
            world.put_claims((), [c.uid for c in world.claims.values() if c.job == uid])
            world.put_job(replace(known, state=JobState.CANCELLED))


def _open_facts(connection: Connection) -> list[Fact]:
    return [fact_of(row._mapping) for row in connection.execute(_OPEN_FACTS)]


def job_record(row: Iterable[Any], spec: JobSpec) -> JobRecord:
    """A row that begins with `_JOB_COLUMNS`; by position, as a restart reads very many."""
    uid, state, age, reason, message, attempt, gpus_per_pod, node_type, broken, *later = row
    submitted, bound, started, saved, could_start, expected, held, evict, *last = later
    evicted, recovery, members, *_ = last
    has_size = spec.dp_sizes and (bound is not None or reason == Reason.BACKOFF)
    record = JobRecord(
        uid=JobId(uid),
        spec=spec,
        state=JobState(state),
        age=age,
        reason=None if reason is None else Reason(reason),
        message=message,
        attempt=attempt,
        gpus_per_pod=gpus_per_pod,
        node_type=node_type,
        broken=load_rules(broken),
        submitted_s=submitted,
        bound_s=bound,
        started_s=started,
        saved_s=saved,
        could_start_s=could_start,
        expected_start_s=expected,
        held=bool(held),
        evict=load_eviction(evict),
        evicted_s=evicted,
        pod_count=members if has_size else 0,
    )
    return with_recovery(record, recovery)


def pod_record(row: Iterable[Any]) -> PodRecord:
    """A row that begins with `_POD_COLUMNS`, by position too."""
    uid, job, name, role, index, node, mask, rank, state, attempt, cpu, memory, other, code = row
    return PodRecord(
        uid=PodId(str(uid)),
        job=JobId(str(job)),
        name=name,
        role=role,
        index=index,
        node=NodeId(str(node)),
        gpu_mask=mask,
        first_rank=rank,
        state=PodState(state),
        attempt=attempt,
        resources=read_resources(cpu, memory, other),
        exit_code=code,
    )
