"""The map: topology, domains, racks."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Query

from api.http import examples, shapes
from api.http.answers import Json, answers
from api.http.map_counts import MapCounts
from api.http.routing import Limit, OffsetCursor, Served, make_router
from api.http.service import Service
from api.schemas.common import LEVEL_PATTERN
from api.schemas.reading import InvalidFields
from api.schemas.topology import DomainPage, RackPage, Topology
from api.store.events import current_revision
from api.store.nodes import jobs_by_node, usage
from api.store.topology import load_topology
from scheduler.errors import Problem

router = make_router("cluster")

RACK_LEVEL = "rack"
"""The level that `/v1/racks` shows and that the inventory's racks are of."""

_COUNTS = "map_counts"


@router.get(
    "/v1/topology",
    summary="Show the map",
    responses=answers(Topology, examples.TOPOLOGY, says="The tree above the nodes."),
)
def read_topology(service: Served) -> Json:
    """Levels, and the tree of domains with what is free in each."""
    counts = counts_of(service)
    topology = counts.topology
    return Json(
        {
            "cluster": topology.cluster,
            "levels": list(topology.level_names),
            "scale_up": topology.scale_up,
            "levels_detail": [
                {"name": level.name, "domains": sum(map(bool, level.names))}
                for level in topology.levels
            ],
            "nodes": topology.node_count,
            "gpus": sum(kind.gpus for kind in topology.types),
            "tree": counts.tree(),
            "revision": counts.revision,
        }
    )


@router.get(
    "/v1/domains",
    summary="List the domains of a level",
    responses=answers(DomainPage, examples.DOMAINS, 422, says="Domains in the order of the map."),
)
def list_domains(
    service: Served,
    level: Annotated[str, Query(pattern=LEVEL_PATTERN, description="One of the map's levels.")],
    limit: Limit = 500,
    cursor: OffsetCursor = None,
) -> Json:
    """Named domains with their nodes, GPUs, jobs and health."""
    counts = counts_of(service)
    levels = counts.topology.level_names
    if level not in levels:
        raise InvalidFields(
            Problem("level", f"found '{level}'; the levels are {', '.join(levels)}")
        )
    return Json(_listed(counts, level, counts.domain, limit, cursor))


@router.get(
    "/v1/racks",
    summary="List racks",
    responses=answers(RackPage, examples.RACKS, 422, says="Racks in the order of the map."),
)
def list_racks(service: Served, limit: Limit = 500, cursor: OffsetCursor = None) -> Json:
    """The domains of the level `rack` with their power; none where the map has no such level."""
    counts = counts_of(service)
    return Json(_listed(counts, RACK_LEVEL, counts.rack, limit, cursor))


def counts_of(service: Service) -> MapCounts:
    """The map with what is in use on it now; kept until anything changes."""
    database = service.database
    kept = database.cache.get(_COUNTS)
    if isinstance(kept, MapCounts) and kept.revision == current_revision(database):
        return kept
    revision, used = usage(database)
    topology = load_topology(database).topology
    made = database.cache[_COUNTS] = MapCounts(topology, used, jobs_by_node(database), revision)
    return made


def _listed(
    counts: MapCounts,
    level_name: str,
    shape: Callable[[int, int], shapes.Shape],
    limit: int,
    cursor: str | None,
) -> shapes.Shape:
    """A page of the named domains of a level; the cursor is how many came before."""
    depth = counts.topology.level_index.get(level_name)
    if depth is None:
        return shapes.page_of([], counts.revision, None)
    named = [d for d, name in enumerate(counts.topology.levels[depth].names) if name]
    start = int(cursor or 0)
    following = str(start + limit) if start + limit < len(named) else None
    items = [shape(depth, d) for d in named[start : start + limit]]
    return shapes.page_of(items, counts.revision, following)
