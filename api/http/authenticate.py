"""Who calls and whether they may: asked of every request before any route, face or cache sees it.

Where nobody is asked who they are (no tokens, on this machine alone, or `--insecure`) this is one
look at a flag.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth import Caller, Forbidden, Role
from api.auth.buckets import TooFast
from api.auth.credentials import Unauthenticated
from api.auth.seen import CALLER_KEY
from api.auth.table import Asked, Table
from api.clock import Clock
from api.http.audit_writer import AuditBehind
from api.http.gate import Gate, Identity
from api.http.guard import Answers, NoSuchPath, WrongMethod, problem_response
from api.metrics import Metrics
from api.problems import kind_of
from api.store.audit_log import Entry
from scheduler.errors import Problem

Finder = Callable[[str, str], Asked | None]
"""From method and path to what is asked for; None = no such call."""

BEARER, BASIC = 'Bearer realm="podyard"', 'Basic realm="podyard", charset="UTF-8"'

REQUEST_ID = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")

AGAIN_S = 2.0
"""Between looks whether the reader of a watch is still known."""

PATH_MAX = 500
"""Characters of a path that are written down."""

_WHY = {Unauthenticated: "unauthenticated", Forbidden: "forbidden", TooFast: "too_fast"}

_READS = frozenset({"GET", "HEAD"})


class Authenticate:
    """Wraps the app.

    Args:
        table: What calls need.
        faces: The same for other faces, asked first.
        answers: How errors are told of on paths that are not answered with problem documents.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        gate: Gate,
        table: Table,
        clock: Clock,
        metrics: Metrics,
        faces: Iterable[Finder] = (),
        answers: Answers | None = None,
    ) -> None:
        self._app, self._gate, self._keyring = app, gate, gate.keyring
        self._table, self._faces = table, tuple(faces)
        self._clock, self._metrics = clock, metrics
        self._answers = answers or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._keyring.is_asking or scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._checked(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._find(scope["method"], scope["path"])
        if asked is not None and asked.is_public:
            await self._app(scope, receive, send)
            return
        caller: Caller | None = None
        try:
            identity = await self._gate.identify(scope)
            caller = identity.caller
            if asked is None:
                raise self._no_such(scope)
            is_report = caller.role is Role.AGENT and scope["method"] not in _READS
            if not is_report:
                self._gate.count(caller)
            asked.check(caller, scope["query_string"])
            is_written = asked.changes and scope["method"] not in _READS and not is_report
            if is_written:
                self._gate.audit.check_room()
        except Exception as error:  # an edge: whatever it is, the caller is told
            answer = self._refused(scope, caller, error)
            await answer(scope, receive, send)
            return
        scope[CALLER_KEY] = caller
        if is_written:
            await self._written(scope, receive, send, caller)
        else:
            await self._app(scope, receive, self._while_known(identity, send))

    def _while_known(self, identity: Identity, send: Send) -> Send:
        """End an answer that goes on and on, once its reader would not be let in any more."""
        looked_s, is_over = time.monotonic(), False

        async def sent(message: Message) -> None:
            nonlocal looked_s, is_over
            if is_over:
                return
            if message.get("more_body") and time.monotonic() - looked_s >= AGAIN_S:
                looked_s = time.monotonic()
                is_over = not self._gate.is_still(identity)
                if is_over:
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sent

    def _find(self, method: str, path: str) -> Asked | None:
        for find in self._faces:
            asked = find(method, path)
            if asked is not None:
                return asked
        return self._table.find(method, path)

    def _no_such(self, scope: Scope) -> Exception:
        path = f"'{scope['path'][:200]}'"
        methods = self._table.methods(scope["path"])
        if not methods:
            return NoSuchPath(Problem("", f"there is no {path}"))
        there = ", ".join(methods)
        return WrongMethod(Problem("", f"found {scope['method']}; {path} has {there}"))

    # -- answers -----------------------------------------------------------------------------------

    def _refused(self, scope: Scope, caller: Caller | None, error: Exception) -> Response:
        why = _WHY.get(type(error))
        if why is None and kind_of(error).status == 500:
            raise error
        if why is not None:
            self._metrics.refused.labels(why).inc()
        answer = self._told(scope["path"], error)
        if isinstance(error, Unauthenticated):
            for challenge in _challenges(scope):
                answer.headers.append("WWW-Authenticate", challenge)
        elif isinstance(error, TooFast):
            answer.headers["Retry-After"] = str(error.retry_after_s)
        elif isinstance(error, WrongMethod):
            answer.headers["Allow"] = ", ".join(self._table.methods(scope["path"]))
        elif isinstance(error, Forbidden) and caller and scope["method"] not in _READS:
            answer.headers["X-Request-Id"] = self._note_refusal(scope, caller)
        return answer

    def _note_refusal(self, scope: Scope, caller: Caller) -> str:
        id = request_id(scope)
        try:
            if caller.role is Role.AGENT:
                # Not counted before; the log must not be flooded by one that has lost its way.
                self._gate.count(caller)
            self._gate.audit.check_room()
            self._gate.audit.add(self._entry(scope, caller, 403, id))
        except (TooFast, AuditBehind):
            pass
        return id

    def _told(self, path: str, error: Exception) -> Response:
        for has, answer in self._answers.items():
            if has(path):
                return answer(error)
        return problem_response(error)

    # -- the audit log -----------------------------------------------------------------------------

    async def _written(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        id, status = request_id(scope), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault("X-Request-Id", id)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            status = status or kind_of(error).status
            raise
        finally:
            # 499, as of servers whose client has gone, where nothing was answered.
            self._gate.audit.add(self._entry(scope, caller, status or 499, id))

    def _entry(self, scope: Scope, caller: Caller, status: int, id: str) -> Entry:
        client = scope.get("client")
        return Entry(
            self._clock.now_s(),
            caller.name,
            caller.role.value,
            scope["method"],
            _path(scope),
            status,
            id,
            client[0] if client else "",
        )


def request_id(scope: Scope) -> str:
    """What a request calls itself, if that is a name; else one that is made up."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID and _ID.fullmatch(value):
            return str(value.decode("ascii"))
    return secrets.token_hex(8)


def _path(scope: Scope) -> str:
    """Path and query as they were sent: no characters but ASCII, and none that control."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    query = scope["query_string"]
    sent = (raw + b"?" + query if query else raw).decode("latin-1")
    return "".join(c if " " < c < "\x7f" else "?" for c in sent[:PATH_MAX])


def _challenges(scope: Scope) -> tuple[str, ...]:
    """How to say who one is.

    Browsers ask for a name and a password at the word Basic, over any page; a script of a page
    has a form of its own for that.
    """
    mode = next((v for name, v in scope["headers"] if name == b"sec-fetch-mode"), b"navigate")
    return (BEARER, BASIC) if mode == b"navigate" else (BEARER,)
