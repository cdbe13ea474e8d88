"""Draining nodes and sets of nodes, and fencing a node."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query

from api.auth import Caller, visible
from api.http import example_bodies, examples, shapes
from api.http import fault_examples as told
from api.http.answers import Json, answers, takes
from api.http.body import optional_json_body
from api.http.explaining import may_see
from api.http.faults import KindPath, SetPath
from api.http.routing import Called, NamePath, Served, make_router
from api.http.service import Service
from api.http.whatif import AFFECTED_MAX, effect, turn
from api.schemas.fault import DrainBody, Drained, FenceBody, Undrained
from api.schemas.node import Node, Nothing
from api.store.drains import drain_nodes, fence_node, leaving_of, undrain_nodes
from api.store.node_sets import nodes_of_set
from api.store.nodes import get_node, read_nodes
from api.store.policy import load_policy
from api.store.topology import load_topology
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.explain.whatif import Standing, Supposed, play, standing, suppose
from scheduler.model.ids import NodeId
from scheduler.model.plan import Plan
from scheduler.model.standing import PLAIN, Drain

router = make_router("nodes")

DryRun = Annotated[bool, Query(description="Only show what would move.")]
DrainHow = Annotated[DrainBody, Depends(optional_json_body(DrainBody))]
NoBody = Annotated[Nothing, Depends(optional_json_body(Nothing))]

_ERRORS = (400, 404, 413, 415, 422)
_DRAINS = takes(DrainBody, told.DRAIN_BODIES, required=False)
_NOTHING = takes(Nothing, example_bodies.NOTHING_BODIES, required=False)


@router.post(
    "/v1/nodes/{name}/drain",
    summary="Drain a node",
    responses=answers(Drained, told.DRAINED, *_ERRORS, says="What leaves it."),
    openapi_extra=_DRAINS,
)
def drain_node(
    service: Served, caller: Called, name: NamePath, body: DrainHow, *, dry_run: DryRun = False
) -> Json:
    """It takes no new pods, and those that are there leave for another place.

    Until the drain is withdrawn or the node is empty. A second drain replaces the first.
    """
    get_node(service.database, name)
    return _drain(service, caller, [name], body, dry_run=dry_run)


@router.post(
    "/v1/sets/{kind}/{name:path}/drain",
    summary="Drain a set of nodes",
    responses=answers(Drained, told.DRAINED, *_ERRORS, says="What leaves them."),
    openapi_extra=_DRAINS,
)
def drain_set(
    service: Served,
    caller: Called,
    kind: KindPath,
    name: SetPath,
    body: DrainHow,
    *,
    dry_run: DryRun = False,
) -> Json:
    """The same for every node of a domain of a level, of a named set, or of a CDU."""
    names = nodes_of_set(load_topology(service.database).topology, kind, name)
    return _drain(service, caller, names, body, dry_run=dry_run)


@router.post(
    "/v1/nodes/{name}/undrain",
    summary="Withdraw the drain of a node",
    responses=answers(Node, examples.NODE, *_ERRORS, says="The node."),
    openapi_extra=_NOTHING,
)
def undrain_node(service: Served, caller: Called, name: NamePath, body: NoBody) -> Json:
    """Pods that were not told to leave yet stay. Does nothing to a node that is not drained."""
    now_s = service.clock.now_s()
    (node,) = undrain_nodes(service.database, [name], by=caller.name, now_s=now_s)
    return Json(shapes.node(node))


@router.post(
    "/v1/sets/{kind}/{name:path}/undrain",
    summary="Withdraw the drain of a set of nodes",
    responses=answers(Undrained, told.UNDRAINED, *_ERRORS, says="Its nodes."),
    openapi_extra=_NOTHING,
)
def undrain_set(
    service: Served, caller: Called, kind: KindPath, name: SetPath, body: NoBody
) -> Json:
    """The same for every node of the set, whoever drained it."""
    names = nodes_of_set(load_topology(service.database).topology, kind, name)
    now_s = service.clock.now_s()
    found = undrain_nodes(service.database, names, by=caller.name, now_s=now_s)
    return Json({"nodes": [shapes.node(node) for node in found]})


@router.post(
    "/v1/nodes/{name}/fence",
    summary="Say that nothing runs on a node any more",
    responses=answers(Node, told.FENCED, *_ERRORS, 409, says="The node."),
    openapi_extra=takes(FenceBody, told.FENCE_BODIES, required=False),
)
def fence(
    service: Served,
    caller: Called,
    name: NamePath,
    body: Annotated[FenceBody, Depends(optional_json_body(FenceBody))],
) -> Json:
    """For a machine that is silent and known to be off: its pods count as stopped.

    The node takes pods again when it is heard. 409 for a node that is not suspect, lost or out.
    """
    now_s = service.clock.now_s()
    node = fence_node(service.database, name, reason=body.reason, by=caller.name, now_s=now_s)
    return Json(shapes.node(node))


def _drain(
    service: Service, caller: Caller, names: Sequence[str], body: DrainBody, *, dry_run: bool
) -> Json:
    now_s = service.clock.now_s()
    deadline_s = None if body.deadline_s is None else now_s + body.deadline_s
    wanted = Drain(deadline_s, body.reason, caller.name)
    leaving = leaving_of(service.database, names)
    seen = [job for job in leaving if visible(caller, job)]
    if dry_run:
        with service.database.read() as connection:
            nodes = read_nodes(service.database, connection, names)
        moves, settled = _supposed(service, caller, names, wanted, now_s)
    else:
        nodes = drain_nodes(service.database, names, wanted, now_s=now_s)
        moves, settled = [], True
    return Json(
        {
            "dry_run": dry_run,
            "deadline": shapes.time_or_none(deadline_s),
            "nodes": [shapes.node(node) for node in nodes],
            "leaving": [
                {
                    "job": f"{job.namespace}/{job.name}",
                    "pods": job.pods,
                    "gpus": job.gpus,
                    "nodes": list(job.nodes),
                    "saves_first": job.saves_first,
                }
                for job in seen
            ],
            "hidden": len(leaving) - len(seen),
            "moves": moves,
            "settled": settled,
        }
    )


def _supposed(
    service: Service, caller: Caller, names: Sequence[str], wanted: Drain, now_s: float
) -> tuple[list[shapes.Shape], bool]:
    """What the engine makes of it on a copy of the cluster, once its time is up."""

    def copied(world: World) -> tuple[Standing, World]:
        other = suppose(world, Supposed(), now_s)
        for name in names:
            known = other.standing.get(NodeId(name), PLAIN)
            other.put_node(name, replace(known, drain=replace(wanted, deadline_s=now_s)))
        return standing(world), other

    policy, see = load_policy(service.database), may_see(caller)

    def decide(world: World, at_s: float) -> Plan:
        return run_cycle(world, policy, at_s)

    with turn():
        before, changed = service.reader.ask(copied)
        found = play(before, changed, 0, decide, now_s)
    seen = [(o, o.before) for o in found.others if o.before is not None and see(o.before)]
    return [effect(found, *one) for one in seen[:AFFECTED_MAX]], found.settled
