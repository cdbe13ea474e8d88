"""Heartbeats of the agents of nodes."""

from collections.abc import Iterable, Sequence
from typing import Annotated
from zlib import crc32

from fastapi import Depends

from api.http import heartbeat_examples as shown
from api.http import shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body
from api.http.placement_nccl import HCA_LABEL
from api.http.placement_pods import MASTER_PORT, slots
from api.http.routing import NamePath, make_router
from api.http.service import Served
from api.schemas.heartbeat import HeartbeatAnswer, HeartbeatBody
from api.schemas.reading import InvalidFields
from api.store.leases import Heard, Said, Start, hear, starts_of
from api.store.topology import load_topology
from api.store.views import PodView
from scheduler.errors import Problem
from scheduler.model.lifecycle import PodState
from scheduler.model.resources import indices_of
from scheduler.topology.tree import Topology

NEXT_S = 10.0
"""Between heartbeats of a node whose pods all run: three of them before it is suspect."""

NEXT_SOON_S = 1.0
"""While pods of the node have yet to start."""

CPU_PORT, CPU_PORTS = MASTER_PORT + 64, 400
"""Ports of gangs whose first rank has no GPU; a node has at most 64 of them."""

router = make_router("nodes")


@router.post(
    "/v1/nodes/{name}/heartbeat",
    summary="Hear the agent of a node",
    responses=answers(
        HeartbeatAnswer, shown.ANSWER, 400, 404, 409, 413, 415, 422, says="What is to run there."
    ),
    openapi_extra=takes(HeartbeatBody, shown.BODIES),
)
def heartbeat(
    service: Served,
    name: NamePath,
    body: Annotated[HeartbeatBody, Depends(json_body(HeartbeatBody))],
) -> Json:
    """Take a sign of life; what is news of pods becomes a report, all else makes no revision.

    409 for a session when a later one speaks for the node: its agent ends and stops nothing.
    """
    said = _said(body)
    heard = hear(
        service.leases, name, body.session, body.boot_id, said, now_s=service.clock.now_s()
    )
    told = {word.run for word in said}
    # One that has run already is not started a second time under the same attempt.
    fresh = [
        pod
        for pod in heard.desired
        if pod.state is PodState.BOUND and (pod.uid, pod.attempt) not in told
    ]
    starts = starts_of(service.database, (pod.job_uid for pod in fresh)) if fresh else {}
    topology = load_topology(service.database).topology if fresh else None
    return Json(
        {
            "desired": [
                _desired(pod, starts.get(pod.job_uid) if pod in fresh else None, topology)
                for pod in heard.desired
            ],
            "ignored": [_ignored(word, why) for word, why in heard.ignored],
            "epoch": heard.epoch,
            "next_s": _next_s(heard),
        }
    )


def _said(body: HeartbeatBody) -> list[Said]:
    """What was said of each pod.

    Raises:
        InvalidFields: If one is named twice.
    """
    said = [Said(p.uid, p.attempt, PodState(p.state), p.exit_code) for p in body.pods]
    runs = set()
    for index, word in enumerate(said):
        if word.run in runs:
            problem = f"attempt {word.attempt} of pod '{word.uid[:80]}' is named twice"
            raise InvalidFields(Problem(f"pods[{index}]", problem))
        runs.add(word.run)
    return said


def _next_s(heard: Heard) -> float:
    starting = any(pod.state is not PodState.RUNNING for pod in heard.desired)
    return NEXT_SOON_S if starting else NEXT_S


def _ignored(word: Said, why: str) -> shapes.Shape:
    return {"uid": word.uid, "attempt": word.attempt, "message": why}


def _desired(pod: PodView, start: Start | None, topology: Topology | None) -> shapes.Shape:
    """As `schemas.heartbeat.DesiredPod` describes it."""
    launch = None if start is None else _launch(pod, start, topology)
    return {
        "uid": pod.uid,
        "attempt": pod.attempt,
        "namespace": pod.namespace,
        "job": f"{pod.namespace}/{pod.job}",
        "name": pod.name,
        "role": pod.role or shapes.RANK_ROLE,
        "index": pod.index,
        "gpus": indices_of(pod.gpu_mask),
        "launch": launch,
    }


def _launch(pod: PodView, start: Start, topology: Topology | None) -> shapes.Shape:
    """As `schemas.heartbeat.Launch` describes it."""
    found = [at for at, member in enumerate(start.members) if member.uid == pod.uid]
    at = found[0] if found else 0
    first = _world(start.members[:at])
    master = start.members[0] if start.members else pod
    saved = start.checkpoint
    return {
        "command": start.run.get("command") or [],
        "env": start.run.get("env") or {},
        "ranks": list(range(first, first + slots(pod))),
        "world_size": _world(start.members),
        "node_rank": at,
        "nodes": len(start.members),
        "master_addr": master.node,
        "master_port": master_port(master),
        "ib_hca": None if topology is None else _adapters(topology, pod.node),
        "checkpoint": None if saved is None else {"step": saved.step, "uri": saved.uri},
    }


def _world(members: Iterable[PodView]) -> int:
    return sum(map(slots, members))


def master_port(master: PodView) -> int:
    """A port that no other gang with its first rank on the same node has, as GPUs are not shared.

    Gangs whose first rank has no GPU take theirs by chance of their uid.
    """
    gpus: Sequence[int] = indices_of(master.gpu_mask)
    if gpus:
        return MASTER_PORT + gpus[0]
    return CPU_PORT + crc32(master.job_uid.encode()) % CPU_PORTS


def _adapters(topology: Topology, node: str) -> str | None:
    """NICs in the order of their rails, as `NCCL_IB_HCA` takes them."""
    index = topology.node_index.get(node)
    label = None if index is None else topology.nodes[index].labels.get(HCA_LABEL)
    return "=" + ",".join(label.split(".")) if label else None
