"""What most handlers share: refusing what their kind has no verb for, one object a scope."""

from collections.abc import Collection, Mapping

from api.k8s.errors import StatusError
from api.k8s.kinds import Call, Kind, Obj, name_of, namespace_of
from api.store.look import Look
from api.store.views import EventView


class Base:
    """Operations of a kind that has none of them yet; each object is a scope of its own."""

    kind: Kind
    pages = False

    def create(self, call: Call, obj: Obj) -> Obj:
        raise no_verb(self.kind, "create")

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        raise no_verb(self.kind, "update")

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        raise no_verb(self.kind, "delete")

    def act(self, call: Call, old: Obj, body: Obj) -> Obj:
        raise no_verb(self.kind, f"create {call.subresource}")

    def text(self, call: Call, obj: Obj, query: Mapping[str, str]) -> str:
        raise no_verb(self.kind, f"get {call.subresource}")

    def scope_of(self, obj: Obj) -> str:
        return scope(namespace_of(obj), name_of(obj))

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        return own(self.kind, event)

    def makes(self, event: EventView) -> bool:
        return event.kind in {"job.submitted", "object.created"}

    def vanished(self, look: Look, scopes: Collection[str], since: int) -> bool:
        return False


def no_verb(kind: Kind, verb: str) -> StatusError:
    return StatusError(
        405,
        f"{verb} is not supported on resources of kind {kind.resource}",
        reason="MethodNotAllowed",
    )


def scope(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def names_of(scopes: Collection[str]) -> list[tuple[str, str]]:
    """(namespace, name) of scopes that were made of them."""
    found = (text.partition("/") for text in scopes)
    return [(namespace, name) for namespace, _, name in found]


def own(kind: Kind, event: EventView) -> Collection[str]:
    """The scope of a stored row of this kind that the event is about."""
    if event.subject_kind == "object" and event.body.get("resource") == kind.resource:
        return (scope(event.namespace, event.name),)
    return ()
