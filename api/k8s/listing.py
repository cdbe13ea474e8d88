"""Lists: selected, cut into chunks that belong together."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from api.k8s.errors import StatusError, bad_request
from api.k8s.kinds import Handler, Obj, Wanted, name_of, namespace_of
from api.k8s.meta import SPAN, list_version, read_version
from api.k8s.request import Query
from api.k8s.selectors import Test, both, exact_fields, field_selector, label_selector
from api.store.errors import Gone
from api.store.events import check_kept
from api.store.look import Look

CHUNK = 500
"""Objects read at a time, at least."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a list or watch is about.

    Attributes:
        test: None = every object.
    """

    namespace: str | None
    name: str | None
    test: Test | None
    fields: Mapping[str, str]

    def has(self, obj: Obj) -> bool:
        return self.has_key(*_at(obj)) and (self.test is None or self.test(obj))

    def has_key(self, namespace: str, name: str) -> bool:
        """Whether an object may be chosen, by its name."""
        return self.namespace in (None, namespace) and self.name in (None, name)


def chosen(
    handler: Handler, namespace: str | None, query: Query, seen: Test | None = None
) -> Chosen:
    """What the selectors of a query choose. Raises StatusError 400.

    Args:
        seen: Whether an object is shown to whoever asks; None where all are.
    """
    kind = handler.kind
    fields = query.text("fieldSelector")
    selected = both(label_selector(query.text("labelSelector")), field_selector(kind, fields))
    test = both(seen, selected)
    exact = exact_fields(fields)
    if kind.namespaced and namespace is None:
        namespace = exact.get("metadata.namespace") or None
    return Chosen(namespace if kind.namespaced else None, exact.get("metadata.name"), test, exact)


@dataclass(frozen=True, slots=True)
class Listed:
    """One chunk of a list.

    Attributes:
        version: resourceVersion of the whole list, that of its first chunk.
        following: Token of the next chunk, "" of the last.
    """

    objects: list[Obj]
    version: str
    following: str = ""

    @property
    def metadata(self) -> Obj:
        return {"resourceVersion": self.version} | (
            {"continue": self.following} if self.following else {}
        )


def list_objects(handler: Handler, look: Look, choice: Chosen, query: Query) -> Listed:
    """The first chunk of a list, or the one that a token says.

    Raises:
        StatusError: 400 if the token is none, 410 if the list began too long ago, 504 if the
            resourceVersion asked for lies ahead.
    """
    token = query.text("continue")
    after, version = (None, list_version(look.revision)) if not token else _read(look, token)
    if not token:
        _check_version(look, query)
    objects = _page(handler, look, choice, after, query.limit)
    if query.limit is None or len(objects) <= query.limit:
        return Listed(objects, version)
    shown = objects[: query.limit]
    return Listed(shown, version, _token(version, _at(shown[-1])))


def _page(
    handler: Handler, look: Look, choice: Chosen, after: tuple[str, str] | None, limit: int | None
) -> list[Obj]:
    """One object more than the limit, if there are as many."""
    found: list[Obj] = []
    size = None if limit is None or not handler.pages else max(CHUNK, limit + 1)
    while True:
        wanted = Wanted(
            choice.namespace, choice.name, after=after, limit=size, fields=choice.fields
        )
        read = [o for o in handler.read(look, wanted) if after is None or _at(o) > after]
        found += filter(choice.has, read)
        if limit is not None and len(found) > limit:
            return found[: limit + 1]
        if size is None or not read:
            return found
        after = _at(read[-1])


def _at(obj: Obj) -> tuple[str, str]:
    return namespace_of(obj), name_of(obj)


def _check_version(look: Look, query: Query) -> None:
    version = read_version(query.text("resourceVersion"))
    if version // SPAN > look.revision:
        raise StatusError(
            504,
            f"Too large resource version: {version}, current: {list_version(look.revision)}",
            causes=(),
            retry_after_s=1,
        )


def _token(version: str, last: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *last]).encode()).decode().rstrip("=")


def _read(look: Look, token: str) -> tuple[tuple[str, str], str]:
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, namespace, name = json.loads(text)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise bad_request("continue key is not valid: it was not given by this service") from None
    if not all(isinstance(part, str) for part in (version, namespace, name)):
        raise bad_request("continue key is not valid: it was not given by this service")
    revision = read_version(version, "continue") // SPAN
    try:
        check_kept(look.connection, min(revision, look.revision))
    except Gone:
        raise StatusError(
            410,
            "The provided continue parameter is too old to display a consistent list result. You "
            "must start a new list without the continue parameter.",
        ) from None
    return (namespace, name), version
