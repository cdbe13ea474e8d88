"""Faults: reported of a node or of every node of a set, listed, and cleared."""

from typing import Annotated

from fastapi import Depends, Path, Query

from api.auth import Caller
from api.http import example_bodies, shapes
from api.http import fault_examples as told
from api.http.answers import Json, answers, takes
from api.http.body import json_body, optional_json_body
from api.http.routing import Called, Cursor, Limit, LineFilter, NamePath, Served, make_router
from api.schemas.common import LINE_PATTERN
from api.schemas.fault import (
    BreakerReset,
    Fault,
    FaultBody,
    FaultPage,
    FaultsOfSet,
)
from api.schemas.node import Nothing
from api.schemas.reading import InvalidFields, seconds_of, shown
from api.store.fault_reports import Report, report_fault, report_faults
from api.store.faults import FaultView, clear_fault, get_fault, list_faults
from api.store.node_sets import nodes_of_set
from api.store.nodes import get_node
from api.store.policy import get_policy, put_policy
from api.store.topology import load_topology
from scheduler.errors import Problem
from scheduler.recover.codes import CODES, FaultCode, code_of_xid

router = make_router("nodes")

XID = "xid_"
"""How the code of a GPU driver's Xid begins."""

Number = Annotated[int, Path(ge=0, le=2**63 - 1)]
KindPath = Annotated[str, Path(max_length=63, pattern=LINE_PATTERN)]
SetPath = Annotated[str, Path(max_length=253, pattern=LINE_PATTERN)]
IsOpen = Annotated[bool | None, Query(description="true: open ones; false: those that are over.")]
Reported = Annotated[FaultBody, Depends(json_body(FaultBody))]

_SAME = {200: {"model": Fault, "description": "The same fault, which is open already."}}


@router.post(
    "/v1/nodes/{name}/faults",
    status_code=201,
    summary="Report a fault of a node",
    responses=answers(
        Fault,
        told.FAULT,
        *(400, 404, 413, 415, 422),
        status=201,
        says="The fault, new.",
        also={200: _SAME[200] | {"content": {"application/json": {"example": told.FAULT}}}},
    ),
    openapi_extra=takes(FaultBody, told.FAULT_BODIES),
)
def report(service: Served, caller: Called, name: NamePath, body: Reported) -> Json:
    """What its code asks for is done in the scheduler's next cycle.

    The same fault again, while it is open, is the same fault.
    """
    get_node(service.database, name)
    now_s = service.clock.now_s()
    view, is_new = report_fault(service.database, name, _report(caller, body), now_s=now_s)
    return Json(_shape(view), 201 if is_new else 200)


@router.get(
    "/v1/nodes/{name}/faults",
    summary="List the faults of a node",
    responses=answers(FaultPage, told.FAULTS, 404, 422, says="Faults, oldest first."),
)
def list_of_node(
    service: Served,
    name: NamePath,
    code: LineFilter = None,
    open: IsOpen = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """Its faults, those that are over too."""
    get_node(service.database, name)
    found = list_faults(
        service.database, node=name, code=code, is_open=open, limit=limit, cursor=cursor
    )
    return Json(shapes.page(found, _shape))


@router.get(
    "/v1/faults",
    summary="List faults",
    responses=answers(FaultPage, told.FAULTS, 422, says="Faults, oldest first."),
)
def list_all(
    service: Served,
    node: LineFilter = None,
    code: LineFilter = None,
    open: IsOpen = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """Faults of all nodes, those that are over too; all filters must hold."""
    found = list_faults(
        service.database, node=node, code=code, is_open=open, limit=limit, cursor=cursor
    )
    return Json(shapes.page(found, _shape))


@router.get(
    "/v1/nodes/{name}/faults/{id}",
    summary="Read a fault",
    responses=answers(Fault, told.FAULT, 404, 422, says="The fault."),
)
def read(service: Served, name: NamePath, id: Number) -> Json:
    """One fault of a node."""
    return Json(_shape(get_fault(service.database, name, id)))


@router.delete(
    "/v1/nodes/{name}/faults/{id}",
    summary="Clear a fault",
    responses=answers(Fault, told.CLEARED, 404, 422, says="The fault, over."),
)
def clear(service: Served, caller: Called, name: NamePath, id: Number) -> Json:
    """Say that it is over; with its last open fault a node without an agent is healthy again.

    One with an agent that was lost or out comes back when that is heard.
    """
    now_s = service.clock.now_s()
    return Json(_shape(clear_fault(service.database, name, id, by=caller.name, now_s=now_s)))


@router.post(
    "/v1/sets/{kind}/{name:path}/faults",
    status_code=201,
    summary="Report a fault of a set of nodes",
    responses=answers(
        FaultsOfSet,
        told.OF_SET,
        *(400, 404, 413, 415, 422),
        status=201,
        says="A fault of each of its nodes.",
    ),
    openapi_extra=takes(FaultBody, told.SET_BODIES),
)
def report_of_set(
    service: Served, caller: Called, kind: KindPath, name: SetPath, body: Reported
) -> Json:
    """Every node of the set has the fault, all in one transaction.

    A set is a domain of a level, a named set of the inventory, or a CDU.
    """
    names = nodes_of_set(load_topology(service.database).topology, kind, name)
    wanted = _report(caller, body, kind, name)
    found = report_faults(service.database, names, wanted, now_s=service.clock.now_s())
    items = [_shape(view) for view, _ in found]
    return Json({"items": items, "created": sum(is_new for _, is_new in found)}, 201)


@router.post(
    "/v1/scheduler/breaker/reset",
    summary="Let the scheduler act on failures again",
    tags=["policy"],
    responses=answers(
        BreakerReset, told.BREAKER, 400, 413, 415, 422, says="From when on failures count."
    ),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
def reset_breaker(
    service: Served, body: Annotated[Nothing, Depends(optional_json_body(Nothing))]
) -> Json:
    """Nodes that failed until now do not count as failing at once any more."""
    now_s = service.clock.now_s()
    known = get_policy(service.database)
    put_policy(service.database, known | {"breaker_reset_s": now_s}, now_s=now_s)
    return Json({"reset_at": shapes.rfc3339(now_s)})


def _report(caller: Caller, body: FaultBody, kind: str = "", name: str = "") -> Report:
    """What a body reports.

    Raises:
        InvalidFields: If it names no known code, or its fields contradict each other.
    """
    problems: list[Problem] = []
    code = _code(body, problems)
    if code is not None and code.takes_rail and body.rail is None:
        problems.append(Problem("rail", f"is required by code {code.name}, which is about a rail"))
    if code is not None and body.rail is not None and not code.takes_rail:
        takers = ", ".join(c.name for c in CODES.values() if c.takes_rail)
        problems.append(
            Problem("rail", f"code {code.name} is not about a rail; those are {takers}")
        )
    if len(set(body.gpus)) != len(body.gpus):
        problems.append(Problem("gpus", "names a GPU twice"))
    if problems or code is None:
        raise InvalidFields(problems)
    at_s = None if body.at is None else seconds_of("at", body.at)
    gpus = tuple(sorted(body.gpus))
    return Report(code, body.message, gpus, body.rail, at_s, caller.name, kind, name)


def _code(body: FaultBody, problems: list[Problem]) -> FaultCode | None:
    of_xid = None if body.xid is None else code_of_xid(body.xid)
    if body.code is None:
        if of_xid is None:
            problems.append(Problem("code", f"is required, or xid; the codes are {_codes()}"))
        return of_xid
    number = body.code.removeprefix(XID)
    if body.code == "xid" and of_xid is not None:
        return of_xid
    code = CODES.get(body.code)
    if code is None and body.code.startswith(XID) and number.isdecimal() and int(number):
        code = code_of_xid(int(number))
    if code is None:
        problems.append(Problem("code", f"found {shown(body.code)}; the codes are {_codes()}"))
    elif of_xid is not None and of_xid.name != code.name:
        problems.append(Problem("xid", f"found {body.xid}; code {code.name} says otherwise"))
    return code


def _codes() -> str:
    names = [name for name in CODES if not name.startswith(XID)]
    return ", ".join([f"{XID}<number>", *names])


def _shape(view: FaultView) -> shapes.Shape:
    """As `schemas.fault.Fault` describes it."""
    fault = view.fault
    of = {"kind": fault.set_kind, "name": fault.set_name} if fault.set_kind else None
    return {
        "id": fault.id,
        "node": view.node,
        "code": fault.code,
        "action": fault.action,
        "at": shapes.rfc3339(fault.at_s),
        "message": fault.detail,
        "gpus": list(fault.gpus),
        "rail": fault.rail,
        "set": of,
        "reported_by": view.reported_by,
        "reported_at": shapes.rfc3339(view.reported_at),
        "cleared_at": shapes.time_or_none(view.cleared_at),
        "cleared_by": view.cleared_by,
    }
