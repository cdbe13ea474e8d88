"""Watches: each change of a kind once and in order, for as long as anybody listens."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.clock import Clock
from api.k8s.accept import Form
from api.k8s.changes import ADDED, DELETED, Change, Line, parsed, too_old
from api.k8s.errors import Cause, StatusError, invalid
from api.k8s.kinds import Handler, Obj
from api.k8s.listing import Chosen, chosen
from api.k8s.meta import list_version, read_version
from api.k8s.mirror import Mirror
from api.k8s.problems import status_of
from api.k8s.request import Query
from api.k8s.seen import narrowed, seen_by
from api.k8s.table import partial, table
from api.k8s.verbs import Ask

STREAM_S_MAX = 24 * 3600.0
"""No stream is longer; whoever comes back misses nothing."""

BOOKMARK_S = 60.0
"""How often a watcher that wants bookmarks is told how far it is."""

STALL_S = 30.0
"""A reader that takes nothing for so long is cut off."""

CHANGES_AT_ONCE = 500

INITIAL_END = "k8s.io/initial-events-end"


async def watch(mirror: Mirror, ask: Ask, form: Form, clock: Clock) -> AsyncGenerator[bytes, None]:
    """The stream of a watch; what is wrong with the request is said before it begins.

    Raises:
        StatusError: 400 or 422 if the request makes no sense, 410 if it begins too far back.
    """
    query = ask.query
    wants_initial = _wants_initial(query)
    kind, names = ask.handler.kind, ask.caller.namespaces
    namespace = narrowed(kind, names, ask.target.namespace)
    choice = chosen(ask.handler, namespace, query, seen_by(kind, names, lambda: mirror.queues))
    version = read_version(query.text("resourceVersion"))
    line = await mirror.line(ask.handler)
    sender = _Sender(mirror, line, choice, form, query, clock)
    first: list[bytes] = []
    if wants_initial is None:
        wants_initial = version == 0
    if wants_initial:
        objects, version = await mirror.initial(line, choice.namespace, choice.name)
        first = [sender.text(ADDED, obj) for obj in objects if choice.has(obj)]
        if query.text("sendInitialEvents"):
            first.append(sender.bookmark(version, {INITIAL_END: "true"}))
    elif version == 0:
        version = int(list_version(line.head))
    elif version < line.start:
        changes, version = await mirror.missed(line, version)
        first = list(sender.texts(changes))
    mirror.check_room()
    return sender.follow(first, version)


def _wants_initial(query: Query) -> bool | None:
    """Whether the stream is to begin with all objects; None = it depends on the version."""
    said = query.text("sendInitialEvents")
    match = query.text("resourceVersionMatch")
    causes: list[Cause] = []
    if said and said not in {"true", "false"}:
        causes.append(Cause("sendInitialEvents", f'Invalid value: "{said[:80]}": true or false'))
    if said == "true" and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires resourceVersionMatch=NotOlderThan"
        causes.append(Cause("resourceVersionMatch", why, "FieldValueForbidden"))
    if match and not said:
        why = (
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is set"
        )
        causes.append(Cause("resourceVersionMatch", why, "FieldValueForbidden"))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    return None if not said else said == "true"


class _Sender:
    """Makes the text of one watcher's stream."""

    def __init__(
        self,
        mirror: Mirror,
        line: Line,
        choice: Chosen,
        form: Form,
        query: Query,
        clock: Clock,
    ) -> None:
        self._mirror = mirror
        self._line = line
        self._choice = choice
        self._form = form
        self._clock = clock
        self._bookmarks = query.text("allowWatchBookmarks") in {"true", "1"}
        self._seconds = STREAM_S_MAX if query.timeout_s is None else query.timeout_s

    @property
    def _handler(self) -> Handler:
        return self._line.handler

    async def follow(self, first: list[bytes], version: int) -> AsyncGenerator[bytes, None]:
        """The stream: what it begins with, then each change, until either side ends it."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._seconds
        marked_s = loop.time()
        self._mirror.watchers += 1
        try:
            yield b"".join(first)
            while not self._mirror.closing.is_set() and (now_s := loop.time()) < end_s:
                if version < self._line.start:
                    yield _error(too_old(version, self._line.start))
                    return
                changes = self._line.after(version, CHANGES_AT_ONCE)
                if changes:
                    version = changes[-1].version
                    if text := b"".join(self.texts(changes)):
                        yield text
                    continue
                if self._bookmarks and now_s - marked_s >= BOOKMARK_S:
                    version, marked_s = self._newest(version), now_s
                    yield self.bookmark(version)
                await self._mirror.wait(min(end_s - now_s, BOOKMARK_S))
            if self._bookmarks:
                yield self.bookmark(self._newest(version))
        finally:
            self._mirror.leave(self._line)

    def _newest(self, version: int) -> int:
        """Everything up to here was sent."""
        return max(version, int(list_version(self._line.head)))

    def texts(self, changes: Iterable[Change]) -> "Iterable[bytes]":
        """What the watcher is told of changes; what it did not choose it is told nothing of."""
        for change in changes:
            if not self._choice.has_key(*change.key):
                continue
            test = self._choice.test
            is_in = test is None or test(change.obj)
            was_in = change.was is not None and (test is None or test(parsed(change.was)))
            if change.type == DELETED:
                if is_in:
                    yield self._told(change, DELETED)
            elif is_in:
                yield self._told(change, change.type if was_in or not change.was else ADDED)
            elif was_in and change.was is not None:
                was = parsed(change.was)
                version = {"resourceVersion": change.obj["metadata"]["resourceVersion"]}
                yield self.text(DELETED, was | {"metadata": was["metadata"] | version})

    def _told(self, change: Change, kind: str) -> bytes:
        """One event of the stream; of a table one text for all watchers of its form."""
        if not self._form.kind:
            return b'{"type":"%b","object":%b}\n' % (kind.encode(), change.text)
        key = (kind, self._form)
        if key not in change.tables:
            change.tables[key] = self.text(kind, change.obj)
        return change.tables[key]

    def text(self, kind: str, obj: Obj) -> bytes:
        """One event of the stream."""
        shown = obj
        if self._form.kind == "Table":
            shown = table(
                self._handler.kind,
                self._handler.cells,
                [obj],
                {"resourceVersion": obj["metadata"]["resourceVersion"]},
                include=self._form.include,
                now_s=self._clock.now_s(),
            )
        elif self._form.kind:
            shown = partial(obj)
        return _line({"type": kind, "object": shown})

    def bookmark(self, version: int, annotations: Mapping[str, str] | None = None) -> bytes:
        """An event that only says how far the watcher is."""
        kind = self._handler.kind
        metadata: Obj = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        shown: Obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._form.kind == "Table":
            shown = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(version)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": partial(shown)}] if annotations else [],
            }
        return _line({"type": "BOOKMARK", "object": shown})


def _line(value: Obj) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _error(error: StatusError) -> bytes:
    return _line({"type": "ERROR", "object": error.status()})


class WatchStream(Response):
    """Sends a stream until it ends, or its reader leaves or takes nothing any more."""

    media_type = "application/json"

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache, private", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send(send))
        leaving = loop.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            with suppress(RuntimeError):  # where the last chunk is still being made
                await self._chunks.aclose()

    async def _send(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        try:
            async for chunk in self._chunks:
                await self._chunk(send, chunk)
        except Exception as error:  # an edge: the stream has begun, so its end must be a line of it
            await self._chunk(send, _error(status_of(error)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _chunk(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(STALL_S):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
