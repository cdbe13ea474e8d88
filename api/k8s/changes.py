"""Objects of one kind as they were last seen, and what has changed of them: values, no threads."""

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from api.k8s.errors import StatusError
from api.k8s.kinds import Handler, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import SPAN, list_version, version_of
from api.store.look import Look
from api.store.views import EventView

KEPT_CHANGES, KEPT_BYTES = 4_000, 32 * 1024 * 1024
"""How far the slowest watcher may fall behind; one copy serves all."""

BACKFILL_EVENTS = 20_000
"""How many events a watch may begin before what is in memory."""

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

Key: TypeAlias = tuple[str, str]


@lru_cache(maxsize=1_000)
def parsed(text: bytes) -> Obj:
    """An object of its text; not to be changed. Those that were asked for last are kept."""
    found: Obj = json.loads(text)
    return found


@dataclass(slots=True, eq=False)
class Change:
    """One object that changed; kept as text, which takes a fifth of the room.

    Attributes:
        key: Namespace and name.
        text: The object as it is now; as it was last, with its last version, if it is gone.
        was: As it was before; None if it was not there.
        tables: As it is sent in a table, by form; made when the first watcher needs it.
    """

    type: str
    version: int
    key: Key
    text: bytes
    was: bytes | None
    tables: dict[object, bytes] = field(default_factory=dict)

    @property
    def obj(self) -> Obj:
        return parsed(self.text)

    @property
    def size(self) -> int:
        """Bytes, about; what it was is another change's text most of the time."""
        return 2 * len(self.text)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An object as it was last seen."""

    uid: str
    text: bytes

    def obj(self) -> Obj:
        found: Obj = json.loads(self.text)
        return found


class Line:
    """The changes of one kind, oldest first, and all of its objects.

    Attributes:
        head: Revision up to which everything is in it.
        start: Version after which no change is missing.
    """

    def __init__(self, handler: Handler, look: Look) -> None:
        self.handler = handler
        self.head = look.revision
        self.start = int(list_version(look.revision))
        self._scopes: dict[str, dict[Key, _Seen]] = {}
        self._changes: list[Change] = []
        self._bytes = 0
        if not handler.kind.append_only:
            for obj in handler.read(look, Wanted()):
                self._keep(obj)

    @property
    def last(self) -> int:
        """Version of the newest change."""
        return self._changes[-1].version if self._changes else self.start

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def objects(self, namespace: str | None, name: str | None) -> Iterator[Obj]:
        """Objects as of `head`, in this namespace or of this name if they are given."""
        for scope in self._scopes.values():
            for key, seen in scope.items():
                if namespace in (None, key[0]) and name in (None, key[1]):
                    yield seen.obj()

    def after(self, version: int, limit: int) -> list[Change]:
        """Changes behind a version, the oldest first."""
        changes = self._changes
        at = bisect_right(changes, version, key=lambda change: change.version)
        return changes[at : at + limit]

    def at_start(self, scopes: Collection[str]) -> dict[str, list[Obj]]:
        """Objects of these scopes as they were at `start`; scopes without any are left out."""
        wanted = set(scopes)
        found = {
            (scope, key): seen.obj()
            for scope in wanted
            for key, seen in self._scopes.get(scope, {}).items()
        }
        for change in reversed(self._changes):
            scope = self.handler.scope_of(change.obj)
            if scope not in wanted:
                continue
            if change.was is None:
                found.pop((scope, change.key), None)
            else:
                found[scope, change.key] = parsed(change.was)
        by_scope: dict[str, list[Obj]] = {}
        for (scope, _), obj in sorted(found.items()):
            by_scope.setdefault(scope, []).append(obj)
        return by_scope

    def follow(self, look: Look, events: Iterable[EventView]) -> bool:
        """Take in what events have changed, as a snapshot that has all of them shows it."""
        touched = _Touched(self.handler, look, [e for e in events if e.revision > self.head])
        found = sorted(self._differences(look, touched), key=lambda change: change.version)
        last = self.last
        for change in found:
            # Two objects may have equal digits.
            last = change.version = max(change.version, last + 1)
        self._put([*self._changes, *found])
        self.head = look.revision
        return bool(found)

    def _put(self, changes: list[Change]) -> None:
        """A new list each time, as watchers may be reading the old one."""
        size = sum(change.size for change in changes)
        at = max(0, len(changes) - KEPT_CHANGES)
        size -= sum(change.size for change in changes[:at])
        while size > KEPT_BYTES and at < len(changes) - 1:
            size -= changes[at].size
            at += 1
        if at:
            self.start = changes[at - 1].version
        self._changes, self._bytes = changes[at:], size

    def _differences(self, look: Look, touched: "_Touched") -> Iterator[Change]:
        if touched.scopes is not None and not touched.scopes:
            return
        read = list(self.handler.read(look, Wanted(scopes=touched.scopes)))
        if self.handler.kind.append_only:
            for obj in read:
                yield Change(ADDED, _version(obj), _key(obj), _text(obj), None)
            return
        now: dict[str, dict[Key, Obj]] = {}
        for obj in read:
            now.setdefault(self.handler.scope_of(obj), {})[_key(obj)] = obj
        scopes = set(self._scopes) | set(now) if touched.scopes is None else set(touched.scopes)
        for scope in sorted(scopes):
            yield from self._compare(scope, now.get(scope, {}), touched.revision_of(scope))

    def _compare(self, scope: str, now: dict[Key, Obj], revision: int) -> Iterator[Change]:
        was = dict(self._scopes.get(scope, {}))
        # What changed without a revision of its own is told of at that of the event.
        floor = int(list_version(self.head))
        for key, obj in now.items():
            seen = was.pop(key, None)
            if seen is not None and seen.uid != obj["metadata"]["uid"]:
                # Of two objects of one name the old one goes before the new one comes.
                yield self._gone(scope, key, seen, revision, before=_version(obj))
                seen = None
            text = _text(obj)
            if seen is not None and seen.text == text:
                continue
            self._scopes.setdefault(scope, {})[key] = _Seen(obj["metadata"]["uid"], text)
            before = None if seen is None else seen.text
            version = _version(obj)
            if version <= floor:
                told = _at_version(obj, revision)
                version, text = _version(told), _text(told)
            yield Change(ADDED if before is None else MODIFIED, version, key, text, before)
        for key, seen in was.items():
            yield self._gone(scope, key, seen, revision)

    def _gone(
        self, scope: str, key: Key, seen: _Seen, revision: int, before: int | None = None
    ) -> Change:
        there = self._scopes[scope]
        del there[key]
        if not there:
            del self._scopes[scope]
        was = seen.obj()
        version = version_of(revision, seen.uid)
        if before is not None:
            version = str(min(int(version), before - 1))
        last = was | {"metadata": was["metadata"] | {"resourceVersion": version}}
        return Change(DELETED, int(version), key, _text(last), seen.text)

    def _keep(self, obj: Obj) -> None:
        scope = self._scopes.setdefault(self.handler.scope_of(obj), {})
        scope[_key(obj)] = _Seen(obj["metadata"]["uid"], _text(obj))


class _Touched:
    """Scopes that events have touched, and by which revision last; None = all."""

    def __init__(self, handler: Handler, look: Look, events: Iterable[EventView]) -> None:
        self.scopes: Collection[str] | None = ()
        self._all = look.revision
        self._revisions: dict[str, int] = {}
        is_all = False
        for event in events:
            found = handler.touched(look, event)
            if found is None:
                is_all = True
                continue
            for scope in found:
                self._revisions[scope] = event.revision
        self.scopes = None if is_all else list(self._revisions)

    def revision_of(self, scope: str) -> int:
        return self._revisions.get(scope, self._all)


def missed(line: Line, look: Look, version: int) -> list[Change]:
    """What changed after a version and before what is in memory: the objects as they were then.

    Raises:
        StatusError: 410 if that is too far back, or something may be gone that was there then.
        Gone: If the history does not go back so far.
    """
    # A version with digits of its own lies inside its revision, of which the rest is still to come.
    since = max(0, version // SPAN - (version % SPAN != SPAN - 1))
    events = look.events(since, BACKFILL_EVENTS + 1, until=line.start // SPAN)
    if len(events) > BACKFILL_EVENTS:
        raise too_old(version, line.start)
    handler = line.handler
    touched = _Touched(handler, look, events)
    if touched.scopes is None or handler.vanished(look, touched.scopes, since):
        raise too_old(version, line.start)
    there = line.at_start(touched.scopes)
    first: dict[str, EventView] = {}
    made: dict[str, list[int]] = {}
    for event in events:
        for scope in handler.touched(look, event) or ():
            first.setdefault(scope, event)
            if handler.makes(event):
                made.setdefault(scope, []).append(event.revision)
            elif scope not in there and _may_end(event) and not handler.makes(first[scope]):
                # It was there before, and nobody knows how it looked when it went.
                raise too_old(version, line.start)
    found = [
        change
        for scope, objects in there.items()
        for obj in objects
        for change in _told_late(obj, made.get(scope, ()), version)
    ]
    return sorted(found, key=lambda change: change.version)


def _told_late(obj: Obj, made: Iterable[int], version: int) -> Iterator[Change]:
    """That an object came, at the version at which it did, and how it was changed last.

    Whoever leaves between the two comes back with a version in between: for them it is no new one.
    """
    last = _version(obj)
    came = [_at_version(obj, revision) for revision in made if revision <= last // SPAN]
    if came and _version(came[-1]) > version:
        yield Change(ADDED, _version(came[-1]), _key(obj), _text(came[-1]), None)
    if last > max([version, *map(_version, came[-1:])]):
        yield Change(MODIFIED, last, _key(obj), _text(obj), None)


_ENDS = (".deleted", ".removed", ".cancelled", "object.changed")


def _may_end(event: EventView) -> bool:
    """Whether an object may be shown no longer after an event."""
    return event.kind.endswith(_ENDS)


def too_old(version: int, oldest: int) -> StatusError:
    return StatusError(410, f"too old resource version: {version} ({oldest})")


def _at_version(obj: Obj, revision: int) -> Obj:
    version = version_of(revision, obj["metadata"]["uid"])
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": version}}


def _version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _key(obj: Obj) -> Key:
    return namespace_of(obj), name_of(obj)


def _text(obj: Obj) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()
