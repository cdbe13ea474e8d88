"""The outermost layer: measures and logs every request, and answers for what nobody caught."""

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.guard import problem_response
from api.log import get_logger
from api.metrics import Metrics
from api.problems import INTERNAL, kind_of
from api.tracing import tracing

log = get_logger(__name__)

WATCH = "/v1/watch"
"""Its requests last for as long as their callers like."""

_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""Given to every answer that does not say otherwise; none is to be framed, kept or run."""


class Observe:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if tracing.is_on:
            with tracing.request(scope["method"], scope["headers"]) as span:
                status = await self._observed(scope, receive, send)
                route = str(getattr(scope.get("route"), "path", "none"))
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
            return
        await self._observed(scope, receive, send)

    async def _observed(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Serve a request; the status that was answered."""
        began_s, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            # The edge of a request: whatever it ran into, the caller is told and the log has it.
            if status:
                raise
            _log_failure(error)
            await problem_response(error)(scope, receive, noted)
        self._note(scope, status, time.perf_counter() - began_s)
        return status

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        waits = b"wait=" in scope["query_string"] or route == WATCH
        if not waits:
            self._metrics.observe_request(scope["method"], route, status, seconds)
        # What reads and succeeds is most of the traffic, and changes nothing; so do heartbeats.
        is_quiet = status < 400 and (scope["method"] == "GET" or route.endswith("/heartbeat"))
        level = logging.DEBUG if is_quiet else logging.INFO
        if not logging.getLogger(__name__).isEnabledFor(level):
            return
        log.log(
            level,
            "http_request",
            method=scope["method"],
            path=scope["path"][:200],
            status=status,
            duration_ms=round(seconds * 1000, 2),
        )


def _log_failure(error: Exception) -> None:
    if kind_of(error) is INTERNAL:
        log.exception("request_failed")
    else:
        log.warning("request_refused", error=str(error)[:500])
