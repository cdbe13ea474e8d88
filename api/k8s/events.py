"""core/v1 Event: the newest of the history, as `kubectl describe` and `kubectl events` read it."""

from collections.abc import Collection, Iterable

from api.k8s.base import Base
from api.k8s.kinds import Column, Kind, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import metadata_of, time_text
from api.k8s.schema import ANYTHING, INTEGER, TEXT, object_schema
from api.k8s.table import age
from api.store.look import Look
from api.store.views import EventView

EVENTS_SHOWN = 2_000
"""The newest ones of a list; the whole history is at /v1/events."""

KIND = Kind(
    "",
    "v1",
    "events",
    "event",
    "Event",
    object_schema(
        "Event tells of something that happened to an object. The newest are shown.",
        {
            "involvedObject": ANYTHING,
            "reason": TEXT,
            "message": TEXT,
            "type": TEXT | {"description": "Normal or Warning."},
            "count": INTEGER,
            "firstTimestamp": TEXT,
            "lastTimestamp": TEXT,
            "source": ANYTHING,
            "reportingComponent": TEXT,
            "reportingInstance": TEXT,
        },
    ),
    verbs=("get", "list", "watch"),
    short_names=("ev",),
    columns=(
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        Column("Subobject", priority=1),
        Column("Source", priority=1),
        Column("Message"),
        Column("First Seen", priority=1),
        Column("Count", type="integer", priority=1),
        Column("Name", format="name", priority=1),
    ),
    selectable=(
        "involvedObject.kind",
        "involvedObject.apiVersion",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "type",
        "source",
        "reportingComponent",
    ),
    append_only=True,
)

SUBJECTS = {
    "job": ("podyard.io/v1", "Job"),
    "pod": ("v1", "Pod"),
    "node": ("v1", "Node"),
    "queue": ("scheduling.volcano.sh/v1beta1", "Queue"),
}
"""apiVersion and kind of what an event is about; other events are not told of here."""

DEFAULT = "default"

_WARNINGS = ("failed", "lost", "fault", "evict", "dead", "refused", "suspect", "denied")


class Events(Base):
    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        if wanted.scopes is not None:
            revisions = [int(scope) for scope in wanted.scopes]
            found = look.events_at(revisions)
        else:
            found = look.last_events(
                EVENTS_SHOWN,
                subject_kinds=SUBJECTS,
                name=wanted.fields.get("involvedObject.name"),
                namespaces=_namespaces(wanted.namespace),
            )
        objects = [event_object(event) for event in found if event.subject_kind in SUBJECTS]
        return sorted(
            (o for o in objects if wanted.namespace in (None, namespace_of(o))),
            key=lambda o: (namespace_of(o), name_of(o)),
        )

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        about = obj["involvedObject"]
        return [
            age(obj["lastTimestamp"], now_s),
            obj["type"],
            obj["reason"],
            f"{about['kind'].lower()}/{about['name']}",
            "",
            obj["source"]["component"],
            obj["message"],
            age(obj["firstTimestamp"], now_s),
            obj["count"],
            name_of(obj),
        ]

    def scope_of(self, obj: Obj) -> str:
        return str(int(name_of(obj).rpartition(".")[2], 16))

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        return (str(event.revision),) if event.subject_kind in SUBJECTS else ()


def _namespaces(namespace: str | None) -> tuple[str, ...] | None:
    """Namespaces of events that are shown in one: what has none is shown in `default`."""
    if namespace is None:
        return None
    return (namespace, "") if namespace == DEFAULT else (namespace,)


def event_object(event: EventView) -> Obj:
    """An event as Kubernetes shows it; those of what has no namespace are in `default`."""
    version, kind = SUBJECTS[event.subject_kind]
    namespace = event.namespace or DEFAULT
    about = {"kind": kind, "apiVersion": version, "name": event.name, "uid": _uid(event)}
    if event.namespace:
        about["namespace"] = event.namespace
    at = time_text(event.at)
    what = event.kind.partition(".")[2]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata_of(
            KIND,
            name=f"{event.name.lower()}.{event.revision:016x}",
            namespace=namespace,
            uid=f"event-{event.revision}",
            revision=event.revision,
            created_s=event.at,
        ),
        "involvedObject": about,
        "reason": "".join(word.capitalize() for word in what.split("_")),
        "message": event.message,
        "type": "Warning" if any(word in what for word in _WARNINGS) else "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "podyard"},
        "reportingComponent": "podyard",
        "reportingInstance": "",
    }


def _uid(event: EventView) -> str:
    if event.subject_kind == "pod" and event.body.get("attempt"):
        return f"{event.uid}-{event.body['attempt']}"
    return event.uid
