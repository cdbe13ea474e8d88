"""The only writer of bindings and of job states past pending; runs in the leader alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import dump_eviction, dump_rules, dump_verdict
from api.store.bulk import among, insert_rows, update_rows, upsert_rows
from api.store.claims import claim_row, put_claims
from api.store.decisions import Entry
from api.store.driver import ask
from api.store.engine import Database, Transaction
from api.store.errors import Deposed, LedgerRefused
from api.store.faults import set_apart_emptied
from api.store.fresh import claimants_without_claim, drop_stale, of_new_jobs
from api.store.hook_events import no_longer_asked, rows_of
from api.store.job_recovery import dump_recovery
from api.store.job_rows import whole_row
from api.store.jsontext import dump_json
from api.store.outbox import end_requests, put_deliveries
from api.store.parts import Kept, Part, PodNow, is_pool
from api.store.rows import AnyRow
from api.store.tables import claims, facts, jobs, leader, pods, windows
from api.store.telling import ToldCommit
from api.store.told import job_event, window_event
from api.store.usage import accrue, ended_lives
from api.store.views import Committed
from scheduler.errors import StateError, invariant
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState, check_job_move
from scheduler.model.plan import JobMove, Plan, PodMove, PodRecord

NO_PLACE = frozenset({JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED})
"""States without pods, and so without the times of a binding."""


@dataclass(slots=True)
class _Rows:
    """What is to be written, gathered job by job.

    Attributes:
        first: Uids of pods that are not there yet, as their job never had an attempt.
    """

    jobs: list[dict[str, object]] = field(default_factory=list)
    pods: list[dict[str, object]] = field(default_factory=list)
    first: set[str] = field(default_factory=set)
    pod_moves: list[dict[str, object]] = field(default_factory=list)
    claims: list[dict[str, object]] = field(default_factory=list)
    claims_gone: list[dict[str, object]] = field(default_factory=list)
    windows_over: list[str] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)
    deliveries: list[dict[str, object]] = field(default_factory=list)
    requests_over: list[str] = field(default_factory=list)
    told: ToldCommit = field(default_factory=ToldCommit)


def commit(
    db: Database, plan: Plan, epoch: int, now_s: float, entry: Entry | None = None
) -> Committed:
    """Write a plan, all of it or nothing, but for jobs that something newer has touched.

    A job is dropped from the plan, to be decided anew, when a fact about it, the job itself or a
    node that it would use is newer than the plan; with it goes whoever counted on what it frees.
    A gang for which others leave and those others go together: all of it is written, or none.
    What would change nothing is not written: no event, no revision.

    Args:
        entry: Of the decision log, written along if anything is.

    Raises:
        Deposed: If the epoch is over; nothing was written.
        LedgerRefused: If the schema refused a pod or a claim; nothing was written.
        InvariantError: If a job would leave for a gang without a place; nothing was written.
    """
    try:
        with db.write(now_s) as tx:
            return write_plan(tx, plan, epoch, entry)
    except sa.exc.IntegrityError as error:
        raise LedgerRefused(str(error.orig).strip().splitlines()[0]) from error


def write_plan(tx: Transaction, plan: Plan, epoch: int, entry: Entry | None = None) -> Committed:
    """What `commit` does, in a transaction that may have brought the jobs it is about.

    Raises:
        Deposed, InvariantError, sqlalchemy.exc.IntegrityError: The transaction has to go.
    """
    before = tx.revision
    _check_epoch(tx.connection, epoch)
    kept = of_new_jobs(tx, plan)
    are_new = kept is not None
    if kept is None:
        tx.catch_up()
        kept = drop_stale(tx.connection, plan)
        _check_claimants(tx.connection, kept)
    rows = _gather(tx, kept)
    if are_new:
        _write_new(tx, rows)
    _write(tx, kept, rows)
    _tell(tx, kept, rows)
    is_changed = tx.revision > before or bool(rows.facts)
    if entry is not None and is_changed:
        entry.write(tx, kept.dropped)
    return Committed(
        revision=tx.revision,
        dropped=tuple(sorted(kept.dropped)),
        changed=is_changed,
        events=tx.counts(before),
        deliveries=len(rows.deliveries),
    )


def _write_new(tx: Transaction, rows: _Rows) -> None:
    """Jobs that this transaction brings: once, as the plan leaves them."""
    after = {row["uid"]: row for row in rows.jobs}
    whole = [whole_row(row) | after.get(row["uid"], {}) for row in tx.put_off(jobs)]
    tx.put_off_instead(jobs, whole)
    rows.jobs = []


def _check_epoch(connection: Connection, epoch: int) -> None:
    # A new leader takes its epoch under the same lock, so what is read here holds to the end.
    current = ask(connection, f"SELECT epoch FROM {leader.name}")[0][0]
    if current != epoch:
        raise Deposed(epoch, current)


def _check_claimants(connection: Connection, kept: Kept) -> None:
    without = claimants_without_claim(connection, kept)
    invariant(not without, f"jobs would leave for {without}, for whom no place is kept")


def _gather(tx: Transaction, kept: Kept) -> _Rows:
    rows = _Rows()
    for part in kept.parts.values():
        rows.facts += part.facts
        if part.window is not None:
            _gather_window(tx, rows, part, part.window)
        elif part.row is not None:
            _gather_job(tx, rows, part, part.row, kept)
    return rows


def _gather_job(tx: Transaction, rows: _Rows, part: Part, row: AnyRow, kept: Kept) -> None:
    old, uid = row._mapping, str(row._mapping["uid"])
    pod_moves = [move for move in part.pod_moves if _is_news(move, kept.now[move.uid])]
    kind, message, body = job_event(row, part, pod_moves)
    revision = old["revision"]
    if kind:
        revision = tx.emit(
            kind,
            subject_kind="job",
            namespace=old["namespace"],
            name=old["name"],
            uid=old["uid"],
            message=message,
            body=body,
        )
    verdict = _verdict_of(row, part.move)
    if kind or verdict != old["verdict"]:
        new = _job_row(row, part, verdict, revision=revision, now_s=tx.now_s)
        rows.jobs.append(new)
        if kind:
            rows.told.jobs.append({**old, **new, **_counts(row, part, kept.now)})
    if old["attempt"] == 0:
        rows.first |= {pod.uid for pod in part.pods if pod.uid not in kept.now}
    rows.pods += [pod_row(row, pod, revision=revision, now_s=tx.now_s) for pod in part.pods]
    rows.told.pod_moves.extend((uid, m.uid, m.state, m.exit_code) for m in pod_moves)
    rows.pod_moves += [
        {"uid": m.uid, "state": m.state, "exit_code": m.exit_code, "revision": revision}
        for m in pod_moves
    ]
    _gather_claims(rows, part, revision)
    if old["hooks"] is not None and kind:
        _gather_hooks(tx, rows, part, row, kept, revision)


def _tell(tx: Transaction, kept: Kept, rows: _Rows) -> None:
    """Spare who follows in this process from reading what is plain: jobs and their pods."""
    if not kept.has_open_facts:
        tx.jobs |= {str(row["uid"]): row for row in rows.told.jobs if row["recovery"] is None}
    if not (rows.claims or rows.claims_gone or rows.windows_over):
        rows.told.pods.extend(rows.pods)
        rows.told.facts.extend(rows.facts)
        tx.tell(rows.told, len(rows.told.jobs))


def _counts(row: AnyRow, part: Part, now: Mapping[str, PodNow]) -> dict[str, object]:
    """What triggers make of a job's counts of pods."""
    live = _left_alone(row, part, now)
    touched = {*(pod.uid for pod in part.pods), *(move.uid for move in part.pod_moves)}
    was = sum(uid in now and now[uid].state is PodState.RUNNING for uid in touched)
    running = int(row._mapping["pods_running"]) - was
    after = [pod.state for pod in part.pods] + [move.state for move in part.pod_moves]
    return {
        "pods_live": live + sum(state in LIVE_POD for state in after),
        "pods_running": running + sum(state is PodState.RUNNING for state in after),
    }


def _gather_hooks(
    tx: Transaction, rows: _Rows, part: Part, row: AnyRow, kept: Kept, revision: int
) -> None:
    """What the job's hooks are told of this, in the same transaction."""
    rows.deliveries += rows_of(
        tx.connection, row, part, kept.now, revision=revision, now_s=tx.now_s
    )
    over = no_longer_asked(row, part.move)
    if over is not None:
        rows.requests_over.append(over)


def _gather_claims(rows: _Rows, part: Part, revision: int) -> None:
    rows.claims += [claim_row(claim, revision) for claim in part.claims]
    replaced = {claim.uid for claim in part.claims}
    rows.claims_gone += [
        {"uid": uid, "gone": True, "revision": revision}
        for uid in part.claims_gone
        if uid not in replaced
    ]


def _gather_window(tx: Transaction, rows: _Rows, part: Part, name: str) -> None:
    is_over = part.row is not None and part.row._mapping["ends_at"] <= tx.now_s
    kind, message, body = window_event(part, is_over=is_over)
    of = "pool" if is_pool(part) else "reservation"
    revision = tx.emit(kind, subject_kind=of, name=name, uid=name, message=message, body=body)
    if is_over:
        rows.windows_over.append(name)
    _gather_claims(rows, part, revision)


def _is_news(move: PodMove, now: PodNow) -> bool:
    return (move.state, move.exit_code) != (now.state, now.exit_code)


def _verdict_of(row: AnyRow, move: JobMove | None) -> str | None:
    if move is None:
        return row._mapping["verdict"]  # type: ignore[no-any-return]  # rows have no types
    return None if move.verdict is None else dump_verdict(move.verdict)


def _job_row(
    row: AnyRow,
    part: Part,
    verdict: str | None,
    *,
    revision: int,
    now_s: float,
) -> dict[str, object]:
    """A job's columns after the move; all of them, so that all jobs are written at once."""
    columns = (
        "uid state reason message attempt gpus_per_pod node_type search gap verdict broken members "
        "minimum bound_at started_at finished_at could_start_at expected_start_at held evict "
        "evicted_at recovery revision"
    )
    new = {name: row._mapping[name] for name in columns.split()}
    new |= {"revision": revision, "verdict": verdict}
    move = part.move
    if move is None:
        return new
    _check_move(row, move)
    new |= {
        "state": move.state,
        "reason": move.reason,
        "message": move.message,
        "attempt": move.attempt,
        "gpus_per_pod": move.gpus_per_pod,
        "node_type": move.node_type,
        "broken": dump_rules(move.broken),
        "could_start_at": move.could_start_s,
        "expected_start_at": move.expected_start_s,
        "held": move.held,
        "evict": dump_eviction(move.evict),
        "evicted_at": move.evicted_s,
        "recovery": dump_recovery(move),
    }
    if move.attempt != row._mapping["attempt"]:
        new |= {"search": move.search, "gap": move.gap}
    elif move.verdict is not None:
        new |= {"search": move.verdict.search, "gap": None}
    if move.gpus_per_pod and not row._mapping["roles"]:
        # An elastic gang may have started with fewer than all.
        count = move.pod_count or row._mapping["gpus"] // move.gpus_per_pod
        new["members"] = new["minimum"] = count
    return new | _times(row, move, now_s)


def _left_alone(row: AnyRow, part: Part, now: Mapping[str, PodNow]) -> int:
    """How many live pods of a job a plan says nothing of: not all of it starts, or starts anew."""
    uids = {pod.uid for pod in part.pods} | {move.uid for move in part.pod_moves}
    touched = sum(uid in now and now[uid].state in LIVE_POD for uid in uids)
    return int(row._mapping["pods_live"]) - touched


def _check_move(row: AnyRow, move: JobMove) -> None:
    old = JobState(row._mapping["state"])
    if old is not move.state:
        try:
            check_job_move(row._mapping["name"], old, move.state)
        except StateError as error:
            invariant(False, str(error))


def _times(row: AnyRow, move: JobMove, now_s: float) -> dict[str, object]:
    old = row._mapping
    times = {name: old[name] for name in ("bound_at", "started_at", "finished_at")}
    if move.state in NO_PLACE:
        times |= {"bound_at": None, "started_at": None}
    elif move.attempt != old["attempt"]:
        times |= {"bound_at": now_s, "started_at": None}
    if move.state is JobState.RUNNING and times["started_at"] is None:
        times["started_at"] = now_s
    if move.state in FINAL and times["finished_at"] is None:
        times["finished_at"] = now_s
    return times


def pod_row(row: AnyRow, pod: PodRecord, *, revision: int, now_s: float) -> dict[str, object]:
    """A pod of the job of this row, as the table has it."""
    old = row._mapping
    roles = old["roles"].split(",")
    return {
        "uid": pod.uid,
        "job_uid": pod.job,
        "namespace": old["namespace"],
        "name": pod.name,
        "role": pod.role,
        "role_index": roles.index(pod.role) if pod.role in roles else 0,
        "pod_index": pod.index,
        "node": pod.node,
        "gpu_mask": pod.gpu_mask,
        "gpus": pod.gpu_mask.bit_count(),
        "first_rank": pod.first_rank,
        "state": pod.state,
        "attempt": pod.attempt,
        "exit_code": pod.exit_code,
        "bound_at": now_s,
        "cpu_milli": pod.resources.cpu_milli,
        "memory_mib": pod.resources.memory_mib,
        "other": dump_json(dict(pod.resources.other)) if pod.resources.other else None,
        "revision": revision,
    }


def _write(tx: Transaction, kept: Kept, rows: _Rows) -> None:
    """What leaves, then what arrives: SQLite checks the ledger row by row."""
    connection = tx.connection
    accrue(tx, ended_lives(connection, kept, _ending(kept, rows)))
    update_rows(connection, pods, "uid", rows.pod_moves)
    _release(connection, kept, rows)
    _write_claims(connection, kept, rows)
    # A plain insert fires half of the triggers.
    first = [row for row in rows.pods if row["uid"] in rows.first]
    if rows.pod_moves:
        insert_rows(connection, pods, first)  # what is asked of emptied nodes below counts them
    else:
        tx.put_last(pods, first)
    upsert_rows(connection, pods, [row for row in rows.pods if row["uid"] not in rows.first])
    update_rows(connection, jobs, "uid", rows.jobs)
    end_requests(tx, rows.requests_over)
    put_deliveries(connection, rows.deliveries)
    if rows.facts:
        done = among(connection, facts.c.id, rows.facts)
        connection.execute(sa.update(facts).where(done).values(applied_at=tx.now_s))
    if any(move["state"] not in LIVE_POD for move in rows.pod_moves):
        set_apart_emptied(tx)


def _ending(kept: Kept, rows: _Rows) -> list[str]:
    """Pods whose life ends with this plan, those that start anew elsewhere included."""
    ended = [str(move["uid"]) for move in rows.pod_moves if move["state"] not in LIVE_POD]
    return ended + [str(row["uid"]) for row in rows.pods if row["uid"] in kept.now]


def _write_claims(connection: Connection, kept: Kept, rows: _Rows) -> None:
    update_rows(connection, claims, "uid", rows.claims_gone)
    known = [str(row["uid"]) for row in rows.claims if row["uid"] in kept.claims_now]
    put_claims(connection, rows.claims, known)
    if rows.windows_over:
        over = among(connection, windows.c.name, rows.windows_over)
        connection.execute(sa.delete(windows).where(over))


def _release(connection: Connection, kept: Kept, rows: _Rows) -> None:
    """Let pods that start anew elsewhere in this plan leave first: they may swap nodes."""
    again = [
        row["uid"]
        for row in rows.pods
        if row["uid"] in kept.now and kept.now[str(row["uid"])].state in LIVE_POD
    ]
    if again:
        stopped = {"state": PodState.STOPPED}
        connection.execute(
            sa.update(pods).where(among(connection, pods.c.uid, again)).values(**stopped)
        )
