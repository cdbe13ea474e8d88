"""Nodes: list, read, cordon, uncordon."""

from fnmatch import fnmatchcase
from typing import Annotated

from fastapi import Depends, Query

from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import optional_json_body
from api.http.routing import Called, Cursor, Limit, LineFilter, NamePath, Served, make_router
from api.http.service import Service
from api.schemas.common import LINE_PATTERN
from api.schemas.node import CordonBody, HealthName, Node, NodePage, Nothing
from api.schemas.reading import InvalidFields
from api.store.nodes import cordon_node, get_node, list_nodes, uncordon_node
from api.store.topology import load_topology
from api.store.views import NodeView, Page
from scheduler.errors import Problem

router = make_router("nodes")

DomainFilter = Annotated[
    str | None,
    Query(max_length=320, pattern=LINE_PATTERN, description="`level:name`, as in `rack:r01`."),
]
Glob = Annotated[
    str | None,
    Query(max_length=253, pattern=LINE_PATTERN, description="A pattern with `*` and `?`."),
]


@router.get(
    "/v1/nodes",
    summary="List nodes",
    responses=answers(NodePage, examples.NODES, 404, 422, says="Nodes by name."),
)
def list_all_nodes(
    service: Served,
    domain: DomainFilter = None,
    health: HealthName | None = None,
    type: LineFilter = None,
    name: Glob = None,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Json:
    """Nodes with what is free on them; all filters must hold."""

    def wanted(node: NodeView) -> bool:
        return (health is None or node.health == health) and (
            name is None or fnmatchcase(node.name, name)
        )

    place = None if domain is None else _place(service, domain)
    items: list[NodeView] = []
    while True:
        page = list_nodes(
            service.database,
            node_type=type,
            domain=place,
            limit=limit - len(items),
            cursor=cursor,
        )
        items += filter(wanted, page.items)
        cursor = page.next
        if cursor is None or len(items) == limit:
            break
    return Json(shapes.page(Page(tuple(items), page.revision, cursor), shapes.node))


@router.get(
    "/v1/nodes/{name}",
    summary="Read a node",
    responses=answers(Node, examples.NODE, 404, says="The node."),
)
def read_node(service: Served, name: NamePath) -> Json:
    """One node with what is free on it."""
    return Json(shapes.node(get_node(service.database, name)))


@router.post(
    "/v1/nodes/{name}/cordon",
    summary="Keep new pods off a node",
    responses=answers(Node, examples.CORDONED, 400, 404, 413, 415, 422, says="The node."),
    openapi_extra=takes(CordonBody, example_bodies.CORDON_BODIES, required=False),
)
def cordon(
    service: Served,
    caller: Called,
    name: NamePath,
    body: Annotated[CordonBody, Depends(optional_json_body(CordonBody))],
) -> Json:
    """Pods that are there stay; a second cordon replaces the reason."""
    node = cordon_node(
        service.database, name, reason=body.reason, by=caller.name, now_s=service.clock.now_s()
    )
    return Json(shapes.node(node))


@router.post(
    "/v1/nodes/{name}/uncordon",
    summary="Let new pods onto a node again",
    responses=answers(Node, examples.NODE, 400, 404, 413, 415, 422, says="The node."),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
def uncordon(
    service: Served,
    name: NamePath,
    body: Annotated[Nothing, Depends(optional_json_body(Nothing))],
) -> Json:
    """Does nothing to a node that is not cordoned."""
    return Json(shapes.node(uncordon_node(service.database, name, now_s=service.clock.now_s())))


def _place(service: Service, text: str) -> tuple[str, str]:
    level, colon, domain = text.partition(":")
    levels = load_topology(service.database).topology.level_names
    if not colon or level not in levels:
        raise InvalidFields(
            Problem(
                "domain",
                f"found '{text[:80]}'; it must be level:name, with one of the levels "
                f"{', '.join(levels)}",
            )
        )
    return level, domain
