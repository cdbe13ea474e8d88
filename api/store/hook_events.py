"""What hooks are told of a job, as rows of the outbox, written with the event that it is about."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from sqlalchemy import Connection

from api.clock import rfc3339
from api.schemas.spec import load_eviction
from api.store.checkpoints import Checkpoint, lost_nodes, newest_that_exists
from api.store.jsontext import dump_json
from api.store.parts import Part, PodNow
from api.store.rows import AnyRow
from api.store.subscribers import REQUESTED, HookEvent
from scheduler.model.lifecycle import FINAL, JobState, PodState
from scheduler.model.plan import Eviction, EvictStep, JobMove, PodRecord
from scheduler.model.resources import indices_of

PER_EVENT = 64
"""More messages than one event makes; room for their numbers in that of a delivery."""

PODS_SHOWN = 2_000
"""Pods in one message, which is some 300 kB."""

Row: TypeAlias = dict[str, object]
Told: TypeAlias = tuple[HookEvent, dict[str, object]]


def rows_of(
    connection: Connection,
    row: AnyRow,
    part: Part,
    now: Mapping[str, PodNow],
    *,
    revision: int,
    now_s: float,
) -> list[Row]:
    """What a plan makes known of a job to its hooks; nothing for most jobs.

    Args:
        row: The job as it was.
        now: Pods that move or start anew, as they were.
        revision: Of the one event about the job.
    """
    hooks = row._mapping["hooks"]
    if hooks is None or part.move is None:
        return []
    told = list(_told(connection, row, part.move, part, now))
    return deliveries_of(row, hooks, told, revision=revision, now_s=now_s)


def finished_rows(row: AnyRow, hooks: str, *, revision: int, now_s: float) -> list[Row]:
    """The same of a job that is cancelled before it had a place."""
    data = _common(row, JobState.CANCELLED, row._mapping["attempt"], "")
    return deliveries_of(row, hooks, [("job.finished", data)], revision=revision, now_s=now_s)


def deliveries_of(
    row: AnyRow, hooks: str, told: Iterable[Told], *, revision: int, now_s: float
) -> list[Row]:
    """One row for each message to each of a job's hooks that wants it."""
    old = row._mapping
    rows: list[Row] = []
    for kind, data in told:
        for index, hook in enumerate(json.loads(hooks)):
            if kind not in hook["events"]:
                continue
            number = revision * PER_EVENT + len(rows)
            is_request = kind == REQUESTED
            body = {"type": kind, "timestamp": rfc3339(now_s), "data": data}
            rows.append(
                {
                    "number": number,
                    "id": f"{old['uid']}-{number}",
                    "kind": kind,
                    "job_uid": old["uid"],
                    "namespace": old["namespace"],
                    "name": old["name"],
                    "url": hook["url"],
                    # A request to save does not wait behind notices that were not delivered.
                    "lane": f"{old['uid']}-{index}{'-save' if is_request else ''}",
                    "body": dump_json(body),
                    "state": "pending",
                    "request_id": data["request_id"] if is_request else None,
                    "grace_s": data["grace_s"] if is_request else None,
                    "at": now_s,
                    "due_at": now_s,
                }
            )
    return rows


def no_longer_asked(row: AnyRow, move: JobMove | None) -> str | None:
    """The request to save that a plan ends, whether it was answered or not."""
    if move is None or row._mapping["hooks"] is None:
        return None
    old = load_eviction(row._mapping["evict"])
    if old is None or not old.request_id or old.step is EvictStep.TERMINATING:
        return None
    new = move.evict
    if new is None or new.request_id != old.request_id or new.step is EvictStep.TERMINATING:
        return old.request_id
    return None


def _told(
    connection: Connection, row: AnyRow, move: JobMove, part: Part, now: Mapping[str, PodNow]
) -> Iterator[Told]:
    old = row._mapping
    common = _common(row, move.state, move.attempt, move.message)
    if move.state in FINAL:
        if old["state"] not in FINAL:
            yield "job.finished", common
        return
    if move.evict is not None:
        yield from _leaving(row, move.evict, part, now, common)
    is_new = move.state is JobState.BOUND and move.attempt != old["attempt"]
    if not part.pods or not (is_new or any(pod.attempt > 1 for pod in part.pods)):
        return
    lost = {now[m.uid].node for m in part.pod_moves if m.state is PodState.LOST}
    restores = _restored(connection, old["uid"], lost)
    shown = {"pods": [_pod(pod) for pod in part.pods[:PODS_SHOWN]], "pod_count": len(part.pods)}
    if is_new:
        yield "placement.bound", common | restores | shown
    if any(pod.attempt > 1 for pod in part.pods):
        again = [pod for pod in part.pods if pod.attempt > 1 or not is_new]
        yield "job.restarting", common | restores | _changed(again, now)


def _leaving(
    row: AnyRow, evict: Eviction, part: Part, now: Mapping[str, PodNow], common: Row
) -> Iterator[Told]:
    """Told when it begins, and when the pods are told to stop."""
    old = load_eviction(row._mapping["evict"])
    if old is not None and (old.step, old.request_id) == (evict.step, evict.request_id):
        return
    if evict.step is EvictStep.SAVING:
        return
    why: Row = {"then": evict.then, "why": evict.why, "step": evict.step}
    if evict.step is EvictStep.ASKED:
        grace_s = _grace_s(row)
        report_to = f"/v1/namespaces/{common['namespace']}/jobs/{common['name']}/checkpoints"
        asked = {"request_id": evict.request_id, "grace_s": grace_s, "report_to": report_to}
        yield REQUESTED, common | why | asked
    leaving = [m.uid for m in part.pod_moves if m.state is PodState.TERMINATING]
    yield "job.evicting", common | why | {"pods": leaving[:PODS_SHOWN], "pod_count": len(leaving)}


def _grace_s(row: AnyRow) -> float:
    asked = (hook.get("grace_s") for hook in json.loads(row._mapping["hooks"]))
    return float(next((seconds for seconds in asked if seconds is not None), 0.0))


def _common(row: AnyRow, state: JobState, attempt: int, message: str) -> Row:
    old = row._mapping
    return {
        "namespace": old["namespace"],
        "name": old["name"],
        "uid": old["uid"],
        "state": state,
        "attempt": attempt,
        "message": message,
    }


def _restored(connection: Connection, job: str, lost: Collection[str]) -> Row:
    """The checkpoint to begin with."""
    found = newest_that_exists(connection, job, {*lost, *lost_nodes(connection)})
    return {"checkpoint": None if found is None else checkpoint_of(found)}


def checkpoint_of(checkpoint: Checkpoint) -> Row:
    """A checkpoint as messages show it."""
    return {"step": checkpoint.step, "uri": checkpoint.uri, "tier": checkpoint.tier or None}


def _pod(pod: PodRecord) -> Row:
    return {
        "name": pod.name,
        "uid": pod.uid,
        "attempt": pod.attempt,
        "role": pod.role,
        "index": pod.index,
        "node": pod.node,
        "gpus": indices_of(pod.gpu_mask),
        "first_rank": pod.first_rank,
    }


def _changed(pods: list[PodRecord], now: Mapping[str, PodNow]) -> Row:
    """Pods that start anew, and of which of them the ranks are elsewhere than before."""
    moved = [
        pod
        for pod in pods
        if pod.uid not in now
        or (now[pod.uid].node, now[pod.uid].gpu_mask) != (pod.node, pod.gpu_mask)
    ]
    ranks = [pod.first_rank + offset for pod in moved for offset in range(pod.gpu_mask.bit_count())]
    return {
        "pods": [_pod(pod) for pod in pods[:PODS_SHOWN]],
        "pod_count": len(pods),
        "changed_ranks": ranks[: 8 * PODS_SHOWN],
    }
