"""How the groups of a placed job lie in the fabric, counted from where its pods are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.http.shapes import RANK_ROLE, Shape, domains_of
from api.store.views import JobView, PodView
from scheduler.model.job import AXES, JOB_GROUP, JobSpec
from scheduler.model.resources import indices_of
from scheduler.parallel.groups import groups_of
from scheduler.topology.tree import Topology

Indices = NDArray[np.int64]

_GPUS_OF_A_NODE = 64
"""More than a node can have, so that node x 64 + GPU tells GPUs apart."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A job and where its pods are; proposed by a dry run or committed.

    Attributes:
        pods: In rank order.
        topology: The map that their nodes are on.
    """

    spec: JobSpec
    attempt: int
    revision: int
    search: str
    node_type: str
    gpus_per_pod: int
    pods: tuple[PodView, ...]
    topology: Topology


def laid(job: JobView, pods: Sequence[PodView], topology: Topology) -> Laid:
    """A job as the store has it."""
    return Laid(
        spec=job.spec,
        attempt=job.attempt,
        revision=job.revision,
        search=job.search,
        node_type=job.node_type,
        gpus_per_pod=job.gpus_per_pod,
        pods=tuple(pods),
        topology=topology,
    )


def placement(of: Laid) -> Shape:
    """The placement as the API shows it."""
    return {
        "job": f"{of.spec.namespace}/{of.spec.name}",
        "attempt": of.attempt,
        "revision": of.revision,
        "search": of.search,
        "regret": None,
        "node_type": of.node_type or None,
        "gpus_per_pod": of.gpus_per_pod or None,
        "pods": [_pod(pod, of.topology) for pod in of.pods],
        "groups": groups(of),
    }


def _pod(pod: PodView, topology: Topology) -> Shape:
    gpus = indices_of(pod.gpu_mask)
    return {
        "name": pod.name,
        "role": pod.role or RANK_ROLE,
        "index": pod.index,
        "node": pod.node,
        "gpus": gpus,
        "ranks": list(range(pod.first_rank, pod.first_rank + len(gpus))),
        "domains": domains_of(topology, pod.node),
    }


def groups(of: Laid) -> dict[str, Shape]:
    """Count, size and spread of the groups of every axis above size 1, of each role, of the job.

    Empty while a pod is missing or on a node that the map no longer has.
    """
    if not of.pods or any(pod.node not in of.topology.node_index for pod in of.pods):
        return {}
    if of.spec.parallelism is not None:
        found = _axes(of)
    else:
        found = {
            role.name: _whole([p for p in of.pods if p.role == role.name], of.topology)
            for role in of.spec.roles
            if any(p.role == role.name for p in of.pods)
        }
    return found | {JOB_GROUP: _whole(of.pods, of.topology)}


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Where every rank is, by rank.

    Attributes:
        domains: At every level, the index of its domain.
    """

    node: Indices
    gpu: Indices
    domains: Mapping[str, Indices]


def _axes(of: Laid) -> dict[str, Shape]:
    if of.spec.parallelism is None:
        return {}
    ranks = _by_rank(of)
    if len(ranks.node) != of.spec.parallelism.world:
        return {}
    members_of = groups_of(of.spec.parallelism)
    return {axis: _axis(members_of[axis], ranks) for axis in AXES if members_of[axis].shape[1] > 1}


def _by_rank(of: Laid) -> _Ranks:
    ordered = sorted(of.pods, key=lambda pod: pod.first_rank)
    gpus = [indices_of(pod.gpu_mask) for pod in ordered]
    nodes = [of.topology.node_index[pod.node] for pod in ordered]
    counts = [len(of_pod) for of_pod in gpus]

    def of_ranks(of_pods: list[int]) -> Indices:
        return np.repeat(np.array(of_pods, dtype=np.int64), counts)

    return _Ranks(
        node=of_ranks(nodes),
        gpu=np.array([gpu for of_pod in gpus for gpu in of_pod], dtype=np.int64),
        domains={
            level.name: of_ranks([of.topology.place[depth][node] for node in nodes])
            for depth, level in enumerate(of.topology.levels)
        },
    )


def _axis(members: Indices, ranks: _Ranks) -> Shape:
    """Shape of an axis; `members` are ranks, (groups, group size)."""
    spans = {level: _span(domains[members]) for level, domains in ranks.domains.items()}
    true = rail_true_groups(ranks.node[members], ranks.gpu[members])
    return _shape(members.shape[0], members.shape[1], spans, true)


def _span(domains: Indices) -> Shape:
    distinct = _distinct(np.sort(domains, axis=1))
    return {
        "max": int(distinct.max()),
        "mean": round(float(distinct.mean()), 4),
        "one": int((distinct == 1).sum()),
    }


def _distinct(rows: Indices) -> Indices:
    """Different values in each sorted row."""
    changes: Indices = (np.diff(rows, axis=1) != 0).sum(axis=1)
    return changes + 1


def rail_true_groups(nodes: Indices, gpus: Indices) -> int:
    """Groups that use the same GPU indices on every node they touch.

    Args:
        nodes, gpus: Node and GPU index of every member, (groups, group size).
    """
    keys = np.sort(nodes * _GPUS_OF_A_NODE + gpus, axis=1)
    touched = _distinct(keys // _GPUS_OF_A_NODE)
    size, true = keys.shape[1], 0
    for count in np.unique(touched):
        if size % count:
            continue  # some node has more of the group's GPUs than another
        rows = keys[touched == count].reshape(-1, count, size // count)
        node, gpu = rows // _GPUS_OF_A_NODE, rows % _GPUS_OF_A_NODE
        evenly = (node == node[:, :, :1]).all(axis=(1, 2))
        alike = (gpu == gpu[:, :1, :]).all(axis=(1, 2))
        true += int((evenly & alike).sum())
    return true


def _whole(pods: Sequence[PodView], topology: Topology) -> Shape:
    """Shape of one group: all of these pods."""
    nodes = [topology.node_index[pod.node] for pod in pods]
    masks: dict[int, int] = {}
    for node, pod in zip(nodes, pods, strict=True):
        masks[node] = masks.get(node, 0) | pod.gpu_mask
    spans: dict[str, Shape] = {}
    for depth, level in enumerate(topology.levels):
        touched = len({topology.place[depth][node] for node in nodes})
        spans[level.name] = {"max": touched, "mean": float(touched), "one": int(touched == 1)}
    ranks = sum(pod.gpu_mask.bit_count() for pod in pods)
    return _shape(1, ranks or len(pods), spans, int(len(set(masks.values())) == 1))


def _shape(count: int, size: int, spans: Mapping[str, Shape], true: int) -> Shape:
    return {
        "count": count,
        "size": size,
        "spans": dict(spans),
        "rail_true": true == count,
        "rail_true_groups": true,
    }
