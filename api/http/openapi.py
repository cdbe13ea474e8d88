"""The API's description: FastAPI's, and the schemas of bodies that the routes read themselves."""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from api.auth import Right
from api.auth.credentials import COOKIE
from api.http.answers import SCHEMAS, problem_answer
from api.http.rights import TABLE
from api.schemas.batch import JobBatch
from api.schemas.checkpoint import CheckpointReport
from api.schemas.fault import DrainBody, FaultBody, FenceBody
from api.schemas.heartbeat import HeartbeatBody
from api.schemas.job import JobBody
from api.schemas.job_change import JobPatch
from api.schemas.launch import MegatronMap, NcclHints, SlurmMap, Torchrun
from api.schemas.log import LogBody
from api.schemas.node import CordonBody, Nothing
from api.schemas.placement import Placement
from api.schemas.pod import StatusBody
from api.schemas.problem import ProblemDocument
from api.schemas.queue import QueueBody, QueuePatch, QueuePut
from api.schemas.reading import json_schemas
from api.schemas.reservation import ReservationBody
from api.schemas.security import LoginBody
from api.schemas.service import ClockBody, PolicyBody
from api.schemas.verdict import DryRun
from api.schemas.whatif import WhatIfBody

TITLE = "Podyard"
VERSION = "1"

DESCRIPTION = """\
Places all-or-nothing training jobs on GPU clusters.

Lists are pages `{items, revision, next}`; `next` is the `cursor` of the next one. Unknown fields
and unknown query parameters are refused. Every error is an RFC 9457 problem document with
`errors: [{path, message}]`.
"""

TAGS = {
    "jobs": "Gangs: submit, read, explain, change, cancel.",
    "pods": "Members of gangs and what their nodes report of them.",
    "nodes": "Servers and trays.",
    "cluster": "The map of the cluster and what is free on it.",
    "reservations": "What is kept of nodes: for people, and for gangs that are not there yet.",
    "queues": "A tree of tenants' lines, and what they used.",
    "hooks": "What jobs' hooks were told, and whether they took it.",
    "events": "What happened, in order.",
    "policy": "What operators tune.",
    "service": "Health and metrics.",
}

SCHEMES: dict[str, Any] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `podyard token create`, or of an identity provider.",
    },
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "Any name, with the token as its password.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Of a browser that has logged in.",
    },
}
"""How callers say who they are."""

_MODELS = (
    JobBody,
    JobBatch,
    JobPatch,
    CordonBody,
    FaultBody,
    DrainBody,
    FenceBody,
    HeartbeatBody,
    LogBody,
    LoginBody,
    Nothing,
    DryRun,
    Placement,
    Torchrun,
    SlurmMap,
    MegatronMap,
    NcclHints,
    StatusBody,
    ProblemDocument,
    QueueBody,
    QueuePatch,
    QueuePut,
    ClockBody,
    PolicyBody,
    WhatIfBody,
    CheckpointReport,
    ReservationBody,
)


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What `app.openapi` is to be; made once, at the first question."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    return openapi


def _described(app: FastAPI) -> dict[str, Any]:
    described = get_openapi(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    described["components"]["securitySchemes"] = SCHEMES
    # `{}`: a service without tokens asks for none.
    described["security"] = [{}, *({name: []} for name in SCHEMES)]
    schemas = described["components"]["schemas"]
    for name, schema in json_schemas(_MODELS, SCHEMAS + "{model}").items():
        schemas.setdefault(name, schema)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = described["paths"][route.path_format][method.lower()]
                _complete(operation, method, route)
    return described


def _complete(operation: dict[str, Any], method: str, route: APIRoute) -> None:
    """Put back what FastAPI drops: nulls in examples; and say what refused parameters look like."""
    for status, answer in route.responses.items():
        _put_back(operation["responses"][str(status)], answer)
    if route.openapi_extra:
        _put_back(operation["requestBody"], route.openapi_extra["requestBody"])
    answered = operation["responses"]
    if 422 not in route.responses:
        answered["422"] = problem_answer(422)
    if TABLE.rights(method.upper(), route.path) == (Right.PUBLIC,):
        operation["security"] = []
        return
    # Of a service that asks who calls.
    for status in (401, 403, 429):
        answered.setdefault(str(status), problem_answer(status))


def _put_back(into: dict[str, Any], given: Mapping[str, Any]) -> None:
    for kind, content in given.get("content", {}).items():
        into["content"][kind] |= {k: content[k] for k in ("example", "examples") if k in content}
