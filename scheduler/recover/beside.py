"""Whether a member may be where it is beside the others of its gang: required rules, one by one.

For members that were lost with their node and are found there again: meanwhile the gang may have
got places elsewhere. A gang of ranks has no members that it can do without, so only roles matter.
"""

from collections.abc import Iterable, Iterator, Sequence

from scheduler.model.job import JOB_GROUP, JobSpec, Mode, Rule
from scheduler.model.plan import PodRecord
from scheduler.place.bounds import level_of
from scheduler.topology.tree import Topology


def keeps_rules(
    spec: JobSpec, pod: PodRecord, others: Iterable[PodRecord], topology: Topology
) -> bool:
    """Whether no required rule is broken by a member where it is, `others` being where they are."""
    there = [p for p in others if p.uid != pod.uid and p.node in topology.node_index]
    return pod.node in topology.node_index and all(
        _together(rule, [pod, *group], topology)
        for rule, group in _groups(spec, pod, there)
        if rule.mode is Mode.REQUIRED and group
    )


def _groups(
    spec: JobSpec, pod: PodRecord, others: Sequence[PodRecord]
) -> Iterator[tuple[Rule, list[PodRecord]]]:
    """Each rule that speaks of the member, with the others that it speaks of."""
    mine = [p for p in others if p.role == pod.role]
    for rule in spec.rules:
        if rule.group in (JOB_GROUP, pod.role):
            yield rule, mine if rule.group == pod.role else list(others)
    for role in spec.roles:
        if role.name != pod.role:
            continue
        for rule in role.rules:
            yield rule, mine
        if role.parts is not None:
            size = role.parts.size
            part = [p for p in mine if p.index // size == pod.index // size]
            for rule in role.parts.rules:
                yield rule, part


def _together(rule: Rule, pods: Sequence[PodRecord], topology: Topology) -> bool:
    return len({_domain(rule, pod, topology) for pod in pods}) == 1


def _domain(rule: Rule, pod: PodRecord, topology: Topology) -> int | str:
    """The domain that must hold it; a node without one at that level is with nobody."""
    node = topology.node_index[pod.node]
    level = level_of(rule.within, topology, topology.types[node])
    if level is None:
        return pod.node
    domain = topology.place[level][node]
    return domain if topology.levels[level].names[domain] else pod.node
