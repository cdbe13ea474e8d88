"""The plain submission, which is most of what is written: answered before any route is looked for.

Whatever is asked in an unusual way, with a key, as YAML, as a dry run, goes on to the route, which
does the same and describes it.
"""

from types import SimpleNamespace
from typing import cast

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth import Right, check
from api.http import shapes
from api.http.answers import Json
from api.http.body import INLINE_BYTES
from api.http.caller import caller_in
from api.http.guard import problem_response
from api.http.service import Service
from api.http.submitting import submit_one
from api.http.waiting import FAR_ENOUGH, WAIT_S, WAIT_S_MAX, WaitFor, wait_for
from api.schemas.job import JobBody
from api.schemas.reading import read_json
from api.store.errors import StoreError
from scheduler.errors import SchedulerError

PATH = "/v1/jobs"
_ROUTE = SimpleNamespace(path=PATH)
_JSON = b"application/json"

Asked = tuple[WaitFor | None, float]
"""What to wait for, and how long."""


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
            answer: Response = await self._submit(scope, await _body(receive), *asked)
        except (SchedulerError, StoreError) as error:
            answer = problem_response(error)
        await answer(scope, receive, send)

    async def _submit(
        self, scope: Scope, body: bytes, wait: WaitFor | None, timeout_s: float
    ) -> Json:
        read = (
            read_json(JobBody, body)
            if len(body) <= INLINE_BYTES
            else await run_in_threadpool(read_json, JobBody, body)
        )
        caller = caller_in(scope)
        check(caller, Right.SUBMIT, namespace=read.namespace)
        job, created = await run_in_threadpool(submit_one, self._service, caller, read, None, wait)
        if wait is not None:
            job = await wait_for(self._service, job.uid, wait, timeout_s, job)
        return Json(shapes.job(job), 201 if created else 200)


def _plain(scope: Scope) -> Asked | None:
    """What a plain submission asks for; None if the request is anything else."""
    if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
        return None
    kinds = 0
    for name, value in scope["headers"]:
        if name == b"content-type":
            kinds += 1
            if value != _JSON:
                return None
        elif name == b"idempotency-key":
            return None
    return _asked(scope["query_string"]) if kinds == 1 else None


def _asked(query: bytes) -> Asked | None:
    if not query:
        return None, WAIT_S
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
    return (wait, timeout_s) if timeout_s <= WAIT_S_MAX else None


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
