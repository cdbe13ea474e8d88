"""The plain submission, which is most of what is written: answered before any route is looked for.

Whatever is asked in an unusual way, as YAML, as a dry run, goes on to the route, which
does the same and describes it.
"""

import re
from types import SimpleNamespace
from typing import NamedTuple, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth import Right, check
from api.auth.seen import caller_in
from api.http import shapes
from api.http.answers import Json
from api.http.guard import problem_response
from api.http.service import Service
from api.http.submitting import KEY_MAX, KEY_PATTERN, submit_one
from api.http.waiting import FAR_ENOUGH, WAIT_S, WAIT_S_MAX, WaitFor, wait_for
from api.schemas.job import JobBody
from api.schemas.reading import INLINE_BYTES, read_json
from api.store.errors import StoreError
from scheduler.errors import SchedulerError

PATH = "/v1/jobs"
_ROUTE = SimpleNamespace(path=PATH)
_JSON = b"application/json"

_KEY = re.compile(KEY_PATTERN.encode())


class Asked(NamedTuple):
    """What a plain submission asks for.

    Attributes:
        wait: What to wait for.
        timeout_s: How long.
    """

    key: str | None
    wait: WaitFor | None
    timeout_s: float


class Express:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _plain(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        try:
            answer: Response = await self._submit(scope, await _body(receive), asked)
        except (SchedulerError, StoreError) as error:
            answer = problem_response(error)
        await answer(scope, receive, send)

    async def _submit(self, scope: Scope, body: bytes, asked: Asked) -> Json:
        read = (
            read_json(JobBody, body)
            if len(body) <= INLINE_BYTES
            else await run_in_threadpool(read_json, JobBody, body)
        )
        caller = caller_in(scope)
        check(caller, Right.SUBMIT, namespace=read.namespace)
        job, created = await run_in_threadpool(
            submit_one, self._service, caller, read, asked.key, asked.wait
        )
        if asked.wait is not None:
            job = await wait_for(self._service, job.uid, asked.wait, asked.timeout_s, job)
        return Json(shapes.job(job), 201 if created else 200)


def _plain(scope: Scope) -> Asked | None:
    """What a plain submission asks for; None if the request is anything else."""
    if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
        return None
    kinds, key = 0, None
    for name, value in scope["headers"]:
        if name == b"content-type":
            kinds += 1
            if value != _JSON:
                return None
        elif name == b"idempotency-key":
            if key is not None or len(value) > KEY_MAX or not _KEY.fullmatch(value):
                return None
            key = value.decode("ascii")
    return _asked(scope["query_string"], key) if kinds == 1 else None


def _asked(query: bytes, key: str | None) -> Asked | None:
    if not query:
        return Asked(key, None, WAIT_S)
    wait: WaitFor | None = None
    timeout_s: float | None = None
    for part in query.decode("latin-1").split("&"):
        name, _, value = part.partition("=")
        if name == "wait" and wait is None and value in FAR_ENOUGH:
            wait = cast("WaitFor", value)
        elif name == "timeout_s" and timeout_s is None and value.isdecimal() and len(value) < 5:
            timeout_s = float(value)
        else:
            return None
    timeout_s = WAIT_S if timeout_s is None else timeout_s
    return Asked(key, wait, timeout_s) if timeout_s <= WAIT_S_MAX else None


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
