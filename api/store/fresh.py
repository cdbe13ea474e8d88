"""What of a plan still stands: jobs that something newer has touched are left out of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among
from api.store.newest import newest, newest_open_fact
from api.store.rows import AnyRow, AnySelect
from api.store.tables import facts, jobs, nodes, pods
from api.store.topology import map_revision_select
from scheduler.model.lifecycle import LIVE_POD, PodState
from scheduler.model.plan import JobMove, Plan, PodMove, PodRecord


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod as the database has it."""

    job: str
    node: str
    state: PodState
    exit_code: int | None


@dataclass(slots=True)
class Part:
    """What a plan says of one job.

    Attributes:
        row: The job as the database has it; None if its record is gone.
        facts: Ids of facts that are taken account of.
    """

    row: AnyRow | None = None
    move: JobMove | None = None
    pods: list[PodRecord] = field(default_factory=list)
    pod_moves: list[PodMove] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Kept:
    """The plan by job, in its order.

    Attributes:
        parts: By uid of the job, without the dropped ones.
        now: Pods that move or start anew, as the database has them.
        dropped: Uids of jobs left out.
    """

    parts: Mapping[str, Part]
    now: Mapping[str, PodNow]
    dropped: frozenset[str]


def drop_stale(connection: Connection, plan: Plan) -> Kept:
    """Leave out what is not decided on the newest facts; the caller holds the write lock."""
    now = _read_pods(connection, plan)
    parts = _by_job(plan, now, _jobs_of_facts(connection, plan))
    for row in _read_jobs(connection, parts):
        parts[row.uid].row = row
    dropped = _stale(connection, plan, parts)
    dropped = _with_dependants(parts, now, dropped)
    kept = {uid: part for uid, part in parts.items() if uid not in dropped}
    return Kept(kept, now, frozenset(dropped))


def _read_pods(connection: Connection, plan: Plan) -> dict[str, PodNow]:
    again = [pod.uid for pod in plan.pods if pod.attempt > 1]
    uids = [*again, *(move.uid for move in plan.pod_moves)]
    if not uids:
        return {}
    columns = (pods.c.uid, pods.c.job_uid, pods.c.node, pods.c.state, pods.c.exit_code)
    query = sa.select(*columns).where(among(connection, pods.c.uid, uids))
    return {
        uid: PodNow(job, node, PodState(state), code)
        for uid, job, node, state, code in connection.execute(query)
    }


def _jobs_of_facts(connection: Connection, plan: Plan) -> dict[int, str]:
    if not plan.facts_done:
        return {}
    query = sa.select(facts.c.id, facts.c.job_uid).where(
        among(connection, facts.c.id, plan.facts_done), facts.c.applied_at.is_(None)
    )
    return dict(connection.execute(query).all())


def _by_job(
    plan: Plan, now: Mapping[str, PodNow], job_of_fact: Mapping[int, str]
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for move in plan.job_moves:
        parts.setdefault(move.uid, Part()).move = move
    for pod in plan.pods:
        parts.setdefault(pod.job, Part()).pods.append(pod)
    for pod_move in plan.pod_moves:
        if pod_move.uid in now:
            parts.setdefault(now[pod_move.uid].job, Part()).pod_moves.append(pod_move)
    for id_, job in job_of_fact.items():
        parts.setdefault(job, Part()).facts.append(id_)
    return parts


def _read_jobs(connection: Connection, uids: Iterable[str]) -> list[AnyRow]:
    wanted = list(uids)
    if not wanted:
        return []
    columns = [c for c in jobs.c if c.name not in {"spec", "body"}]
    query = sa.select(*columns).where(among(connection, jobs.c.uid, wanted))
    return list(connection.execute(query).all())


def _stale(connection: Connection, plan: Plan, parts: Mapping[str, Part]) -> set[str]:
    """Jobs that changed, were deleted, have a newer fact or would use a node that changed."""
    newer = connection.execute(_NEWER, {"since": plan.revision}).one()
    touched = _touched_jobs(connection, plan) if newer.facts else frozenset()
    changed = _changed_nodes(connection, plan) if newer.nodes else frozenset()
    map_changed = newer.map_revision > plan.revision
    stale: set[str] = set()
    for uid, part in parts.items():
        if part.row is None:
            if part.move is not None or part.pods or part.pod_moves:
                stale.add(uid)
        elif (
            part.row._mapping["revision"] > plan.revision
            or uid in touched
            or (part.pods and map_changed)  # a node may be gone, or lie elsewhere
            or any(pod.node in changed for pod in part.pods)
        ):
            stale.add(uid)
    return stale


def _newer_select() -> AnySelect:
    """Whether anything at all is newer: most often nothing is, and one question suffices."""
    since = sa.bindparam("since", type_=sa.BigInteger)
    return sa.select(
        map_revision_select().label("map_revision"),
        (newest_open_fact() > since).label("facts"),
        (newest(nodes.c.revision) > since).label("nodes"),
    )


_NEWER = _newer_select()


def _touched_jobs(connection: Connection, plan: Plan) -> frozenset[str]:
    query = sa.select(facts.c.job_uid).where(
        facts.c.applied_at.is_(None), facts.c.id > plan.revision
    )
    return frozenset(connection.execute(query).scalars())


def _changed_nodes(connection: Connection, plan: Plan) -> frozenset[str]:
    query = sa.select(nodes.c.name).where(nodes.c.revision > plan.revision)
    return frozenset(connection.execute(query).scalars())


def _with_dependants(
    parts: Mapping[str, Part], now: Mapping[str, PodNow], dropped: set[str]
) -> set[str]:
    """Add the jobs that would use nodes on which a dropped job's pods stay after all."""
    all_dropped, fresh = set(dropped), dropped
    while fresh:
        blocked = {node for uid in fresh for node in _left_nodes(parts[uid], now)}
        fresh = {
            uid
            for uid, part in parts.items()
            if uid not in all_dropped and any(pod.node in blocked for pod in part.pods)
        }
        all_dropped |= fresh
    return all_dropped


def _left_nodes(part: Part, now: Mapping[str, PodNow]) -> list[str]:
    """Nodes on which a part of a plan frees something."""
    leaving = [move.uid for move in part.pod_moves if move.state not in LIVE_POD]
    again = [pod.uid for pod in part.pods if pod.uid in now]
    return [now[uid].node for uid in (*leaving, *again) if now[uid].state in LIVE_POD]
