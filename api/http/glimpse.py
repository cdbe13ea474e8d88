"""The overview as it was sent last: answered before any route is looked for.

Hundreds of dashboards ask the same question and mostly get the same answer, or 304. Whatever is not
at hand, or asked in an unusual way, goes on to the route.
"""

from types import SimpleNamespace

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth.seen import caller_in
from api.http.sight import Answer, Sight

PATH = "/v1/overview"
_ROUTE = SimpleNamespace(path=PATH)

VARY = "Accept-Encoding, Authorization, Cookie"
"""Who asks decides which names are in an answer."""


class Glimpse:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, *, sight: Sight) -> None:
        self._app = app
        self._sight = sight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._at_hand(scope) if _is_plain(scope) else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        headers = Headers(scope=scope)
        status, content, told = _chosen(answer, headers)
        raw = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        if status == 200:
            raw.append((b"content-length", b"%d" % len(content)))
            raw.append((b"content-type", b"application/json"))
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": content})

    def _at_hand(self, scope: Scope) -> Answer | None:
        return self._sight.overview_at_hand(caller_in(scope).namespaces)


def _is_plain(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["path"] == PATH
        and scope["method"] == "GET"
        and not scope["query_string"]
    )


def _chosen(answer: Answer, asked: Headers) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers for what a request says it has and takes."""
    headers = answer_headers(answer)
    match = asked.get("if-none-match")
    if match is not None and is_match(answer.etag, match):
        return 304, b"", headers
    if answer.packed is not None and "gzip" in asked.get("accept-encoding", ""):
        return 200, answer.packed, headers | {"Content-Encoding": "gzip"}
    return 200, answer.text, headers


def answer_headers(answer: Answer) -> dict[str, str]:
    """Those of every answer that is polled for."""
    return {"ETag": answer.etag, "Cache-Control": "no-cache", "Vary": VARY}


def is_match(etag: str, match: str) -> bool:
    """Whether an `If-None-Match` names this answer; weak ones count, as RFC 9110 has it."""
    named = (tag.strip().removeprefix("W/") for tag in match.split(","))
    return any(tag in {etag, "*"} for tag in named)
