"""The routes of the webhook, at the paths of Volcano's own manager."""

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.auth import Caller, Right, check
from api.auth.seen import caller_in
from api.k8s.volcano.look_site import read_site
from api.k8s.volcano.pod_rules import text_at, tree
from api.k8s.webhook.hooks import HOOKS, Asked
from api.k8s.webhook.review import BODY_BYTES_MAX, answer_review
from api.schemas.reading import write_json
from api.store.engine import Database

CONTENT_TYPE = "application/json"


def webhook_router(database: Database) -> APIRouter:
    """One POST for each path; described by Kubernetes, not by this service's own description."""
    router = APIRouter(include_in_schema=False)

    def answer(caller: Caller, path: str, body: bytes) -> bytes:
        hook = HOOKS[path]
        is_queue = hook.resource[2] == "queues"
        site = partial(read_site, database, caller.namespaces, with_counts=is_queue)
        return write_json(answer_review(hook, body, site, partial(_check, caller)))

    async def review(request: Request) -> Response:
        # What is not JSON by its type gets an empty answer, as Volcano's own manager gives it.
        if request.headers.get("content-type") != CONTENT_TYPE:
            return Response(status_code=200)
        body = await limited_body(request, BODY_BYTES_MAX)
        if body is None:
            return Response(f"a review has at most {BODY_BYTES_MAX} bytes\n", status_code=413)
        found = await run_in_threadpool(answer, caller_in(request.scope), request.url.path, body)
        return Response(found, media_type=CONTENT_TYPE)

    for path in HOOKS:
        router.add_api_route(path, review, methods=["POST"], name=path.strip("/"))
    return router


def _check(caller: Caller, asked: Asked) -> None:
    """Refuse a review of what is not its sender's to make. Raises Forbidden."""
    named = {asked.namespace, text_at(tree(asked.object, "metadata"), "namespace")} - {""}
    for namespace in sorted(named):
        check(caller, Right.SUBMIT, namespace=namespace)
    if not named:
        check(caller, Right.OPERATE)  # of a queue, or of a domain: these are no tenant's


async def limited_body(request: Request, bytes_max: int) -> bytes | None:
    """The body, None if it is too large; no more than that is kept."""
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > bytes_max:
            return None
    return bytes(read)
