"""Whether the process lives: answered before there is any route."""

from types import SimpleNamespace

from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.answers import Json

PATH = "/healthz"
LIVE = {"status": "ok"}
_ROUTE = SimpleNamespace(path=PATH)


class Alive:
    """Wraps the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = (
            scope["type"] == "http"
            and scope["path"] == PATH
            and scope["method"] == "GET"
            and not scope["query_string"]
        )
        if is_plain:
            scope["route"] = _ROUTE
            await Json(LIVE)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
