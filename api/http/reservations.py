"""Maintenance windows, and every claim on nodes."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends

from api.auth.seen import namespaces_read
from api.http import claim_examples as told
from api.http import shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.routing import (
    Called,
    Cursor,
    Limit,
    LineFilter,
    NameFilter,
    NamePath,
    Served,
    make_router,
)
from api.schemas.reading import InvalidFields, seconds_of, shown
from api.schemas.reservation import ClaimPage, Reservation, ReservationBody, ReservationPage
from api.store.claims import ClaimView, list_claims
from api.store.topology import load_topology
from api.store.windows import WindowView, create_window, delete_window, get_window, list_windows
from scheduler.errors import Problem
from scheduler.importers.hostlist import HostlistError, expand
from scheduler.model.claim import ClaimWhy, Window
from scheduler.model.ids import NodeId
from scheduler.model.resources import indices_of
from scheduler.topology.tree import Topology

router = make_router("reservations")

NODES_MAX = 100_000
"""Names that a window's `nodes` may stand for."""

SHOWN = 10
"""Names that a message lists."""


@router.post(
    "/v1/reservations",
    status_code=201,
    summary="Reserve nodes for people",
    responses=answers(
        Reservation, told.RESERVATION, 400, 409, 413, 415, 422, status=201, says="The window, new."
    ),
    openapi_extra=takes(ReservationBody, told.RESERVATION_BODIES),
)
def create_reservation(
    service: Served, body: Annotated[ReservationBody, Depends(json_body(ReservationBody))]
) -> Json:
    """Nothing starts there that would not have ended by then; what runs on is not stopped.

    409 when the name is in use, or another reservation has one of the nodes at that time.
    """
    now_s = service.clock.now_s()
    starts_s = now_s if body.starts_at is None else seconds_of("starts_at", body.starts_at)
    names = _nodes(body, load_topology(service.database).topology)
    ends_s = seconds_of("ends_at", body.ends_at)
    window = Window(body.name, tuple(map(NodeId, names)), starts_s, ends_s, body.why)
    return Json(_shape(create_window(service.database, window, now_s=now_s), now_s), 201)


@router.get(
    "/v1/reservations",
    summary="List reservations",
    responses=answers(ReservationPage, told.RESERVATIONS, 422, says="Windows by name."),
)
def list_reservations(service: Served, limit: Limit = 500, cursor: Cursor = None) -> Json:
    """Maintenance windows that are to come or not over yet."""
    now_s = service.clock.now_s()
    found = list_windows(service.database, limit=limit, cursor=cursor)
    return Json(shapes.page(found, lambda view: _shape(view, now_s)))


@router.get(
    "/v1/reservations/{name}",
    summary="Read a reservation",
    responses=answers(Reservation, told.RESERVATION, 404, says="The window."),
)
def read_reservation(service: Served, name: NamePath) -> Json:
    """One maintenance window."""
    return Json(_shape(get_window(service.database, name), service.clock.now_s()))


@router.delete(
    "/v1/reservations/{name}",
    summary="Withdraw a reservation",
    responses=answers(Reservation, told.RESERVATION, 404, says="The window as it was."),
)
def delete_reservation(service: Served, name: NamePath) -> Json:
    """Its nodes take pods again from the next cycle on."""
    now_s = service.clock.now_s()
    was = get_window(service.database, name)
    delete_window(service.database, name, now_s=now_s)
    return Json(_shape(was, now_s))


@router.get(
    "/v1/claims",
    summary="List claims",
    responses=answers(ClaimPage, told.CLAIMS, 422, says="Claims by uid."),
)
def list_all_claims(
    service: Served,
    caller: Called,
    namespace: NameFilter = None,
    job: NameFilter = None,
    node: LineFilter = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """GPUs that are kept for gangs that are not there yet, and for people.

    Of gangs of namespaces that are not the caller's the map alone says how much is kept for them.
    """
    found = list_claims(
        service.database,
        namespaces=namespaces_read(caller, namespace),
        namespace=namespace,
        job=job,
        node=node,
        limit=limit,
        cursor=cursor,
    )
    return Json(shapes.page(found, _claim))


def _nodes(body: ReservationBody, topology: Topology) -> list[str]:
    """Names of the nodes of a window, each once."""
    if bool(body.nodes) + (body.within is not None) + (body.set is not None) != 1:
        raise InvalidFields(Problem("nodes", "exactly one of nodes, within and set must be given"))
    if body.within is not None:
        return _nodes_within(body.within.level, body.within.domain, topology)
    if body.set is not None:
        return _nodes_of_set(body.set.kind, body.set.name, topology)
    return list(dict.fromkeys(_expanded(body.nodes, topology)))


def _expanded(texts: list[str], topology: Topology) -> Iterator[str]:
    problems: list[Problem] = []
    used = 0
    for index, text in enumerate(texts):
        path = f"nodes[{index}]"
        try:
            names = expand(text, limit=NODES_MAX, used=used)
        except HostlistError as error:
            problems += [Problem(path, p.message) for p in error.problems]
            continue
        used += len(names)
        unknown = [name for name in names if name not in topology.node_index]
        problems += [
            Problem(path, f"node {shown(name)} does not exist") for name in unknown[:SHOWN]
        ]
        yield from names
    if problems:
        raise InvalidFields(problems)


def _nodes_within(level: str, domain: str, topology: Topology) -> list[str]:
    depth = topology.level_index.get(level)
    if depth is None:
        allowed = ", ".join(topology.level_names)
        raise InvalidFields(
            Problem("within.level", f"found {shown(level)}; the levels are {allowed}")
        )
    row = topology.levels[depth]
    found = [
        topology.nodes[index].name
        for number, name in enumerate(row.names)
        if name == domain and name
        for index in range(row.node_lo[number], row.node_hi[number])
    ]
    if not found:
        raise InvalidFields(
            Problem("within.domain", f"found {shown(domain)}; there is no such {level}")
        )
    return found


def _nodes_of_set(kind: str, name: str, topology: Topology) -> list[str]:
    kinds = topology.sets
    if kind not in kinds:
        allowed = ", ".join(sorted(kinds)[:SHOWN]) or "none"
        raise InvalidFields(
            Problem("set.kind", f"found {shown(kind)}; kinds of sets here are: {allowed}")
        )
    if name not in kinds[kind]:
        allowed = ", ".join(sorted(kinds[kind])[:SHOWN])
        raise InvalidFields(
            Problem("set.name", f"found {shown(name)}; sets of kind '{kind}' are: {allowed}")
        )
    return [node for node in kinds[kind][name] if node in topology.node_index]


def _shape(view: WindowView, now_s: float) -> shapes.Shape:
    """As `schemas.reservation.Reservation` describes it."""
    window = view.window
    state = "active" if window.starts_s <= now_s else "planned"
    return {
        "name": window.name,
        "nodes": list(window.nodes),
        "starts_at": shapes.rfc3339(window.starts_s),
        "ends_at": shapes.rfc3339(window.ends_s),
        "why": window.why,
        "state": "over" if window.ends_s <= now_s else state,
        "claimed": view.claimed,
        "revision": view.revision,
    }


def _claim(view: ClaimView) -> shapes.Shape:
    """As `schemas.reservation.Claim` describes it."""
    claim = view.claim
    role = shapes.RANK_ROLE if claim.job is not None and not claim.role else claim.role
    return {
        "uid": claim.uid,
        "why": claim.why,
        "job": f"{view.namespace}/{view.job}" if view.job else None,
        "reservation": view.window if claim.why is ClaimWhy.MAINTENANCE else None,
        "pool": view.window if claim.why is ClaimWhy.POOL else None,
        "node": claim.node,
        "gpus": indices_of(claim.gpu_mask),
        "starts_at": shapes.rfc3339(claim.starts_s) if claim.starts_s else None,
        "until": shapes.time_or_none(claim.until_s),
        "role": role,
        "index": claim.index,
        "revision": view.revision,
    }
