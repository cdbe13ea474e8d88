"""bus.volcano.sh/v1alpha1 Command: something asked of a job or a queue, gone when it is done."""

from collections.abc import Iterable
from dataclasses import replace

from api.auth import Right, check
from api.k8s.base import Base
from api.k8s.errors import Cause, conflict, invalid, not_found
from api.k8s.kinds import AGE, NAME, Call, Kind, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import metadata_of
from api.k8s.schema import object_schema
from api.k8s.table import age
from api.k8s.volcano.actions import JOB_ACTIONS, act
from api.k8s.volcano.jobs import RESOURCE as JOBS
from api.k8s.volcano.jobs import is_shown, rows_of
from api.k8s.volcano.kinds_other import COMMAND_FIELDS
from api.k8s.volcano.pod_rules import text_at, tree
from api.k8s.volcano.queue_shape import QUEUES
from api.k8s.volcano.site import ROOT
from api.store.look import Look
from api.store.queue_rows import read_queues
from api.store.queues import put_queue_in
from api.store.transaction import Transaction

KIND = Kind(
    "bus.volcano.sh",
    "v1alpha1",
    "commands",
    "command",
    "Command",
    object_schema("Command asks something of a job or a queue, once.", COMMAND_FIELDS),
    verbs=("create", "get", "list", "watch"),
    columns=(NAME, AGE),
)
MESSAGE_MAX = 500
QUEUE_ACTIONS = ("OpenQueue", "CloseQueue")


class Commands(Base):
    """Every command is done, and gone, when its request is answered."""

    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        return ()

    def create(self, call: Call, obj: Obj) -> Obj:
        target = tree(obj, "target")
        kind, name = text_at(target, "kind"), text_at(target, "name")
        if kind not in ("Job", "Queue") or not name:
            raise _invalid(obj, "target", "names a Job or a Queue by kind and name")
        allowed = JOB_ACTIONS if kind == "Job" else QUEUE_ACTIONS
        action = text_at(obj, "action")
        if action not in allowed:
            raise _invalid(obj, "action", f"found '{action[:40]}'; allowed: {', '.join(allowed)}")
        if kind == "Queue":
            check(call.caller, Right.OPERATE)
        if not call.dry_run:
            do = _on_job if kind == "Job" else _on_queue
            call.parts.database.grouped(lambda tx: do(call, tx, obj), call.now_s)
        metadata = metadata_of(
            KIND,
            name=name_of(obj),
            namespace=namespace_of(obj),
            uid=f"command:{namespace_of(obj)}:{name_of(obj)}",
            revision=0,
            created_s=call.now_s,
        )
        return obj | {"metadata": metadata}

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        return [name_of(obj), age(obj["metadata"].get("creationTimestamp"), now_s)]


def _invalid(obj: Obj, field: str, message: str) -> Exception:
    return invalid(KIND.kind, KIND.group, name_of(obj), [Cause(field, message)])


def _printable(message: str) -> str:
    """A message as one line that every database takes."""
    return "".join(c if c.isprintable() else " " for c in message[:MESSAGE_MAX]).strip()


def _on_job(call: Call, tx: Transaction, obj: Obj) -> None:
    target, look = tree(obj, "target"), Look(call.parts.database, tx.connection)
    namespace, name, uid = namespace_of(obj), text_at(target, "name"), text_at(target, "uid")
    for row in rows_of(look, Wanted(namespace=namespace, name=name)):
        for view in look.jobs(uids=[str(row.job_uid)]):
            if not is_shown(view, row):
                continue
            if uid and uid != view.uid:
                raise conflict(JOBS, name, f"its uid is {view.uid}, not {uid[:80]}")
            why = _printable(text_at(obj, "message")) or f"command {text_at(obj, 'action')}"
            act(tx, view, row, text_at(obj, "action"), why)
            return
    raise not_found(JOBS, name)


def _on_queue(call: Call, tx: Transaction, obj: Obj) -> None:
    name, closed = text_at(tree(obj, "target"), "name"), text_at(obj, "action") == "CloseQueue"
    there = read_queues(tx.connection)
    if name == ROOT:
        raise conflict(QUEUES, name, "the queue above all is always open")
    queue = there.get(name)
    if queue is None:
        raise not_found(QUEUES, name)
    above = queue.parent
    while above is not None and not closed:
        if there[above].closed:
            raise conflict(QUEUES, name, f"queue '{above}' above it is closed; open that first")
        above = there[above].parent
    put_queue_in(tx, replace(queue, closed=closed))
