"""scheduling.volcano.sh/v1beta1 Queue, over the same queues as `/v1/queues`."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from api.k8s.base import Base, own, scope
from api.k8s.errors import already_exists, conflict
from api.k8s.kinds import NAME, Call, Column, Kind, Obj, Subresource, Wanted, name_of
from api.k8s.meta import Moved, kept_meta, metadata_of
from api.k8s.schema import object_schema
from api.k8s.volcano.kinds_other import QUEUE_SPEC, QUEUE_STATUS
from api.k8s.volcano.look_site import site_of, state_of
from api.k8s.volcano.patch import apply_patch
from api.k8s.volcano.pod_rules import text_at, tree
from api.k8s.volcano.queue_rules import delete_problems, queue_defaults, queue_problems
from api.k8s.volcano.queue_shape import GPUS, not_enforced, record_of, shown_spec
from api.k8s.volcano.refuse import refused
from api.k8s.volcano.shape import Tree, filled, shape_problems
from api.k8s.volcano.site import ROOT
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, drop_object, put_object
from api.store.queue_counts import QueueCount, count_queues, queue_revisions
from api.store.queue_rows import read_queues
from api.store.queues import delete_queue_in, put_queue_in
from api.store.transaction import Transaction
from api.store.views import EventView
from scheduler.errors import Problem
from scheduler.model.lifecycle import JobState
from scheduler.model.queue import QueueRecord

KIND = Kind(
    "scheduling.volcano.sh",
    "v1beta1",
    "queues",
    "queue",
    "Queue",
    object_schema(
        "Queue is a tenant's line of jobs.", {"spec": QUEUE_SPEC, "status": QUEUE_STATUS}
    ),
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
    subresources=(Subresource("status", ("get", "patch", "update")),),
    columns=(NAME, Column("Parent", description="The queue above it.")),
)
RESOURCE = KIND.resource
_SHAPE = {"type": "object", "properties": {"spec": QUEUE_SPEC}}
_ROOT_SPEC: Tree = {"weight": 1, "reclaimable": False, "dequeueStrategy": "traverse"}

_PENDING = (JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED)
_RUNNING = (JobState.BOUND, JobState.RUNNING, JobState.EVICTING)
_DONE = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


class Queues(Base):
    """Queues of `/v1`, and above them one called root that takes no jobs."""

    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        records = read_queues(look.connection)
        rows = {row.name: row for row in look.objects(RESOURCE)}
        counts, revisions = count_queues(look.connection), queue_revisions(look.connection)
        for name in sorted({*records, ROOT}):
            if wanted.name in (None, name):
                yield shown_queue(
                    records.get(name, QueueRecord(name)),
                    rows.get(name),
                    counts.get(name, QueueCount()),
                    revisions.get(name, 0),
                )

    def create(self, call: Call, obj: Obj) -> Obj:
        queue = _whole(obj)
        name = name_of(queue)
        with look_at(call.parts.database) as look:
            there = read_queues(look.connection)
            problems = list(queue_problems(queue, None, site_of(look, with_counts=True)))
        if name == ROOT or name in there:
            raise already_exists(RESOURCE, name)
        if problems:
            raise refused(KIND, queue, problems)
        call.warnings += not_enforced(queue["spec"])
        if call.dry_run:
            return queue
        return call.parts.database.grouped(lambda tx: _put(call, tx, queue, None), call.now_s)

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        name = name_of(new)
        state = text_at(tree(new, "status"), "state")
        if call.subresource and state not in ("", "Open", "Closed", "Closing"):
            found = Problem("status.state", f"found '{state[:40]}'; Open or Closed")
            raise refused(KIND, new, [found])
        queue = old | {"status": new.get("status", {})} if call.subresource else _whole(new)
        if name == ROOT:
            raise conflict(RESOURCE, name, "the queue above all is always there as it is")
        with look_at(call.parts.database) as look:
            problems = list(queue_problems(_plain(queue), old, site_of(look, with_counts=True)))
        if problems:
            raise refused(KIND, queue, problems)
        if not call.subresource:
            call.warnings += not_enforced(queue["spec"])
        if call.dry_run:
            return queue | {"status": old["status"]}
        return call.parts.database.grouped(lambda tx: _put(call, tx, queue, old), call.now_s)

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        name = name_of(old)
        with look_at(call.parts.database) as look:
            problems = list(delete_problems(name, site_of(look, with_counts=True)))
        if problems:
            raise conflict(RESOURCE, name, problems[0].message)
        if not call.dry_run:
            call.parts.database.grouped(lambda tx: _drop(call, tx, name), call.now_s)
        return None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        return [name_of(obj), obj["spec"].get("parent", "")]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "queue":
            return (scope("", event.name),)
        # Which queue a job is in the event does not say; there are few queues.
        return None if event.subject_kind == "job" else own(KIND, event)


def shown_queue(
    record: QueueRecord, row: ObjectRow | None, count: QueueCount, revision: int
) -> Obj:
    """The object of a queue."""
    is_root = record.name == ROOT
    metadata = metadata_of(
        KIND,
        name=record.name,
        uid=f"queue:{record.name}",
        revision=max(revision, count.revision),
        created_s=None if row is None else row.created_at,
        row=row,
    )
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": dict(_ROOT_SPEC) if is_root else shown_spec(record, row),
        "status": _status(record, count),
    }


def _status(record: QueueRecord, count: QueueCount) -> Tree:
    numbers = {
        "pending": sum(count.jobs.get(state, 0) for state in _PENDING),
        "running": sum(count.jobs.get(state, 0) for state in _RUNNING),
        "unknown": count.jobs.get(JobState.RECOVERING, 0),
        "completed": sum(count.jobs.get(state, 0) for state in _DONE),
    }
    found: Tree = {"state": state_of(closed=record.closed, live=count.live), "reservation": {}}
    found |= {name: number for name, number in numbers.items() if number}
    allocated: Tree = {
        "cpu": f"{count.cpu_milli}m",
        "memory": f"{count.memory_mib}Mi",
        "pods": str(count.pods),
    }
    return found | {"allocated": allocated | ({GPUS: str(count.gpus)} if count.gpus else {})}


def _whole(obj: Obj) -> Obj:
    """An object with the defaults of its definition and of the webhook in."""
    plain = _plain(obj)
    problems = list(shape_problems(_SHAPE, plain, "", limits=False))
    if problems:
        raise refused(KIND, obj, problems)
    made = apply_patch(plain, queue_defaults(plain))
    queue: Obj = {**made} if isinstance(made, dict) else {}
    problems = list(shape_problems(_SHAPE, queue, ""))
    if problems:
        raise refused(KIND, obj, problems)
    return queue | {"spec": filled(QUEUE_SPEC, queue["spec"])}


def _plain(obj: Obj) -> Obj:
    """Without its status, which is the service's."""
    return {k: v for k, v in obj.items() if k != "status"}


def _put(call: Call, tx: Transaction, queue: Obj, old: Obj | None) -> Obj:
    name, meta = name_of(queue), queue["metadata"]
    look = Look(call.parts.database, tx.connection)
    before = next(iter(Queues().read(look, Wanted(name=name))), None)
    if old is not None and before != old:
        raise Moved(name)
    record = read_queues(tx.connection).get(name)
    if old is None and record is not None:
        raise already_exists(RESOURCE, name)
    state = text_at(tree(queue, "status"), "state")
    wanted = record_of(name, queue["spec"], record)
    if call.subresource and state:
        wanted = replace(wanted, closed=state != "Open")
    put_queue_in(tx, wanted)
    rows = look.objects(RESOURCE, name=name)
    row = ObjectRow(
        uid=f"queue:{name}",
        resource=RESOURCE,
        namespace="",
        name=name,
        created_at=rows[0].created_at if rows else tx.now_s,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        body={"spec": queue["spec"]},
        generation=(rows[0].generation if rows else 0) + 1,
    )
    put_object(tx, row, revision=tx.revision if tx.revision > look.revision else None)
    return next(iter(Queues().read(look, Wanted(name=name))))


def _drop(call: Call, tx: Transaction, name: str) -> None:
    delete_queue_in(tx, name)
    for row in Look(call.parts.database, tx.connection).objects(RESOURCE, name=name):
        drop_object(tx, row)
