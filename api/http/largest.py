"""The largest gang that fits now, for each shape of pod."""

from dataclasses import dataclass

from api.http.service import Service
from api.http.shapes import Shape
from api.store.events import current_revision
from scheduler.cluster.world import World
from scheduler.explain.largest import Largest, Room, largest_gangs

ANYWHERE = "cluster"
_KEPT = "largest_gangs"


@dataclass(frozen=True, slots=True)
class _Kept:
    revision: int
    found: tuple[Largest, ...]


def largest_of(service: Service) -> list[Shape]:
    """As `schemas.topology.LargestGang` describes it."""
    return [_shown(largest) for largest in _current(service)]


def largest_by_level(service: Service) -> dict[tuple[str, int, str], int]:
    """GPUs by node type, GPUs of a pod, and level; `cluster` for anywhere."""
    return {
        (largest.node_type, largest.gpus_per_pod, room.level or ANYWHERE): room.gpus
        for largest in _current(service)
        for room in (largest.cluster, *largest.within)
    }


def _current(service: Service) -> tuple[Largest, ...]:
    """Of the newest revision; of a little before while a long question is being answered."""
    cache = service.database.cache
    kept = cache.get(_KEPT)
    if not isinstance(kept, _Kept):
        answer = service.reader.ask(_ask)
    elif kept.revision == current_revision(service.database):
        return kept.found
    else:
        answer = service.reader.ask_if_free(_ask) or kept
    cache[_KEPT] = answer
    return answer.found


def _ask(world: World) -> _Kept:
    return _Kept(world.revision, largest_gangs(world.trial))


def _shown(largest: Largest) -> Shape:
    return {
        "node_type": largest.node_type,
        "gpus_per_pod": largest.gpus_per_pod,
        "whole_nodes": largest.whole_nodes,
        "cluster": _room(largest.cluster),
        "within": [
            {"level": room.level, "domain": room.domain or None, **_room(room)}
            for room in largest.within
        ],
    }


def _room(room: Room) -> Shape:
    return {"pods": room.pods, "gpus": room.gpus}
