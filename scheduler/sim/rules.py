"""Whether a gang's pods keep its required rules, worked out anew from the words of the rules.

Nothing here is shared with the code that places gangs: ranks are taken apart digit by digit.
"""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.model.job import JOB_GROUP, SCALE_UP, JobSpec, Mode, ParallelSizes, Role, Rule
from scheduler.model.plan import PodRecord
from scheduler.topology.tree import Topology

Domain = int | None
"""Index of a domain in its level; None where the node has no place."""


def broken_required(spec: JobSpec, pods: Sequence[PodRecord], topology: Topology) -> Iterator[Rule]:
    """Required rules that the pods of a whole gang do not keep, the default one for tp included.

    Args:
        pods: All pods that the gang has, on nodes of the map.
    """
    if spec.parallelism is not None:
        rules = [r for r in spec.rules if r.mode is Mode.REQUIRED]
        if all(rule.group != "tp" for rule in spec.rules):
            rules.append(Rule("tp", SCALE_UP))
        for rule in rules:
            if not all(_together(group) for group in _groups(spec, rule, pods, topology)):
                yield rule
        return
    for rule in spec.rules:
        if rule.mode is Mode.REQUIRED:
            mine = [p for p in pods if rule.group in (JOB_GROUP, p.role)]
            if not _together(_domains(mine, rule, topology)):
                yield rule
    for role in spec.roles:
        yield from _role(role, [p for p in pods if p.role == role.name], topology)


def _role(role: Role, pods: Sequence[PodRecord], topology: Topology) -> Iterator[Rule]:
    for rule in role.rules:
        if rule.mode is Mode.REQUIRED and not _together(_domains(pods, rule, topology)):
            yield rule
    if role.parts is None:
        return
    by_part: dict[int, list[PodRecord]] = {}
    for pod in pods:
        by_part.setdefault(pod.index // role.parts.size, []).append(pod)
    for rule in role.parts.rules:
        if rule.mode is Mode.REQUIRED and not all(
            _together(_domains(part, rule, topology)) for part in by_part.values()
        ):
            yield Rule(role.name, rule.within, rule.mode)


def _together(domains: Sequence[Domain]) -> bool:
    return len(domains) <= 1 or (None not in domains and len(set(domains)) == 1)


def _domains(pods: Sequence[PodRecord], rule: Rule, topology: Topology) -> list[Domain]:
    return [_domain(topology, pod, rule.within) for pod in pods]


def _domain(topology: Topology, pod: PodRecord, within: str) -> Domain:
    node = topology.node_index[pod.node]
    name = topology.scale_up_level(topology.types[node]) if within == SCALE_UP else within
    if name not in topology.level_index:
        return None
    depth = topology.level_index[name]
    domain = topology.place[depth][node]
    return domain if topology.levels[depth].names[domain] else None


def _groups(
    spec: JobSpec, rule: Rule, pods: Sequence[PodRecord], topology: Topology
) -> Iterator[list[Domain]]:
    """The domains that each group of ranks of the rule touches, one for each pod in it."""
    sizes = spec.parallelism
    if sizes is None:
        return
    of_rank: dict[int, int] = {}
    for number, pod in enumerate(pods):
        for k in range(pod.gpu_mask.bit_count()):
            of_rank[pod.first_rank + k] = number
    domains = _domains(pods, rule, topology)
    if rule.group == JOB_GROUP:
        yield domains
        return
    by_group: dict[tuple[int, ...], dict[int, Domain]] = {}
    for rank, number in of_rank.items():
        group = _group_of(sizes, rule.group, rank)
        by_group.setdefault(group, {})[number] = domains[number]
    for found in by_group.values():
        yield list(found.values())


def _group_of(sizes: ParallelSizes, axis: str, rank: int) -> tuple[int, ...]:
    """The digits of a rank in every axis but the one that its group runs along."""
    grid: Mapping[str, int] = sizes.expert() if axis == "ep" else sizes.dense()
    digits, rest = [], rank
    for name in sizes.order:
        rest, digit = divmod(rest, grid[name])
        digits.append(-1 if name == axis else digit)
    return tuple(digits)
