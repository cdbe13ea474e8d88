"""Members above the minimum of a gang that has its place: they join it where its rules allow."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from scheduler.cluster.trial import Trial
from scheduler.model.job import JOB_GROUP, JobSpec, Mode, Role, Rule
from scheduler.model.node import NodeType
from scheduler.model.placement import PodPlace
from scheduler.place.arrange import arrange
from scheduler.place.bounds import job_level, level_of
from scheduler.place.members import ask_for_role, node_types_for
from scheduler.place.room import Scope
from scheduler.place.uniform import required_wants, settle


def grow(
    trial: Trial,
    spec: JobSpec,
    have: Mapping[tuple[str, int], int],
    done: Collection[tuple[str, int]] = (),
) -> list[PodPlace]:
    """Places for a running gang's missing members, as many as fit, held in the trial.

    Args:
        have: (role, member index) -> node index of the members that have a place.
        done: Members that have ended well and are not to come again.
    """
    topology = trial.table.topology
    level = job_level(spec, topology)
    if isinstance(level, Rule):
        return []
    scope: Scope | None = None
    if level is not None and have:
        scope = (level, topology.place[level][next(iter(have.values()))])
    out: list[PodPlace] = []
    trial.table.set_own(have.values() if spec.exclusive else ())
    for role in spec.roles:
        mine = {index: node for (name, index), node in have.items() if name == role.name}
        gone = {index for name, index in done if name == role.name}
        if len(mine) + len(gone) < role.replicas:
            out += more_of_role(trial, spec, role, mine, scope, gone)
    trial.table.set_own(())
    return out


def more_of_role(
    trial: Trial,
    spec: JobSpec,
    role: Role,
    have: Mapping[int, int],
    scope: Scope | None,
    done: Collection[int] = (),
) -> list[PodPlace]:
    """Places for missing members of one role, as many as fit, held in the trial.

    Args:
        have: Member index -> node index of those that have a place.
        scope: Domain that must hold the whole job, if one must.
        done: Members that are not to come again.
    """
    step = role.parts.size if role.parts is not None else 1
    missing = _missing(role, have, done)
    if len(missing) < step:
        return []
    kind = (
        next((trial.table.topology.types[node] for node in have.values()), None)
        if role.gpus
        else None
    )
    kinds: list[NodeType | None] = (
        [kind] if kind is not None else node_types_for(trial, spec.gpu, role.gpus)
    )
    scope = _role_scope(trial, spec, role, have, scope)
    for node_type in kinds:
        with _apart(trial, set(have.values()) if role.one_per_node else set()):
            found = _place(trial, spec, role, node_type, missing, step, have, scope)
        if found:
            trial.hold_places(found)
            return found
    return []


def _missing(role: Role, have: Mapping[int, int], done: Collection[int]) -> list[int]:
    """Members without a place; of a role with parts, only those of parts that are wholly absent."""
    out = [i for i in range(role.replicas) if i not in have and i not in done]
    if role.parts is None:
        return out
    size, absent = role.parts.size, set(out)
    whole = {
        part
        for part in range(role.parts.count)
        if absent >= set(range(part * size, part * size + size))
    }
    return [i for i in out if i // size in whole]


def _place(
    trial: Trial,
    spec: JobSpec,
    role: Role,
    node_type: NodeType | None,
    missing: list[int],
    step: int,
    have: Mapping[int, int],
    scope: Scope | None,
) -> list[PodPlace]:
    """The most members that fit in the scope, as near to the others as so many can be."""
    topology = trial.table.topology
    ask = ask_for_role(trial, spec, role, node_type, len(missing), step, scope, alone=False)
    wants = required_wants(ask)
    settled = settle(ask, wants) if isinstance(wants, dict) else None
    if settled is None or not isinstance(wants, dict):
        return []
    nodes = list(have.values())
    for level in range(len(topology.levels) - 1, -1 if scope is None else scope[0], -1):
        domains = {topology.place[level][node] for node in nodes}
        if len(domains) != 1:
            continue
        near = ask_for_role(
            trial, spec, role, node_type, len(missing), step, (level, domains.pop()), alone=False
        )
        closer = settle(near, wants)
        if closer is not None and closer.pods == settled.pods:
            ask, settled = near, closer
            break
    layout = arrange(ask, settled).layout
    return [
        PodPlace(role.name, index, node, mask, 0, role.resources, spec.exclusive)
        for index, node, mask in zip(missing, layout.nodes, layout.masks, strict=False)
    ]


def _role_scope(
    trial: Trial, spec: JobSpec, role: Role, have: Mapping[int, int], scope: Scope | None
) -> Scope | None:
    """Narrow the scope to the domain in which a required rule keeps this role."""
    topology = trial.table.topology
    for rule in (*spec.rules, *role.rules):
        binds = rule.group == role.name or (rule.group == JOB_GROUP and len(spec.roles) == 1)
        if not binds or rule.mode is not Mode.REQUIRED or not have:
            continue
        level = level_of(rule.within, topology, None)
        if level is not None and (scope is None or level > scope[0]):
            scope = (level, topology.place[level][next(iter(have.values()))])
    return scope


@contextmanager
def _apart(trial: Trial, nodes: set[int]) -> Iterator[None]:
    """Keep new members off some nodes for a while."""
    before = {node: trial.table.aside[node] for node in nodes}
    for node in nodes:
        trial.table.set_aside(node, before[node] or "taken_by_this_job")
    try:
        yield
    finally:
        for node, reason in before.items():
            trial.table.set_aside(node, reason)
