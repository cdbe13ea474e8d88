"""What every call of the client stands on: one object, one list, one write."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar, cast
from urllib.parse import quote

from client.errors import BadAnswer, InputError
from client.shapes import Body
from client.transport import Call, Query, Transport

PAGE_ITEMS = 500

T = TypeVar("T")


def path_of(*parts: str) -> str:
    """A path of quoted parts.

    Raises:
        InputError: If a part is empty or would climb; such a path names something else.
    """
    for part in parts:
        if part in {"", ".", ".."}:
            raise InputError(f"'{part}' is not a name")
    return "/" + "/".join(quote(part, safe=":") for part in parts)


class Pages(Generic[T]):
    """The items of a list, fetched a page at a time while they are iterated; once.

    Attributes:
        fetch: Gives the page at a cursor.
        at: The call, for messages.
        revision: Of the first page; None before it was read.
    """

    def __init__(self, fetch: Callable[[str | None], dict[str, object]], at: str) -> None:
        self.fetch = fetch
        self.at = at
        self.revision: int | None = None

    def __iter__(self) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self.fetch(cursor)
            if self.revision is None:
                self.revision = revision_of(page)
            yield from cast(list[T], items_of(page, self.at))
            following = page.get("next")
            if not following:
                return
            if following == cursor:
                raise BadAnswer(f"{self.at} gave the same cursor twice; the list would not end")
            cursor = str(following)


class Calls:
    """Base of the client: what its methods are made of."""

    _transport: Transport

    @property
    def server(self) -> str:
        return self._transport.server

    def _get(self, path: str, query: Query | None = None) -> dict[str, object]:
        return self._object(Call("GET", path, query or {}, repeatable=True))

    def _send(self, method: str, path: str, body: Body) -> dict[str, object]:
        """A write that is the same when done twice."""
        return self._object(Call(method, path, content=json_body(body), repeatable=True))

    def _list(self, path: str, query: Query) -> "Pages[T]":
        def fetch(cursor: str | None) -> dict[str, object]:
            return self._get(path, {**query, "limit": PAGE_ITEMS, "cursor": cursor})

        return Pages(fetch, f"GET {path}")

    def _object(self, call: Call) -> dict[str, object]:
        value = self._transport.read(call)
        if not isinstance(value, dict):
            raise BadAnswer(
                f"{self.server} answered {call.method} {call.path} with a {type(value).__name__}, "
                "not an object; is it a Podyard service?"
            )
        return value


def job_path(namespace: str, name: str, *below: str) -> str:
    return path_of("v1", "namespaces", namespace, "jobs", name, *below)


def items_of(page: Mapping[str, object], at: str) -> list[object]:
    items = page.get("items")
    if not isinstance(items, list):
        raise BadAnswer(f"the answer to {at} has no list of items")
    return items


def revision_of(page: Mapping[str, object]) -> int:
    revision = page.get("revision")
    return revision if isinstance(revision, int) else 0


def json_body(body: Body) -> bytes:
    """A request body as JSON.

    Raises:
        InputError: If it holds what JSON cannot say: NaN, an infinity, a date.
    """
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the body cannot be sent as JSON: {error}") from None
