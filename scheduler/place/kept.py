"""Whether the pods of a job keep its rules on a map, whoever chose their places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.model.job import JOB_GROUP, JobSpec, ParallelSizes, Role, Rule
from scheduler.model.node import NodeType
from scheduler.parallel.groups import groups_of
from scheduler.place.bounds import level_of
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Member:
    """A pod and its node; None for a node that is not on the map."""

    role: str
    index: int
    node: int | None


def states_rules(spec: JobSpec) -> bool:
    """Whether a job has any rule that its pods could break."""
    return bool(spec.rules) or any(
        role.rules or (role.parts is not None and role.parts.rules) for role in spec.roles
    )


def broken_rules(
    spec: JobSpec, topology: Topology, pods: Sequence[Member], gpus_per_pod: int
) -> tuple[Rule, ...]:
    """Stated rules, required or preferred, that these pods do not keep.

    A rule of parts is named by its role. A rule whose level the map no longer has is broken.
    """
    if not pods:
        return ()
    node_type = _type_of(topology, pods)
    out = [
        rule
        for rule in spec.rules
        if not _kept(spec, rule, topology, pods, gpus_per_pod, node_type)
    ]
    for role in spec.roles:
        mine = [pod for pod in pods if pod.role == role.name]
        out += [rule for rule in role.rules if not _together(mine, rule, topology, node_type)]
        if role.parts is not None:
            out += [
                Rule(role.name, rule.within, rule.mode)
                for rule in role.parts.rules
                if not all(
                    _together(p, rule, topology, node_type) for p in _parts(role, mine).values()
                )
            ]
    return tuple(dict.fromkeys(out))


def _type_of(topology: Topology, pods: Sequence[Member]) -> NodeType | None:
    return next((topology.types[p.node] for p in pods if p.node is not None), None)


def _kept(
    spec: JobSpec,
    rule: Rule,
    topology: Topology,
    pods: Sequence[Member],
    gpus_per_pod: int,
    node_type: NodeType | None,
) -> bool:
    if rule.group == JOB_GROUP:
        return _together(pods, rule, topology, node_type)
    if spec.parallelism is None:
        return _together([p for p in pods if p.role == rule.group], rule, topology, node_type)
    sizes = spec.sizes_at(len(pods) * gpus_per_pod) or spec.parallelism
    return _axis_kept(sizes, rule, topology, pods, gpus_per_pod, node_type)


def _together(
    pods: Sequence[Member], rule: Rule, topology: Topology, node_type: NodeType | None
) -> bool:
    """Whether all these pods lie in one domain of the rule's level."""
    level = level_of(rule.within, topology, node_type)
    if level is None:
        return not pods
    places = {_place(topology, level, pod) for pod in pods}
    return not places or (len(places) == 1 and None not in places)


def _place(topology: Topology, level: int, pod: Member) -> int | None:
    """The pod's domain of a level; None for a blank one or a node that is not on the map."""
    if pod.node is None:
        return None
    domain = topology.place[level][pod.node]
    return None if topology.levels[level].is_blank(domain) else domain


def _parts(role: Role, pods: Sequence[Member]) -> Mapping[int, list[Member]]:
    size = role.parts.size if role.parts is not None else 1
    out: dict[int, list[Member]] = {}
    for pod in pods:
        out.setdefault(pod.index // size, []).append(pod)
    return out


def _axis_kept(
    sizes: ParallelSizes,
    rule: Rule,
    topology: Topology,
    pods: Sequence[Member],
    gpus_per_pod: int,
    node_type: NodeType | None,
) -> bool:
    level = level_of(rule.within, topology, node_type)
    if level is None or len(pods) * gpus_per_pod != sizes.world:
        return level is not None
    places = [_place(topology, level, pod) for pod in sorted(pods, key=lambda p: p.index)]
    # A blank place is nobody's neighbour: each gets a number of its own.
    numbers = np.array([-1 - i if place is None else place for i, place in enumerate(places)])
    of_group = numbers[groups_of(sizes)[rule.group] // gpus_per_pod]
    alone = of_group.shape[1] == 1
    return alone or bool((of_group == of_group[:, :1]).all())
