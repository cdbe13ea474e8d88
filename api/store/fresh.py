"""What of a plan still stands: jobs that something newer has touched are left out of it."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import among, array_of, plain_sql
from api.store.claims import NOT_GONE, claim_of
from api.store.dependants import STAYING, Dependants
from api.store.driver import PlainRow, ask, ask_rows
from api.store.engine import Transaction
from api.store.job_rows import whole_row
from api.store.newest import newest, newest_open_fact
from api.store.parts import (
    ClaimNow,
    Kept,
    Part,
    PodNow,
    is_pool,
    new_claimant,
    owner_of,
    window_key,
)
from api.store.rows import AnyRow
from api.store.tables import claims, facts, jobs, nodes, pods, windows
from api.store.topology import map_revision_select
from scheduler.model.lifecycle import LIVE_POD, JobState, PodState
from scheduler.model.plan import Plan


def drop_stale(connection: Connection, plan: Plan) -> Kept:
    """Leave out what is not decided on the newest facts; the caller holds the write lock."""
    now, claims_now = _read_pods(connection, plan), _read_claims(connection, plan)
    parts = _by_owner(plan, now, claims_now, _jobs_of_facts(connection, plan))
    _read_rows(connection, parts)
    newest_now = _Newest(*ask(connection, plain_sql(_NEWEST, connection.dialect))[0])
    dropped = _stale(connection, plan, parts, now, newest_now)
    if dropped:
        turning = _read_turning(connection, parts)
        dropped = Dependants(parts, now, claims_now, turning).of(dropped)
    kept = {uid: part for uid, part in parts.items() if uid not in dropped}
    return Kept(kept, now, claims_now, frozenset(dropped), newest_now.fact > 0)


def of_new_jobs(tx: Transaction, plan: Plan) -> Kept | None:
    """A plan about jobs that its own transaction brings, and is yet to write: none can be stale.

    None if it is about anything else too: that has to be read.
    """
    is_about_others = plan.facts_done or plan.pod_moves or plan.claims or plan.claims_gone
    if is_about_others or plan.revision != tx.revision:
        return None
    new = {str(row["uid"]): row for row in tx.put_off(jobs)}
    parts = _by_owner(plan, {}, {}, {})
    if not parts.keys() <= new.keys():
        return None
    for uid, part in parts.items():
        whole = whole_row(new[uid])
        known = {name: whole[name] for name in _COLUMNS if name in whole}
        part.row = cast("AnyRow", PlainRow(known))
    return Kept(parts, {}, {}, frozenset(), has_open_facts=False)


def _read_pods(connection: Connection, plan: Plan) -> dict[str, PodNow]:
    again = [pod.uid for pod in plan.pods if pod.attempt > 1]
    uids = [*again, *(move.uid for move in plan.pod_moves)]
    if not uids:
        return {}
    query = _PODS.where(among(connection, pods.c.uid, uids))
    return {row[0]: _pod_now(row) for row in connection.execute(query)}


def _read_turning(connection: Connection, parts: Mapping[str, Part]) -> list[PodNow]:
    """Live pods of jobs that begin to leave or stay after all.

    Those of a gang that is asked to save first are told nothing, so no move tells of them.
    """
    uids = [uid for uid, part in parts.items() if _turns(part)]
    if not uids:
        return []
    mine = among(connection, pods.c.job_uid, uids)
    query = _PODS.where(mine, pods.c.state.in_(sorted(LIVE_POD)))
    return [_pod_now(row) for row in connection.execute(query)]


def _turns(part: Part) -> bool:
    if part.move is None or part.row is None:
        return False
    was_leaving = part.row._mapping["state"] == JobState.EVICTING
    if part.move.state is JobState.EVICTING:
        return not was_leaving
    return was_leaving and part.move.state in STAYING


_PODS = sa.select(
    pods.c.uid,
    pods.c.job_uid,
    pods.c.node,
    pods.c.state,
    pods.c.exit_code,
    pods.c.gpu_mask,
    pods.c.bound_at,
)


def _pod_now(row: AnyRow) -> PodNow:
    _uid, job, node, state, code, mask, bound_at = row
    return PodNow(job, node, PodState(state), code, mask, bound_at)


def _read_claims(connection: Connection, plan: Plan) -> dict[str, ClaimNow]:
    uids = [*(claim.uid for claim in plan.claims), *plan.claims_gone]
    if not uids:
        return {}
    query = sa.select(claims).where(among(connection, claims.c.uid, uids))
    return {row.uid: ClaimNow(claim_of(row), bool(row.gone)) for row in connection.execute(query)}


def _jobs_of_facts(connection: Connection, plan: Plan) -> dict[int, str]:
    if not plan.facts_done:
        return {}
    query = sa.select(facts.c.id, facts.c.job_uid).where(
        among(connection, facts.c.id, plan.facts_done), facts.c.applied_at.is_(None)
    )
    return dict(connection.execute(query).all())


def _by_owner(
    plan: Plan,
    now: Mapping[str, PodNow],
    claims_now: Mapping[str, ClaimNow],
    job_of_fact: Mapping[int, str],
) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for move in plan.job_moves:
        parts.setdefault(move.uid, Part()).move = move
    for pod in plan.pods:
        parts.setdefault(pod.job, Part()).pods.append(pod)
    for pod_move in plan.pod_moves:
        if pod_move.uid in now:
            parts.setdefault(now[pod_move.uid].job, Part()).pod_moves.append(pod_move)
    for claim in plan.claims:
        known = claims_now.get(claim.uid)
        if known is None or known.gone or known.claim != claim:
            parts.setdefault(owner_of(claim), Part()).claims.append(claim)
    for uid in plan.claims_gone:
        if uid in claims_now and not claims_now[uid].gone:
            parts.setdefault(claims_now[uid].owner, Part()).claims_gone.append(uid)
    for id_, job in job_of_fact.items():
        parts.setdefault(job, Part()).facts.append(id_)
    return parts


def _read_rows(connection: Connection, parts: Mapping[str, Part]) -> None:
    """Give each part its row."""
    of_windows = {window_key(name): name for name in _window_names(parts)}
    wanted = [uid for uid in parts if uid not in of_windows]
    if wanted:
        is_lite = connection.dialect.name == "sqlite"
        sql, values = (_JOBS_SQLITE, json.dumps(wanted)) if is_lite else (_JOBS, array_of(wanted))
        for row in ask_rows(connection, sql, (values,), _COLUMNS):
            parts[row.uid].row = row
    if of_windows:
        for key, name in of_windows.items():
            parts[key].window = name
        named = among(connection, windows.c.name, list(of_windows.values()))
        for row in connection.execute(sa.select(windows).where(named)):
            parts[window_key(row.name)].row = row


def _window_names(parts: Mapping[str, Part]) -> list[str]:
    begin = window_key("")
    return [key.removeprefix(begin) for key in parts if key.startswith(begin)]


def _stale(
    connection: Connection,
    plan: Plan,
    parts: Mapping[str, Part],
    now: Mapping[str, PodNow],
    newest_now: "_Newest",
) -> set[str]:
    """Jobs that changed, were deleted, have a newer fact, or have to do with a node that changed.

    A node that pods come to may be lost by now; one that they leave may be there again.
    """
    touched = _touched_jobs(connection, plan) if newest_now.fact > plan.revision else frozenset()
    changed = _changed_nodes(connection, plan) if newest_now.node > plan.revision else frozenset()
    map_changed = newest_now.map_revision > plan.revision
    stale: set[str] = set()
    for uid, part in parts.items():
        arriving = bool(part.pods or part.claims)
        if is_pool(part):
            if arriving and (map_changed or any(claim.node in changed for claim in part.claims)):
                stale.add(uid)
        elif part.row is None:
            # What is left of a window that was deleted ends all the same.
            if part.move is not None or arriving or part.pod_moves:
                stale.add(uid)
        elif (
            (part.row._mapping["revision"] > plan.revision and (arriving or part.window is None))
            or uid in touched
            or (arriving and map_changed)  # a node may be gone, or lie elsewhere
            or any(node in changed for node in _nodes_of(part, now))
            or (part.window is None and any(claim.node in changed for claim in part.claims))
        ):
            stale.add(uid)
    return stale


def _nodes_of(part: Part, now: Mapping[str, PodNow]) -> Iterator[str]:
    """Nodes that pods of a part come to, leave, or are on."""
    for pod in part.pods:
        yield pod.node
    for uid in (*(pod.uid for pod in part.pods), *(move.uid for move in part.pod_moves)):
        if uid in now and now[uid].state in LIVE_POD:
            yield now[uid].node


_COLUMNS = tuple(c.name for c in jobs.c if c.name not in {"spec", "body"})
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM jobs WHERE uid"
_JOBS = f"{_SELECT} = ANY(%s::text[])"
_JOBS_SQLITE = f"{_SELECT} IN (SELECT value FROM json_each(?))"


class _Newest(NamedTuple):
    """The newest revisions of what a plan may not know: most often one question suffices.

    Attributes:
        fact: Of the facts that wait to be taken account of; 0 if none does.
    """

    map_revision: int
    fact: int
    node: int


_NEWEST = sa.select(map_revision_select(), newest_open_fact(), newest(nodes.c.revision))


def _touched_jobs(connection: Connection, plan: Plan) -> frozenset[str]:
    query = sa.select(facts.c.job_uid).where(
        facts.c.applied_at.is_(None), facts.c.id > plan.revision
    )
    return frozenset(connection.execute(query).scalars())


def _changed_nodes(connection: Connection, plan: Plan) -> frozenset[str]:
    query = sa.select(nodes.c.name).where(nodes.c.revision > plan.revision)
    return frozenset(connection.execute(query).scalars())


def claimants_without_claim(connection: Connection, kept: Kept) -> list[str]:
    """Gangs for which others would leave though they have neither claim nor pods there."""
    wanted = {new_claimant(part) for part in kept.parts.values()} - {None}
    missing = [
        uid
        for uid in sorted(str(uid) for uid in wanted)
        if uid not in kept.parts or not (kept.parts[uid].claims or kept.parts[uid].pods)
    ]
    if not missing:
        return []
    query = sa.select(claims.c.uid, claims.c.job_uid).where(
        among(connection, claims.c.job_uid, missing), NOT_GONE
    )
    ending = {uid for part in kept.parts.values() for uid in part.claims_gone}
    has = {job for uid, job in connection.execute(query) if uid not in ending}
    return [uid for uid in missing if uid not in has]
