"""Which members a gang lacks, and which of them it cannot do without."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from scheduler.model.job import Role
from scheduler.model.lifecycle import PodState
from scheduler.model.plan import JobRecord, PodRecord

THERE = frozenset({PodState.BOUND, PodState.RUNNING, PodState.SUCCEEDED})
"""Pods that stand for their member: it has a place and is not on its way out, or it is done."""

Member = tuple[str, int]
"""Role and index of a member."""


@dataclass(frozen=True, slots=True)
class Lacks:
    """What a gang lacks.

    Attributes:
        needed: Members to be placed so that it has its minimum again, by role and index; empty when
            it has.
        others: Further members that it lacks.
        has, least: Members that are there, and that must be, of the roles that are short (of all
            when none is).
    """

    needed: tuple[Member, ...]
    others: tuple[Member, ...]
    has: int
    least: int


def lacks_of(
    job: JobRecord, pods: Iterable[PodRecord], back: Collection[Member] = frozenset()
) -> Lacks:
    """What a gang with a place lacks, `pods` being all of its pods, live or not.

    Args:
        back: Lost members whose nodes are there again: the first to be placed, where they were.
    """
    there = {(p.role, p.index) for p in pods if p.state in THERE}
    if not job.spec.roles:
        count = pods_of_parallel(job, pods)
        gone = tuple(("", i) for i in range(count) if ("", i) not in there)
        return Lacks(gone, (), count - len(gone), count)
    needed: list[Member] = []
    others: list[Member] = []
    has = least = all_has = all_least = 0
    for role in job.spec.roles:
        mine = {index for name, index in there if name == role.name}
        must, may = _of_role(role, mine, {index for name, index in back if name == role.name})
        needed += [(role.name, index) for index in must]
        others += [(role.name, index) for index in may]
        all_has, all_least = all_has + len(mine), all_least + role.min
        if must:
            has, least = has + len(mine), least + role.min
    if not needed:
        has, least = all_has, all_least
    return Lacks(tuple(needed), tuple(others), has, least)


def pods_of_parallel(job: JobRecord, pods: Iterable[PodRecord]) -> int:
    """Pods of a parallel job at the size that it runs with: a smaller dp has fewer.

    Pods of an earlier, larger attempt are not live any more, nor are they missing. Where the size
    is not known, as of a job that an earlier release started, it is told from those that are there.
    """
    if job.pod_count:
        return job.pod_count
    per_pod = max(job.gpus_per_pod, 1)
    sizes = {s.world // per_pod for s in job.spec.all_sizes()} or {0}
    if len(sizes) == 1:
        return sizes.pop()
    known = [p.index for p in pods if p.is_live or p.state is PodState.SUCCEEDED]
    most = max(known, default=-1) + 1
    return min((size for size in sizes if size >= most), default=max(sizes))


def _of_role(role: Role, there: set[int], back: set[int]) -> tuple[list[int], list[int]]:
    """Members to be placed for the minimum, and the further ones that are missing."""
    missing = [index for index in range(role.replicas) if index not in there]
    if role.parts is None:
        short = max(0, role.min - len(there))
        order = sorted(missing, key=lambda index: (index not in back, index))
        return sorted(order[:short]), sorted(order[short:])
    size = role.parts.size
    by_part: dict[int, list[int]] = {}
    for index in missing:
        by_part.setdefault(index // size, []).append(index)
    whole = role.parts.count - len(by_part)
    # The parts that lack least are mended first.
    order = sorted(by_part, key=lambda part: (len(by_part[part]), part))
    short = max(0, role.min // size - whole)
    must = [index for part in order[:short] for index in by_part[part]]
    may = [index for part in order[short:] for index in by_part[part]]
    return sorted(must), sorted(may)


def broken_parts(job: JobRecord, pods: Iterable[PodRecord]) -> Mapping[Member, list[PodRecord]]:
    """Parts that run in part: (role, number of the part) -> the pods of it that are there."""
    out: dict[Member, list[PodRecord]] = {}
    sizes = {r.name: r.parts.size for r in job.spec.roles if r.parts is not None}
    for pod in pods:
        if pod.role in sizes and pod.state in THERE:
            out.setdefault((pod.role, pod.index // sizes[pod.role]), []).append(pod)
    return {key: mine for key, mine in sorted(out.items()) if len(mine) < sizes[key[0]]}
