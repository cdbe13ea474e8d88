"""core/v1 Pod: members of gangs, and pods that are made by themselves."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from api.k8s import gangs
from api.k8s.base import Base, own
from api.k8s.errors import Cause, StatusError, conflict, invalid
from api.k8s.jobs import KIND as JOB
from api.k8s.jobs import end_job
from api.k8s.kinds import Call, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import Moved, kept_meta, time_text
from api.k8s.pod_actions import bind, read_log, report
from api.k8s.pod_shape import JOB_KEY, KIND, PHASES, placed_object, status_word, waiting_object
from api.k8s.table import age
from api.k8s.volcano.pod_dress import dress, volcano_rows
from api.store.control import control_in
from api.store.engine import Transaction
from api.store.look import Look, PlacedPod
from api.store.objects import ObjectRow, drop_object, list_objects, put_object
from api.store.views import EventView, JobView, PodView
from scheduler.model.lifecycle import FINAL, LIVE_POD, JobState
from scheduler.model.plan import FactKind

WAITING = "waiting:"
"""Scope of a pod that is of no job yet; all others have their job's uid."""


class Pods(Base):
    kind = KIND
    pages = True

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        node = wanted.fields.get("spec.nodeName")
        if wanted.scopes is not None:
            return self._of_scopes(look, wanted.scopes)
        if wanted.name is not None:
            return self._named(look, wanted)
        if node:
            placed = look.placed_pods(namespace=wanted.namespace, node=node)
            return _sorted(_placed(look, placed, _rows_of(look, placed)))
        return self._page(look, wanted)

    def create(self, call: Call, obj: Obj) -> Obj:
        return gangs.submit_pod(call, obj, self._shown, self._is_there)

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        if call.subresource == "status":
            return report(call, old, new)
        if new["spec"] != old["spec"]:
            why = "Forbidden: what a pod asks for cannot be changed; make it anew"
            raise invalid("Pod", "", name_of(old), [Cause("spec", why, "FieldValueForbidden")])
        metadata = new["metadata"]

        def work(tx: Transaction) -> Obj:
            look = Look(call.parts.database, tx.connection)
            row = _row_of(look, old)
            now = self._one(look, old)
            if now["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                raise Moved(name_of(old))
            changed = replace(
                row,
                labels=_added(metadata.get("labels"), _made_labels(old, row)),
                annotations=_texts(metadata.get("annotations")),
                meta={**row.meta, **_finalizers(metadata)},
                managed=metadata.get("managedFields") or [],
            )
            if call.dry_run:
                return new
            put_object(tx, changed)
            return self._one(look, old)

        return call.write(work)

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        """Cancel a pod that is a gang of one; a member of a gang leaves with its gang, for a time.

        One that has ended is no longer shown.
        """

        def work(tx: Transaction) -> Obj | None:
            look = Look(call.parts.database, tx.connection)
            row = _row_of(look, old)
            if self._one(look, old)["metadata"]["uid"] != old["metadata"]["uid"]:
                raise Moved(name_of(old))
            if call.dry_run:
                return old
            if row.job_uid is None:
                drop_object(tx, row)
                return None
            return self._end(tx, look, call, old, row)

        return call.write(work)

    def _end(self, tx: Transaction, look: Look, call: Call, old: Obj, row: ObjectRow) -> Obj | None:
        job = _job_of(look, row)
        if job is not None and is_alone(row) and job.state in FINAL and not job.live:
            end_job(tx, job, row)
            return None
        if job is None or job.state in FINAL or old["status"]["phase"] in {"Succeeded", "Failed"}:
            _hide(tx, row, old)
            return None
        if is_alone(row):
            stored = list_objects(tx.connection, JOB.resource, job_uids=[job.uid])
            there = stored[0] if stored else _job_row(job)
            left = end_job(tx, job, there)
            put_object(tx, replace(row, deleted_at=tx.now_s), revision=tx.revision)
            if left is None:
                return None
            return old | {"metadata": old["metadata"] | _deleting(tx.now_s)}
        if "spec" in row.body:
            why = f"it is a member of gang '{job.name}'; delete the gang, or change its replicas"
            raise conflict(KIND.resource, name_of(old), why)
        return _requeue(tx, call, job, old)

    def text(self, call: Call, obj: Obj, query: Mapping[str, str]) -> str:
        return read_log(call, obj, query)

    def act(self, call: Call, old: Obj, body: Obj) -> Obj:
        if call.subresource == "binding":
            return bind(call, old, body)
        return self._evict(call, old, body)

    def _evict(self, call: Call, old: Obj, body: Obj) -> Obj:
        """Its gang leaves as a whole, is asked to save first, and starts elsewhere."""
        name = name_of(old)
        metadata = body.get("metadata") or {}
        wanted = metadata.get("name") if isinstance(metadata, dict) else metadata
        if body.get("kind") != "Eviction" or wanted not in (None, name):
            raise StatusError(400, f'an Eviction of "{name}" is expected', reason="BadRequest")

        def work(tx: Transaction) -> None:
            look = Look(call.parts.database, tx.connection)
            row = _row_of(look, old)
            job = _job_of(look, row)
            if call.dry_run:
                return
            if job is None:
                drop_object(tx, row)
            elif job.state in FINAL or old["status"]["phase"] in {"Succeeded", "Failed"}:
                _hide(tx, row, old)
            else:
                _requeue(tx, call, job, old)

        call.write(work)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        status, spec = obj["status"], obj["spec"]
        containers = status.get("containerStatuses") or []
        total = len(spec.get("containers") or []) or 1
        return [
            name_of(obj),
            f"{sum(1 for c in containers if c['ready'])}/{total}",
            status_word(obj),
            max((c["restartCount"] for c in containers), default=0),
            age(obj["metadata"].get("creationTimestamp"), now_s),
            status.get("podIP") or "<none>",
            spec.get("nodeName") or "<none>",
            "<none>",
            "<none>",
        ]

    def scope_of(self, obj: Obj) -> str:
        annotations = obj["metadata"].get("annotations") or {}
        owners = obj["metadata"].get("ownerReferences") or []
        uid = next((o["uid"] for o in owners if o.get("apiVersion") == JOB.api_version), None)
        uid = uid or annotations.get(JOB_KEY)
        return uid or f"{WAITING}{namespace_of(obj)}/{name_of(obj)}"

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind == "job":
            return (event.uid,)
        if event.subject_kind != "object":
            return ()
        found = [str(event.body["job"])] if event.body.get("job") else []
        if own(KIND, event):
            found.append(f"{WAITING}{event.namespace}/{event.name}")
        return found

    def makes(self, event: EventView) -> bool:
        # Each attempt of a gang has pods of its own.
        return event.kind in {"job.bound", "object.created"}

    def vanished(self, look: Look, scopes: Collection[str], since: int) -> bool:
        uids = [s for s in scopes if not s.startswith(WAITING)]
        pods = look.placed_pods(job_uids=uids)
        return any(p.view.state not in PHASES and p.view.revision > since for p in pods)

    # -- reading -----------------------------------------------------------------------------------

    def _of_scopes(self, look: Look, scopes: Collection[str]) -> list[Obj]:
        uids = [s for s in scopes if not s.startswith(WAITING)]
        names = [s.removeprefix(WAITING) for s in scopes if s.startswith(WAITING)]
        rows = look.objects(KIND.resource, job_uids=uids)
        for text in sorted(names):
            namespace, _, name = text.partition("/")
            found = look.objects(KIND.resource, namespace=namespace, name=name)
            rows += [row for row in found if row.job_uid is None]
        placed = look.placed_pods(job_uids=uids)
        return _sorted([*_placed(look, placed, rows), *_waiting(look, placed, rows)])

    def _named(self, look: Look, wanted: Wanted) -> list[Obj]:
        """Pods of one name, which one that was made by itself has in its row alone."""
        rows = look.objects(KIND.resource, namespace=wanted.namespace, name=wanted.name)
        placed = look.placed_pods(namespace=wanted.namespace, name=wanted.name)
        uids = {r.job_uid for r in rows if r.job_uid} | {p.view.job_uid for p in placed}
        placed = look.placed_pods(job_uids=sorted(uids))
        rows = [r for r in rows if r.job_uid is None] + _rows_of(look, placed, sorted(uids))
        found = [*_placed(look, placed, rows), *_waiting(look, placed, rows)]
        return _sorted(obj for obj in found if name_of(obj) == wanted.name)

    def _page(self, look: Look, wanted: Wanted) -> list[Obj]:
        """All pods behind one, or as many as are wanted of them."""
        after = wanted.after
        while True:
            found, after = _part(look, wanted, after)
            if found or after is None:
                return found

    def _shown(self, look: Look, row: ObjectRow) -> Obj:
        wanted = Wanted(scopes=[row.job_uid or f"{WAITING}{row.namespace}/{row.name}"])
        return next(o for o in self.read(look, wanted) if name_of(o) == row.name)

    def _is_there(self, look: Look, namespace: str, name: str) -> bool:
        return bool(list(self.read(look, Wanted(namespace=namespace, name=name))))

    def _one(self, look: Look, obj: Obj) -> Obj:
        """The pod of the same name as it is now. Raises Moved if there is none."""
        for found in self.read(look, Wanted(scopes=[self.scope_of(obj)])):
            if (namespace_of(found), name_of(found)) == (namespace_of(obj), name_of(obj)):
                return found
        raise Moved(name_of(obj))


# -- reading ---------------------------------------------------------------------------------------


def _sorted(objects: Iterable[Obj]) -> list[Obj]:
    return sorted(objects, key=_key)


def _at(item: PodView | ObjectRow) -> tuple[str, str]:
    return item.namespace, item.name


def _part(
    look: Look, wanted: Wanted, after: tuple[str, str] | None
) -> tuple[list[Obj], tuple[str, str] | None]:
    """Pods behind one, and up to where they are all of them; None = to the end.

    Pods have their names in two tables. Each is read for itself, and what lies behind the end of
    the shorter part is left for the next one: of the other table some in between may be missing.
    """
    part = {"namespace": wanted.namespace, "after": after, "limit": wanted.limit}
    placed = look.placed_pods(**part)  # type: ignore[arg-type]  # three arguments of three types
    rows = look.objects(KIND.resource, **part)  # type: ignore[arg-type]  # three arguments of three types
    ends = [
        _at(items[-1])
        for items in ([pod.view for pod in placed], rows)
        if wanted.limit is not None and len(items) == wanted.limit
    ]
    end = min(ends, default=None)
    own = sorted({row.job_uid for row in rows if row.job_uid and "spec" in row.body})
    theirs = look.placed_pods(job_uids=own) if own else []
    pods = list({pod.view.uid: pod for pod in (*placed, *theirs)}.values())
    every = list({row.uid: row for row in (*_rows_of(look, placed), *rows)}.values())
    found = _sorted([*_placed(look, pods, every), *_waiting(look, theirs, rows)])
    start = after or ("", "")
    return [o for o in found if start < _key(o) and (end is None or _key(o) <= end)], end


def _key(obj: Obj) -> tuple[str, str]:
    return namespace_of(obj), name_of(obj)


def _rows_of(look: Look, pods: Iterable[PlacedPod], uids: Iterable[str] = ()) -> list[ObjectRow]:
    found = sorted({pod.view.job_uid for pod in pods} | set(uids))
    return look.objects(KIND.resource, job_uids=found) if found else []


JOB_RESOURCES = (JOB.resource, "jobs.batch.volcano.sh")


def _deleted(look: Look, pods: list[PlacedPod]) -> set[str]:
    """Jobs that have ended and were deleted here: what is left of their pods is not shown."""
    uids = sorted({p.view.job_uid for p in pods if p.job_state in FINAL})
    if not uids:
        return set()
    rows = (row for r in JOB_RESOURCES for row in look.objects(r, job_uids=uids))
    return {str(row.job_uid) for row in rows if row.deleted_at is not None}


def _placed(look: Look, pods: list[PlacedPod], rows: list[ObjectRow]) -> Iterable[Obj]:
    deleted, volcano = _deleted(look, pods), volcano_rows(look, [p.view for p in pods])
    by_member = {(r.job_uid, *member_of(r)): r for r in rows if r.job_uid and r.body.get("member")}
    shown: dict[tuple[str, str], Obj] = {}
    for pod in pods:
        view = pod.view
        row = by_member.get((view.job_uid, view.role, view.index))
        if view.state not in PHASES or _is_hidden(row, view.attempt):
            continue
        if view.job_uid in deleted and view.state not in LIVE_POD:
            continue
        obj = placed_object(pod, row)
        if view.job_uid in volcano:
            dress(obj, view, volcano[view.job_uid])
        shown[view.namespace, name_of(obj)] = obj
    return shown.values()


def _waiting(look: Look, pods: list[PlacedPod], rows: list[ObjectRow]) -> Iterable[Obj]:
    """Pods that were made by themselves and have no place now."""
    known = {(p.view.job_uid, p.view.role, p.view.index): p for p in pods}
    alone = [row for row in rows if "spec" in row.body]
    uids = sorted({row.job_uid for row in alone if row.job_uid})
    jobs = {view.uid: view for view in look.jobs(uids=uids)} if uids else {}
    for row in alone:
        if row.job_uid is None:
            yield waiting_object(
                row, attempt=1, revision=row.revision, message=gangs.why_waiting(row)
            )
            continue
        pod, job = known.get((row.job_uid, *member_of(row))), jobs.get(row.job_uid)
        if job is None or job.state in FINAL or (pod and pod.view.state in PHASES):
            continue
        attempt = pod.view.attempt + 1 if pod else 1
        obj = waiting_object(row, attempt=attempt, revision=job.revision, message=job.message)
        obj["metadata"].setdefault("annotations", {})[JOB_KEY] = job.uid
        yield obj


def member_of(row: ObjectRow) -> tuple[str, int]:
    """Role and index of a pod's row."""
    member = row.body["member"]
    return str(member["role"]), int(member["index"])


def is_alone(row: ObjectRow) -> bool:
    """Whether a pod is a gang of one."""
    return bool(row.body.get("alone"))


def _is_hidden(row: ObjectRow | None, attempt: int) -> bool:
    return row is not None and row.body.get("hidden") == attempt


def _row_of(look: Look, obj: Obj) -> ObjectRow:
    """What is stored of a pod, or what is to be."""
    namespace, name = namespace_of(obj), name_of(obj)
    owner = (obj["metadata"].get("ownerReferences") or [{}])[0]
    job_uid = owner.get("uid") or (obj["metadata"].get("annotations") or {}).get(JOB_KEY)
    for row in look.objects(KIND.resource, namespace=namespace, name=name):
        if row.job_uid == job_uid:
            return row
    labels = obj["metadata"]["labels"]
    member = {"role": labels["podyard.io/role"], "index": int(labels["podyard.io/index"])}
    return ObjectRow(
        uid=f"pod:{job_uid}-{member['role']}-{member['index']}",
        resource=KIND.resource,
        namespace=namespace,
        name=name,
        created_at=0.0,
        job_uid=job_uid,
        body={"member": member},
        generation=0,
    )


def _job_of(look: Look, row: ObjectRow) -> JobView | None:
    if row.job_uid is None:
        return None
    return next(iter(look.jobs(uids=[row.job_uid])), None)


# -- writing ---------------------------------------------------------------------------------------


def _requeue(tx: Transaction, call: Call, job: JobView, old: Obj) -> Obj:
    if job.members > 1:
        call.warnings.append(
            f"pod {name_of(old)} is a member of gang {job.name}: all {job.members} leave together "
            "and start again together"
        )
    if not job.cancelling and job.state is not JobState.EVICTING:
        control_in(tx, job.namespace, job.name, FactKind.REQUEUE)
    return old | {"metadata": old["metadata"] | _deleting(tx.now_s)}


def _hide(tx: Transaction, row: ObjectRow, old: Obj) -> None:
    restarts = max(
        (c["restartCount"] for c in old["status"].get("containerStatuses", ())), default=0
    )
    put_object(tx, replace(row, body=row.body | {"hidden": restarts + 1}))


def _deleting(now_s: float) -> Obj:
    return {"deletionTimestamp": time_text(now_s), "deletionGracePeriodSeconds": 30}


def _job_row(job: JobView) -> ObjectRow:
    return ObjectRow(
        uid=job.uid,
        resource=JOB.resource,
        namespace=job.namespace,
        name=job.name,
        created_at=job.submitted_at,
        job_uid=job.uid,
    )


def _made_labels(obj: Obj, row: ObjectRow) -> Mapping[str, str]:
    found = obj["metadata"].get("labels") or {}
    return {k: v for k, v in found.items() if k not in row.labels and k.startswith("podyard.io/")}


def _added(labels: object, made: Mapping[str, str]) -> dict[str, str]:
    """Labels that a caller gave, without those that are made here."""
    return {k: v for k, v in _texts(labels).items() if made.get(k) != v}


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {k: str(v) for k, v in value.items() if k != JOB_KEY}


def _finalizers(metadata: Obj) -> Obj:
    kept = kept_meta(metadata)
    return {"finalizers": kept["finalizers"]} if "finalizers" in kept else {}
