"""AdmissionReview v1: a question of an API server and its answer; whatever comes is answered."""

import base64
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from pydantic_core import from_json

from api.k8s.volcano.patch import Operation
from api.k8s.volcano.pod_rules import text_at, tree
from api.k8s.volcano.shape import Tree, shape_problems
from api.k8s.volcano.site import Site
from api.k8s.webhook.hooks import Asked, Hook
from api.schemas.reading import write_json
from scheduler.errors import Problem

BODY_BYTES_MAX = 3 * 1024 * 1024
"""Of a review; what Kubernetes itself allows an object."""

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

PROBLEMS_MAX = 50
MESSAGE_MAX = 8_000


def answer_review(
    hook: Hook,
    body: bytes,
    site: Callable[[], Site],
    may: Callable[[Asked], None] = lambda _: None,
) -> Tree:
    """The answer to a review, allowed or denied.

    Args:
        site: Looks at the cluster; asked only when the request makes sense.
        may: Refuses, with an error, who may not ask about it.
    """
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        return _denied("", [Problem("", f"the body is not JSON: {str(error)[:200]}")])
    if not isinstance(found, dict) or not isinstance(found.get("request"), dict):
        return _denied("", [Problem("request", "is required in an AdmissionReview")])
    request = tree(found, "request")
    uid = text_at(request, "uid")
    problems = list(_envelope_problems(hook, found, request))
    if problems:
        return _denied(uid, problems)
    asked = Asked(
        operation=text_at(request, "operation"),
        name=text_at(request, "name"),
        namespace=text_at(request, "namespace"),
        object=tree(request, "object"),
        old=tree(request, "oldObject"),
    )
    may(asked)
    problems = list(islice(_kind_problems(hook, asked), PROBLEMS_MAX))
    if problems:
        return _denied(uid, problems)
    if hook.mutate is not None:
        return _allowed(uid, hook.mutate(asked, site()))
    problems = [] if hook.check is None else list(islice(hook.check(asked, site()), PROBLEMS_MAX))
    return _denied(uid, problems) if problems else _allowed(uid, ())


def _envelope_problems(hook: Hook, found: Tree, request: Tree) -> Iterable[Problem]:
    if (found.get("apiVersion"), found.get("kind")) != (API_VERSION, KIND):
        yield Problem("apiVersion", f"is not that of an {KIND} of {API_VERSION}")
    if not text_at(request, "uid"):
        yield Problem("request.uid", "is required")
    resource = tree(request, "resource")
    asked = tuple(text_at(resource, name) for name in ("group", "version", "resource"))
    if asked != hook.resource:
        wanted = "/".join(part for part in hook.resource if part)
        yield Problem("request.resource", f"is not {wanted}, which '{hook.path}' is about")
    operation = text_at(request, "operation")
    if operation not in hook.operations:
        allowed = ", ".join(hook.operations)
        yield Problem("request.operation", f"found '{operation[:40]}'; allowed are {allowed}")
    elif operation != "DELETE" and not isinstance(request.get("object"), dict):
        yield Problem("request.object", f"is required for {operation}")
    elif operation == "UPDATE" and not isinstance(request.get("oldObject"), dict):
        yield Problem("request.oldObject", "is required for UPDATE")


def _kind_problems(hook: Hook, asked: Asked) -> Iterable[Problem]:
    """Fields of other kinds than the definition says; an API server lets none come so far."""
    # Definitions are looked at after what mutates; and what is there already was let in.
    if asked.operation != "DELETE":
        yield from shape_problems(hook.shape, asked.object, "", limits=hook.mutate is None)
    yield from shape_problems(hook.shape, asked.old, "old", limits=False)


def _allowed(uid: str, patch: Sequence[Operation]) -> Tree:
    response: Tree = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(write_json(list(patch))).decode()
    return _review(response)


def _denied(uid: str, problems: Sequence[Problem]) -> Tree:
    told = "; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in problems)
    status = {"metadata": {}, "message": told[:MESSAGE_MAX]}
    return _review({"uid": uid, "allowed": False, "status": status})


def _review(response: Tree) -> Tree:
    return {"kind": KIND, "apiVersion": API_VERSION, "response": response}
