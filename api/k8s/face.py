"""The face: takes the requests of this API before any other route sees them, and answers them.

Everything is answered here, errors too: `kubectl` understands no other form than `Status`.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth.seen import caller_in
from api.k8s import discovery, openapi, verbs
from api.k8s.accept import Form, accepted_form
from api.k8s.access import Access
from api.k8s.errors import StatusError, not_found
from api.k8s.kinds import Handler, Obj, Parts
from api.k8s.listing import Listed, chosen, list_objects
from api.k8s.mirror import Mirror
from api.k8s.problems import status_of
from api.k8s.registry import Registry
from api.k8s.request import Target, is_face, no_such_path, read_path, read_query
from api.k8s.seen import narrowed, seen_by
from api.k8s.selectors import Test
from api.k8s.table import partial, table
from api.k8s.verbs import Ask
from api.k8s.watch import WatchStream, watch
from api.log import get_logger
from api.store.look import Look, look_at
from api.store.queue_rows import read_queues

log = get_logger(__name__)

METHODS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Face:
    """ASGI middleware that answers the paths of this API and hands on all others.

    Args:
        closing: Set when the service ends.
    """

    def __init__(
        self, app: ASGIApp, *, parts: Parts, registry: Registry, closing: asyncio.Event
    ) -> None:
        self._app = app
        self._parts = replace(parts, access=Access(registry))
        self._registry = registry
        self.mirror = Mirror(parts.database, closing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_face(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # an edge: whatever fails is told as a Status
            answer = error_response(error)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, method = request.url.path, request.method
        parts = path.strip("/").split("/")
        if parts[0] in {"version", "livez", "openapi"}:
            _only_get(method)
            return await run_in_threadpool(self._plain, parts, request)
        if path.rstrip("/") in {"/api", "/apis"} or path.startswith(("/api/", "/apis/")):
            target = read_path(path)
            if not target.plural:
                _only_get(method)
                return self._discovery(target, parts, request)
            return await self._resource(target, request)
        raise no_such_path()

    # -- what there is -----------------------------------------------------------------------------

    def _plain(self, parts: list[str], request: Request) -> Response:
        if parts == ["livez"]:
            return Response("ok", media_type="text/plain")
        if parts == ["version"]:
            return json_response(_version())
        if parts == ["openapi", "v2"]:
            return Response(b"", media_type=openapi.V2_MEDIA_TYPE)
        if parts == ["openapi", "v3"]:
            return json_response(openapi.index(self._registry))
        if parts[:2] == ["openapi", "v3"]:
            found = self._document(parts[2:])
            if found is not None:
                return json_response(found)
        raise no_such_path()

    def _document(self, parts: list[str]) -> Obj | None:
        match parts:
            case ["api", version]:
                return openapi.document(self._registry, "", version)
            case ["apis", group, version]:
                return openapi.document(self._registry, group, version)
        return None

    def _discovery(self, target: Target, parts: list[str], request: Request) -> Response:
        is_core = parts[0] == "api"
        if not target.version:
            if target.group:
                found = discovery.group(self._registry, target.group)
                return json_response(_found(found))
            version = discovery.accepted_version(request.headers.get("accept", ""))
            if version is not None:
                told = discovery.aggregated(self._registry, version, core=is_core)
                return json_response(told, media_type=discovery.AGGREGATED.format(version))
            if is_core:
                return json_response(discovery.api_versions(_address(request)))
            return json_response(discovery.group_list(self._registry))
        handlers = self._registry.of_version(target.group, target.version)
        if not handlers:
            raise no_such_path()
        return json_response(discovery.resource_list(handlers, handlers[0].kind.api_version))

    # -- objects -----------------------------------------------------------------------------------

    async def _resource(self, target: Target, request: Request) -> Response:
        handler = self._registry.find(target.group, target.version, target.plural)
        if handler is None:
            raise no_such_path()
        verb = _check(handler, target, request.method)
        query = read_query(request.query_params)
        body = await request.body()
        ask = Ask(
            handler,
            target,
            query,
            body,
            request.headers.get("content-type", ""),
            _agent(request.headers.get("user-agent", "")),
            caller_in(request.scope),
        )
        form = accepted_form(request.headers.get("accept", ""), query)
        if verb == "watch" or (verb == "list" and query.watch):
            return await self._watch(ask, form)
        return await run_in_threadpool(self._do, verb, ask, form)

    async def _watch(self, ask: Ask, form: Form) -> Response:
        if "watch" not in ask.handler.kind.verbs:
            raise _not_allowed(ask.handler, "watch")
        chunks = await watch(self.mirror, ask, form, self._parts.clock)
        return WatchStream(chunks)

    def _do(self, verb: str, ask: Ask, form: Form) -> Response:
        warnings: list[str] = []
        if verb in {"get", "list"}:
            return self._read(ask, form)
        if verb == "deletecollection":
            with look_at(self._parts.database) as look:
                listed = _listed(ask, look)
            status, body = verbs.delete_all(self._parts, ask, listed.objects)
        elif verb == "delete":
            status, body = verbs.delete(self._parts, ask)
        else:
            change = {
                "create": verbs.act if ask.target.name else verbs.create,
                "update": verbs.replace,
                "patch": verbs.patch,
            }[verb]
            (status, body), warnings = change(self._parts, ask)
        if form.kind == "Table" and body.get("kind") == ask.handler.kind.kind:
            body = self._shown(ask.handler, form, [body], {}, is_list=False)
        return json_response(body, status, headers=_warning_headers(warnings))

    def _read(self, ask: Ask, form: Form) -> Response:
        handler, target = ask.handler, ask.target
        with look_at(self._parts.database) as look:
            if target.name is None:
                return json_response(self._list(handler, form, _listed(ask, look)))
            obj = verbs.find(handler, look, ask.namespace, target.name)
            test = _test(ask, look)
            if test is not None and not test(obj):
                raise not_found(handler.kind.resource, target.name)
        if target.subresource == "log":
            text = handler.text(ask.call(self._parts), obj, ask.query.values)
            return Response(text, media_type="text/plain")
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return json_response(self._shown(handler, form, [obj], metadata, is_list=False))

    def _list(self, handler: Handler, form: Form, listed: Listed) -> Obj:
        return self._shown(handler, form, listed.objects, listed.metadata, is_list=True)

    def _shown(
        self, handler: Handler, form: Form, objects: list[Obj], metadata: Obj, *, is_list: bool
    ) -> Obj:
        kind = handler.kind
        if form.kind == "Table":
            now_s = self._parts.clock.now_s()
            return table(kind, handler.cells, objects, metadata, include=form.include, now_s=now_s)
        if not is_list:
            return partial(objects[0]) if form.kind == "PartialObjectMetadata" else objects[0]
        if form.kind == "PartialObjectMetadata":
            version, name = "meta.k8s.io/v1", "PartialObjectMetadataList"
            items = [partial(obj) for obj in objects]
        else:
            version, name, items = kind.api_version, f"{kind.kind}List", objects
        return {"kind": name, "apiVersion": version, "metadata": metadata, "items": items}


def _test(ask: Ask, look: Look) -> Test | None:
    """Whether an object is shown to whoever asks; None where all are."""
    queues = cache(lambda: read_queues(look.connection))
    return seen_by(ask.handler.kind, ask.caller.namespaces, queues)


def _listed(ask: Ask, look: Look) -> Listed:
    """The objects that a request is about, as far as its sender may see them."""
    namespace = narrowed(ask.handler.kind, ask.caller.namespaces, ask.target.namespace)
    choice = chosen(ask.handler, namespace, ask.query, _test(ask, look))
    return list_objects(ask.handler, look, choice, ask.query)


def _check(handler: Handler, target: Target, method: str) -> str:
    """The verb of a request, if the kind has it here. Raises StatusError 404, 405."""
    kind = handler.kind
    verb = METHODS.get(method)
    if target.subresource:
        sub = kind.subresource(target.subresource)
        if sub is None:
            raise no_such_path()
        if verb is None or verb not in sub.verbs:
            raise _not_allowed(handler, method)
        return verb
    if target.namespace is not None and not kind.namespaced:
        raise no_such_path()
    if target.name is None:
        verb = {"GET": "list", "DELETE": "deletecollection", "POST": "create"}.get(method)
    elif method == "POST":
        verb = None
    if verb is None or verb not in kind.verbs:
        raise _not_allowed(handler, method)
    if kind.namespaced and target.namespace is None and (target.name or verb == "create"):
        raise StatusError(
            405 if verb == "create" else 404,
            "an empty namespace may not be set during creation"
            if verb == "create"
            else "the server could not find the requested resource",
        )
    return verb


def _not_allowed(handler: Handler, what: str) -> StatusError:
    return StatusError(
        405,
        f"the server does not allow this method on the requested resource: {what} on "
        f"{handler.kind.resource}",
        details={"group": handler.kind.group, "kind": handler.kind.plural},
    )


def _only_get(method: str) -> None:
    if method != "GET":
        raise StatusError(405, f"{method} is not allowed here; allowed is GET")


def _found(value: Obj | None) -> Obj:
    if value is None:
        raise no_such_path()
    return value


def _agent(text: str) -> str:
    """The program of a User-Agent, as it is told of in managedFields."""
    name = text.partition("/")[0].strip()
    return name[:128] if name and name.isprintable() else "unknown"


def _address(request: Request) -> str:
    return urlsplit(str(request.url)).netloc


def _version() -> Obj:
    return discovery.SERVER_VERSION | {
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "CPython",
        "platform": "linux/any",
    }


def _warning_headers(warnings: list[str]) -> dict[str, str]:
    """One header holds all of them, with commas between."""
    told = []
    for text in dict.fromkeys(warnings):
        plain = text.encode("ascii", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
        clean = "".join(c if c.isprintable() else " " for c in plain)
        told.append(f'299 - "{clean[:500]}"')
    return {"Warning": ", ".join(told[:20])} if told else {}


def json_response(
    value: Obj,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """An object as an answer. ASCII alone, so that no text of a caller can fail to be sent."""
    text = json.dumps(value, separators=(",", ":"))
    response = Response(text, status, headers=dict(headers or {}))
    response.headers["content-type"] = media_type
    response.headers["cache-control"] = "no-cache, private"
    return response


def error_response(error: Exception) -> Response:
    """The answer that tells of an error."""
    told = status_of(error)
    if told.code == 500:
        log.error("kubernetes_request_failed", exc_info=error)
    headers = {}
    if told.retry_after_s is not None:
        headers["Retry-After"] = str(told.retry_after_s)
    return json_response(told.status(), told.code, headers)
