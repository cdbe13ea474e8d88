"""The only writer of bindings and of job states past pending; runs in the leader alone."""

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import dump_rules, dump_verdict
from api.store.bulk import among, update_rows, upsert_rows
from api.store.decisions import Entry
from api.store.engine import Database, Transaction
from api.store.errors import Deposed, LedgerRefused
from api.store.fresh import Kept, Part, PodNow, drop_stale
from api.store.jsontext import dump_json
from api.store.rows import AnyRow
from api.store.tables import facts, jobs, leader, pods
from api.store.views import Committed
from scheduler.errors import StateError, invariant
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState, PodState, check_job_move
from scheduler.model.plan import JobMove, Plan, PodMove, PodRecord

NODES_SHOWN = 32
"""Names of nodes in the event of a binding."""


@dataclass(slots=True)
class _Rows:
    """What is to be written, gathered job by job."""

    jobs: list[dict[str, object]] = field(default_factory=list)
    pods: list[dict[str, object]] = field(default_factory=list)
    pod_moves: list[dict[str, object]] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)


def commit(
    db: Database, plan: Plan, epoch: int, now_s: float, entry: Entry | None = None
) -> Committed:
    """Write a plan, all of it or nothing, but for jobs that something newer has touched.

    A job is dropped from the plan, to be decided anew, when a fact about it, the job itself or a
    node that it would use is newer than the plan; with it goes whoever counted on what it frees.
    What would change nothing is not written: no event, no revision.

    Args:
        entry: Of the decision log, written along if anything is.

    Raises:
        Deposed: If the epoch is over; nothing was written.
        LedgerRefused: If the schema refused a pod; nothing was written.
    """
    try:
        with db.write(now_s) as tx:
            _check_epoch(tx.connection, epoch)
            kept = drop_stale(tx.connection, plan)
            rows = _gather(tx, kept)
            _write(tx, kept, rows)
            if entry is not None and (tx.changed or rows.facts):
                entry.write(tx, kept.dropped)
            return Committed(
                revision=tx.revision,
                dropped=tuple(sorted(kept.dropped)),
                changed=tx.changed or bool(rows.facts),
                events=tx.counts(),
            )
    except sa.exc.IntegrityError as error:
        raise LedgerRefused(str(error.orig).strip().splitlines()[0]) from error


def _check_epoch(connection: Connection, epoch: int) -> None:
    # A new leader takes its epoch under the same lock, so what is read here holds to the end.
    current = connection.execute(sa.select(leader.c.epoch)).scalar_one()
    if current != epoch:
        raise Deposed(epoch, current)


def _gather(tx: Transaction, kept: Kept) -> _Rows:
    rows = _Rows()
    for part in kept.parts.values():
        rows.facts += part.facts
        if part.row is not None:
            _gather_job(tx, rows, part, part.row, kept)
    return rows


def _gather_job(tx: Transaction, rows: _Rows, part: Part, row: AnyRow, kept: Kept) -> None:
    old = row._mapping
    pod_moves = [move for move in part.pod_moves if _is_news(move, kept.now[move.uid])]
    kind, message, body = _event_of(row, part, pod_moves)
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
        rows.jobs.append(_job_row(row, part.move, verdict, revision=revision, now_s=tx.now_s))
    rows.pods += [_pod_row(row, pod, revision) for pod in part.pods]
    rows.pod_moves += [
        {"uid": m.uid, "state": m.state, "exit_code": m.exit_code, "revision": revision}
        for m in pod_moves
    ]


def _is_news(move: PodMove, now: PodNow) -> bool:
    return (move.state, move.exit_code) != (now.state, now.exit_code)


def _event_of(
    row: AnyRow, part: Part, pod_moves: list[PodMove]
) -> tuple[str, str, dict[str, object]]:
    """Kind, message and body of the one event about a job; no kind when nothing is to be told."""
    old, move = row._mapping, part.move
    if move is not None:
        if (move.state, move.attempt) != (old["state"], old["attempt"]):
            return f"job.{move.state}", _message(move, part), _body(move, part)
        if (move.reason, move.message) != (old["reason"], old["message"]):
            return f"job.{move.state}", move.message, _body(move, part)
    surplus = [m for m in pod_moves if m.surplus]
    if surplus:
        return "job.shrunk", _shrunk_message(surplus, part), _body(move, part) | _shrunk(surplus)
    if move is not None and dump_rules(move.broken) != old["broken"]:
        said = ", ".join(f"{r.group or 'part'} within {r.within}" for r in move.broken)
        return "job.rules", f"not kept: {said}" if said else "all rules are kept", {}
    if part.pods:
        return "job.grown", f"{len(part.pods)} pods joined", _body(move, part)
    if pod_moves:
        return "job.pods", _pods_message(pod_moves), {}
    return "", "", {}


def _message(move: JobMove, part: Part) -> str:
    if move.state is JobState.BOUND and part.pods:
        node_count = len({pod.node for pod in part.pods})
        return f"{len(part.pods)} pods on {node_count} nodes"
    return move.message


def _body(move: JobMove | None, part: Part) -> dict[str, object]:
    body: dict[str, object] = {}
    if move is not None:
        body = {"attempt": move.attempt, "reason": move.reason}
    if part.pods:
        names = list(dict.fromkeys(pod.node for pod in part.pods))
        body |= {"pods": len(part.pods), "nodes": names[:NODES_SHOWN], "node_count": len(names)}
    return body


def _shrunk_message(surplus: list[PodMove], part: Part) -> str:
    joined = f"; {len(part.pods)} joined" if part.pods else ""
    return f"{len(surplus)} pods stopped, as the job is to have fewer members{joined}"


def _shrunk(surplus: list[PodMove]) -> dict[str, object]:
    return {"stopped": len(surplus), "stopped_uids": [m.uid for m in surplus[:NODES_SHOWN]]}


def _pods_message(moves: list[PodMove]) -> str:
    by_state: dict[str, int] = {}
    for move in moves:
        by_state[move.state] = by_state.get(move.state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(by_state.items()))


def _verdict_of(row: AnyRow, move: JobMove | None) -> str | None:
    if move is None:
        return row._mapping["verdict"]  # type: ignore[no-any-return]  # rows have no types
    return None if move.verdict is None else dump_verdict(move.verdict)


def _job_row(
    row: AnyRow, move: JobMove | None, verdict: str | None, *, revision: int, now_s: float
) -> dict[str, object]:
    """A job's columns after the move; all of them, so that all jobs are written at once."""
    columns = (
        "uid state reason message attempt gpus_per_pod node_type search verdict broken members "
        "minimum bound_at started_at finished_at revision"
    )
    new = {name: row._mapping[name] for name in columns.split()}
    new |= {"revision": revision, "verdict": verdict}
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
    }
    if move.attempt != row._mapping["attempt"]:
        new["search"] = move.search
    elif move.verdict is not None:
        new["search"] = move.verdict.search
    if move.gpus_per_pod and not row._mapping["roles"]:
        new["members"] = new["minimum"] = row._mapping["gpus"] // move.gpus_per_pod
    return new | _times(row, move, now_s)


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
    if move.state is JobState.PENDING:
        times |= {"bound_at": None, "started_at": None}
    elif move.attempt != old["attempt"]:
        times |= {"bound_at": now_s, "started_at": None}
    if move.state is JobState.RUNNING and times["started_at"] is None:
        times["started_at"] = now_s
    if move.state in FINAL and times["finished_at"] is None:
        times["finished_at"] = now_s
    return times


def _pod_row(row: AnyRow, pod: PodRecord, revision: int) -> dict[str, object]:
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
        "cpu_milli": pod.resources.cpu_milli,
        "memory_mib": pod.resources.memory_mib,
        "other": dump_json(dict(pod.resources.other)) if pod.resources.other else None,
        "revision": revision,
    }


def _write(tx: Transaction, kept: Kept, rows: _Rows) -> None:
    """What leaves, then what arrives: SQLite checks the ledger row by row."""
    connection = tx.connection
    update_rows(connection, pods, "uid", rows.pod_moves)
    _release(connection, kept, rows)
    upsert_rows(connection, pods, rows.pods)
    update_rows(connection, jobs, "uid", rows.jobs)
    if rows.facts:
        done = among(connection, facts.c.id, rows.facts)
        connection.execute(sa.update(facts).where(done).values(applied_at=tx.now_s))


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
