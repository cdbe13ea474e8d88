"""How to start a pod, as its node's agent is told."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from zlib import crc32

from api.http import shapes
from api.http.launch_env import filled_in, run_of
from api.http.placement_nccl import HCA_LABEL
from api.http.placement_pods import MASTER_PORT, slots
from api.store.launches import Start
from api.store.views import PodView
from scheduler.model.resources import indices_of
from scheduler.policy import Policy
from scheduler.topology.tree import Topology

CPU_PORT, CPU_PORTS = MASTER_PORT + 64, 400
"""Ports of gangs whose first rank has no GPU; a node has at most 64 of them."""

FENCE_MARGIN_S = 20.0
"""So long before a node may be lost its strict pods have ended: time to kill, and for clocks that
go differently. Half of `lost_after_s` where that is less."""

IMAGE = "{image}"
"""What stands for `run.image` in the launcher of the settings."""


def fence_after_s(lost_after_s: float) -> float:
    """How long after the last answered heartbeat a strict pod is ended that may be lost then."""
    return lost_after_s - min(FENCE_MARGIN_S, lost_after_s / 2)


def launch_of(
    pod: PodView, start: Start, topology: Topology | None, launcher: str, policy: Policy
) -> shapes.Shape:
    """As `schemas.heartbeat.Launch` describes it."""
    found = [at for at, member in enumerate(start.members) if member.uid == pod.uid]
    at = found[0] if found else 0
    first = _world(start.members[:at])
    master = start.members[0] if start.members else pod
    saved = start.checkpoint
    own_s, fence_s = start.lost_after_s, None
    if own_s is not None:
        fence_s = fence_after_s(policy.lost_after_of(own_s))
    own = replace(start, run=run_of(pod.role, start.run))
    return {
        "command": command_of(own, launcher),
        "env": filled_in(own.run.get("env"), pod, start.members),
        "ranks": list(range(first, first + slots(pod))),
        "world_size": _world(start.members),
        "node_rank": at,
        "nodes": len(start.members),
        "master_addr": master.node,
        "master_port": master_port(master),
        "ib_hca": None if topology is None else _adapters(topology, pod.node),
        "checkpoint": None if saved is None else {"step": saved.step, "uri": saved.uri},
        "strict": start.is_strict,
        "fence_after_s": fence_s,
    }


def command_of(start: Start, launcher: str) -> list[str]:
    """The words to start: those of the job, behind the launcher if the job has an image.

    An image is one word, or a part of one, whatever it holds: no shell reads it.
    """
    stated = start.run.get("command")
    command = [str(word) for word in stated] if isinstance(stated, list) else []
    image = start.run.get("image")
    if not isinstance(image, str):
        return command
    if IMAGE not in launcher:
        return []  # it was there when the job came; an agent refuses what has no command
    return [word.replace(IMAGE, image) for word in shlex.split(launcher)] + command


def master_port(master: PodView) -> int:
    """A port that no other gang with its first rank on the same node has, as GPUs are not shared.

    Gangs whose first rank has no GPU take theirs by chance of their uid.
    """
    gpus: Sequence[int] = indices_of(master.gpu_mask)
    if gpus:
        return MASTER_PORT + gpus[0]
    return CPU_PORT + crc32(master.job_uid.encode()) % CPU_PORTS


def _world(members: Iterable[PodView]) -> int:
    return sum(map(slots, members))


def _adapters(topology: Topology, node: str) -> str | None:
    """NICs in the order of their rails, as `NCCL_IB_HCA` takes them."""
    index = topology.node_index.get(node)
    label = None if index is None else topology.nodes[index].labels.get(HCA_LABEL)
    return "=" + ",".join(label.split(".")) if label else None
