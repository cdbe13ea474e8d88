"""Exact packing of a few unlike members into nodes, for when placing role by role fails.

Role by role is greedy: a small role may take what a large one needed. Here every way is tried,
members
largest first, nodes that look alike only once, up to a count of steps.
"""

from dataclasses import dataclass, field

from scheduler.cluster.nodes import Held
from scheduler.cluster.trial import Trial
from scheduler.model.job import JobSpec, Role
from scheduler.model.placement import PodPlace
from scheduler.place.assign import best_mask
from scheduler.place.members import shape_of
from scheduler.place.room import Scope

STEP_LIMIT = 20_000
"""Members tried on nodes before the search gives up and says `bounded`; about 0.1 s."""


@dataclass(slots=True)
class _Search:
    trial: Trial
    spec: JobSpec
    members: list[tuple[Role, int]]
    nodes: list[int]
    type_of_role: dict[str, str] = field(default_factory=dict)
    used_by_role: dict[tuple[str, int], int] = field(default_factory=dict)
    placed: list[PodPlace] = field(default_factory=list)
    steps: int = 0


def pack_exactly(
    trial: Trial, spec: JobSpec, scope: Scope | None
) -> tuple[list[PodPlace] | None, bool]:
    """Every role's minimum inside the scope, held in the trial.

    Roles with rules of their own or with parts are left to the search by counts.

    Returns:
        The places, or None; and whether the search was cut.
    """
    own_rules = any(role.rules or role.parts is not None for role in spec.roles)
    if own_rules or any(rule.group in {r.name for r in spec.roles} for rule in spec.rules):
        return None, True
    topology = trial.table.topology
    lo, hi = (
        (0, topology.node_count)
        if scope is None
        else topology.inside(*scope, len(topology.levels) - 1)
    )
    members = sorted(
        ((role, index) for role in spec.roles for index in range(role.min)),
        key=lambda m: (
            -m[0].gpus,
            -m[0].resources.cpu_milli,
            -m[0].resources.memory_mib,
            m[0].name,
            m[1],
        ),
    )
    views = {
        role.name: trial.view(shape_of(trial.table.topology, spec, role, None))
        for role in spec.roles
    }
    nodes = [n for n in range(lo, hi) if any(view.slots[n] for view in views.values())]
    if len(members) * len(nodes) > STEP_LIMIT:
        return None, True
    search = _Search(trial, spec, members, nodes)
    mark = trial.mark()
    if _place_from(search, 0):
        return search.placed, False
    trial.roll_back(mark)
    return None, search.steps >= STEP_LIMIT


def _place_from(search: _Search, position: int) -> bool:
    """Place members from a position on; True when all have a place."""
    if position == len(search.members):
        return True
    role, index = search.members[position]
    for node in _different_nodes(search, role):
        search.steps += 1
        if search.steps >= STEP_LIMIT:
            return False
        mark = search.trial.mark()
        _put(search, role, index, node)
        if _place_from(search, position + 1):
            return True
        _take_back(search, role, node, mark)
    return False


def _different_nodes(search: _Search, role: Role) -> list[int]:
    """Nodes that can take one more member of the role, tightest first, one of each kind."""
    table = search.trial.table
    kind = search.type_of_role.get(role.name)
    view = search.trial.view(shape_of(table.topology, search.spec, role, None))
    alike: dict[tuple[object, ...], int] = {}
    for node in search.nodes:
        node_type = table.topology.types[node]
        if not view.slots[node]:
            continue
        if role.gpus and (
            search.spec.gpu not in (None, node_type.gpu) or kind not in (None, node_type.name)
        ):
            continue
        used = tuple(search.used_by_role.get((r.name, node), 0) for r in search.spec.roles)
        if role.one_per_node and search.used_by_role.get((role.name, node), 0):
            continue
        state = (node_type.name, table.free[node], table.cpu_milli[node], table.memory_mib[node])
        key = (*state, tuple(sorted(table.other[node].items())), used if any(used) else ())
        alike.setdefault(key, node)
    return sorted(alike.values(), key=lambda n: (table.free[n].bit_count(), table.cpu_milli[n], n))


def _put(search: _Search, role: Role, index: int, node: int) -> None:
    mask = best_mask(search.trial.table.free[node], role.gpus) if role.gpus else 0
    search.trial.hold(Held(node, mask, role.resources, search.spec.exclusive))
    if search.spec.exclusive:
        search.trial.table.set_own({*search.trial.table.own, node})
    exclusive = search.spec.exclusive
    search.placed.append(PodPlace(role.name, index, node, mask, 0, role.resources, exclusive))
    count = search.used_by_role.get((role.name, node), 0)
    search.used_by_role[role.name, node] = count + 1
    if role.gpus:
        search.type_of_role.setdefault(role.name, search.trial.table.topology.types[node].name)


def _take_back(search: _Search, role: Role, node: int, mark: int) -> None:
    search.trial.roll_back(mark)
    search.placed.pop()
    search.used_by_role[role.name, node] -= 1
    if not any(p.role == role.name for p in search.placed):
        search.type_of_role.pop(role.name, None)
