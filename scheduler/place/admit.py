"""Checks at the door: fields that contradict each other, gangs that could never fit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import World
from scheduler.errors import JobError, Problem
from scheduler.model.job import (
    AXES,
    JOB_GROUP,
    MAX_RANKS,
    SCALE_UP,
    JobSpec,
    ParallelSizes,
    Role,
    Rule,
    fits_pod,
)
from scheduler.model.placement import NoFit, Placement
from scheduler.place.search import place
from scheduler.place.verdict import NEVER
from scheduler.topology.tree import Topology

PARALLEL_GROUPS = ("tp", "cp", "pp", "dp", "ep", JOB_GROUP)


def check_job(spec: JobSpec, level_names: Sequence[str]) -> None:
    """Refuse a job whose fields contradict each other or name levels and groups that do not exist.

    Raises:
        JobError: With every problem found; paths are those of the request.
    """
    problems = list(_problems(spec, tuple(level_names)))
    if problems:
        raise JobError(problems)


def _problems(spec: JobSpec, levels: tuple[str, ...]) -> Iterator[Problem]:
    if (spec.parallelism is None) == (not spec.roles):
        found = "both" if spec.roles else "neither"
        yield Problem("parallelism", f"found {found} of parallelism and roles; give exactly one")
        return
    if spec.parallelism is not None:
        for sizes in spec.all_sizes():
            yield from _parallel_problems(spec, sizes)
        groups: tuple[str, ...] = PARALLEL_GROUPS
    else:
        for i, role in enumerate(spec.roles):
            yield from _role_problems(f"roles[{i}]", role, levels)
        yield from _name_problems(spec.roles)
        yield from _size_problems(spec)
        groups = (JOB_GROUP, *(role.name for role in spec.roles))
    yield from _rule_problems("topology", spec.rules, levels, groups)


def check_size(spec: JobSpec) -> None:
    """Refuse a job of roles that is too large for any count to stay exact. Raises JobError."""
    problems = list(_size_problems(spec))
    if problems:
        raise JobError(problems)


def _size_problems(spec: JobSpec) -> Iterator[Problem]:
    ranks = sum(role.replicas * max(role.gpus, 1) for role in spec.roles)
    if ranks > MAX_RANKS:
        yield Problem(
            "roles", f"found {ranks} members x GPUs in all; at most {MAX_RANKS} are allowed"
        )


def _parallel_problems(spec: JobSpec, sizes: ParallelSizes) -> Iterator[Problem]:
    if sorted(sizes.order) != sorted(AXES):
        yield Problem(
            "parallelism.order",
            f"found '{'-'.join(sizes.order)}'; it names each of {', '.join(AXES)} once,"
            " as in 'tp-cp-ep-dp-pp'",
        )
        return
    if sizes.world > MAX_RANKS:
        yield Problem(
            "parallelism",
            f"tp x cp x pp x dp is {sizes.world} ranks; at most {MAX_RANKS} are allowed",
        )
        return
    experts = sizes.expert_tp * sizes.ep * sizes.pp
    if sizes.world % experts:
        yield Problem(
            "parallelism.ep",
            f"etp x ep x pp = {sizes.expert_tp} x {sizes.ep} x {sizes.pp} = {experts}"
            f" does not divide the world of {sizes.world} ranks{_at_dp(spec, sizes)}",
        )
    g = spec.gpus_per_pod
    if g is not None and not fits_pod(sizes, g):
        allowed = [str(n) for n in range(1, 65) if fits_pod(sizes, n)]
        yield Problem(
            "gpus_per_pod",
            f"found {g}; it must divide the world of {sizes.world} ranks, and divide tp"
            f" {sizes.tp} or be a multiple of it: {', '.join(allowed)}{_at_dp(spec, sizes)}",
        )
        return
    pods = None if g is None else sizes.world // g
    if pods and spec.segment and pods > spec.segment and pods % spec.segment:
        allowed = [str(n) for n in range(1, min(pods, 1_000)) if pods % n == 0]
        yield Problem(
            "segment",
            f"found {spec.segment}; the {pods} pods are no whole number of segments"
            f"{_at_dp(spec, sizes)}; allowed are {', '.join(allowed)}, or all",
        )


def _at_dp(spec: JobSpec, sizes: ParallelSizes) -> str:
    return f" at dp {sizes.dp}" if spec.dp_sizes else ""


def _role_problems(path: str, role: Role, levels: tuple[str, ...]) -> Iterator[Problem]:
    if not 0 < role.min <= role.replicas:
        yield Problem(
            f"{path}.min", f"found {role.min}; it must lie in 1 to replicas, {role.replicas}"
        )
    if role.parts is not None:
        parts = role.parts
        if parts.size * parts.count != role.replicas:
            yield Problem(
                f"{path}.parts",
                f"size {parts.size} x count {parts.count} is not replicas {role.replicas};"
                " parts must hold all members of the role",
            )
        elif not 0 < parts.min <= parts.count:
            yield Problem(
                f"{path}.parts.min", f"found {parts.min}; it must lie in 1 to count, {parts.count}"
            )
        elif role.min != parts.min * parts.size:
            yield Problem(
                f"{path}.min",
                f"found {role.min}, but parts.min {parts.min} x parts.size {parts.size} is"
                f" {parts.min * parts.size}; state one of them, or both alike",
            )
        yield from _rule_problems(f"{path}.parts.topology", parts.rules, levels, ("",))
    yield from _rule_problems(f"{path}.topology", role.rules, levels, (role.name,))


def _name_problems(roles: Sequence[Role]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, role in enumerate(roles):
        if role.name in seen:
            yield Problem(
                f"roles[{i}].name", f"'{role.name}' is the name of roles[{seen[role.name]}] too"
            )
        elif role.name in PARALLEL_GROUPS:
            yield Problem(
                f"roles[{i}].name", f"'{role.name}' names a group of ranks; choose another"
            )
        seen.setdefault(role.name, i)


def _rule_problems(
    path: str, rules: Sequence[Rule], levels: tuple[str, ...], groups: tuple[str, ...]
) -> Iterator[Problem]:
    for i, rule in enumerate(rules):
        if rule.within != SCALE_UP and rule.within not in levels:
            yield Problem(
                f"{path}[{i}].within",
                f"no level '{rule.within}'; the levels are {', '.join(levels)}, or {SCALE_UP}",
            )
        if rule.group not in groups:
            yield Problem(
                f"{path}[{i}].group",
                f"no group '{rule.group}' in this job; its groups are {', '.join(groups)}",
            )


def never_fits(spec: JobSpec, topology: Topology) -> NoFit | None:
    """The verdict on a gang that not even every known node, empty and healthy, could hold."""
    return never_fits_in(Trial(NodeTable(topology)), spec)


def never_fits_in(empty: Trial, spec: JobSpec) -> NoFit | None:
    """The same on an empty cluster that is kept between questions."""
    found = place(empty, spec)
    if not isinstance(found, NoFit):
        return None
    return replace(found, never=True, message=NEVER + found.message)


def dry_run(world: World, spec: JobSpec) -> Placement | NoFit:
    """Where the gang would go now; changes nothing."""
    found = place(world.trial, spec)
    if isinstance(found, NoFit):
        return never_fits_in(world.emptied(), spec) or found
    return found
