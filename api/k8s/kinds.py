"""What a kind is, and what its module has to do so that `kubectl` can work with it.

The machinery (routes, discovery, tables, patches, watches) knows no kind by name: it works on
`Kind`, a description, and `Handler`, the operations, which map objects to the services of `/v1`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from api.admission.admit import Door
from api.auth import ANYBODY, Caller
from api.clock import Clock
from api.store.engine import Database, Transaction
from api.store.look import Look
from api.store.views import EventView

T = TypeVar("T")

Obj: TypeAlias = dict[str, Any]
"""An object as JSON: apiVersion, kind, metadata and so on."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`.

    Attributes:
        priority: 0 = always shown, 1 = with `-o wide` alone.
    """

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


NAME = Column("Name", format="name", description="Name of the object.")
AGE = Column("Age", description="Time since the object was made.")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path of its own.

    Attributes:
        kind, group, version: Of its body; those of the object if left empty.
    """

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """Description of a kind.

    Attributes:
        group: "" = core.
        schema: OpenAPI v3 schema of the object (type, description, properties, required). Strict
            field validation and `kubectl explain` both read it; an object without `properties`, or
            with `x-kubernetes-preserve-unknown-fields`, takes any field.
        strategic: Takes strategic merge patches, as the kinds of Kubernetes itself do.
        selectable: Field selectors beside metadata.name and metadata.namespace, as paths.
        append_only: Its objects never change and are only added, as events are.
        nameless: Its objects are questions: what is created is answered and kept nowhere.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    schema: Mapping[str, Any]
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = (NAME, AGE)
    strategic: bool = False
    selectable: tuple[str, ...] = ()
    append_only: bool = False
    nameless: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group`, as messages say it and as stored objects are filed under."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        return next((s for s in self.subresources if s.name == name), None)


class Reviews(Protocol):
    """Answers what a caller may do here."""

    def review(self, caller: Caller, spec: Mapping[str, Any]) -> Obj: ...

    def rules(self, caller: Caller, namespace: str) -> Obj: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The services of this process that handlers work with.

    Attributes:
        access: Put in by the face, which knows the kinds.
    """

    database: Database
    clock: Clock
    door: Door
    access: Reviews | None = None


@dataclass(slots=True)
class Call:
    """One request that changes something.

    Attributes:
        dry_run: Check everything, write nothing, return the object as it would be.
        manager: Field manager, as `kubectl-create`.
        subresource: Which part is written, "" = the object itself.
        warnings: Told to the caller beside the answer; handlers add theirs.
    """

    parts: Parts
    caller: Caller = ANYBODY
    dry_run: bool = False
    manager: str = ""
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def now_s(self) -> float:
        return self.parts.clock.now_s()

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a short write, see `Database.grouped`: it raises before it writes, or not at all."""
        return self.parts.database.grouped(work, self.now_s)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which objects a read wants; all conditions hold at once.

    Attributes:
        scopes: Objects of these scopes alone, see `Handler.scope_of`.
        after, limit: A page: objects behind this (namespace, name). Hints, unless `Handler.pages`.
        fields: What the field selector asks to be equal, by path. A hint too.
    """

    namespace: str | None = None
    name: str | None = None
    scopes: Collection[str] | None = None
    after: tuple[str, str] | None = None
    limit: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


class Handler(Protocol):
    """Operations of one kind.

    All run in threads, and may raise StatusError, StoreError and SchedulerError, which the
    machinery answers as `Status`.
    """

    @property
    def kind(self) -> Kind: ...

    @property
    def pages(self) -> bool:
        """Whether reads heed `after` and `limit`; other handlers return all objects each time.

        Those that do may return fewer, but none only where there are no more.
        """
        ...

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        """Objects as one snapshot has them, in order of (namespace, name).

        Make `metadata` with `api.k8s.meta.metadata_of`, so that uid and resourceVersion are right.
        """
        ...

    def create(self, call: Call, obj: Obj) -> Obj:
        """Write a new object; `metadata.name` and `.namespace` are set. Returns it as it is."""
        ...

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        """Make `old` what `new` says; every PUT and PATCH ends here, patches applied already.

        Raises `api.k8s.meta.Moved` when the object is no longer at the resourceVersion of `old`:
        the machinery reads it again and makes the patch anew, or answers 409.
        """
        ...

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        """Delete; returns the object while it is still there with a deletionTimestamp, else None.

        Args:
            options: `DeleteOptions`; dryRun and preconditions are dealt with already.
        """
        ...

    def act(self, call: Call, old: Obj, body: Obj) -> Obj:
        """POST on `call.subresource` of an object; returns the answer's body."""
        ...

    def text(self, call: Call, obj: Obj, query: Mapping[str, str]) -> str:
        """GET of `call.subresource` where that is text, as `log`."""
        ...

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        """One row of `kubectl get`, a value for each of `kind.columns`."""
        ...

    def scope_of(self, obj: Obj) -> str:
        """What is read again together when one of it changes; `namespace/name` for most."""
        ...

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        """Scopes whose objects an event may have changed; None = all. Too many costs only time.

        What has not changed is found out by comparing, and makes no watch event.
        """
        ...

    def makes(self, event: EventView) -> bool:
        """Whether an event makes the objects of the scopes that it touches."""
        ...

    def vanished(self, look: Look, scopes: Collection[str], since: int) -> bool:
        """Whether objects of these scopes may have gone after a revision without a `deleted` event.

        Only asked for a watch that begins before what is in memory.
        """
        ...


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def namespace_of(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))
