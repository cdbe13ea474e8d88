"""Making room: the fewest jobs that would have to end, the nodes that would have to come back."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from scheduler.explain.answer import Change, ChangeKind, JobRef, Visible, ref_of
from scheduler.explain.engine import Edit, Engine, Freed, Lifted
from scheduler.explain.holders import Scope, Tenant, finite, those_in
from scheduler.model.ids import NodeId

OTHER_DOMAINS = 3
"""Domains beside the nearest in which room is looked for before the whole cluster."""

CORDONED = "cordoned"


@dataclass(slots=True)
class Grounds:
    """Where room is looked for.

    Attributes:
        scopes: The nearest domain first, then others of its level, then the whole cluster.
        lacks: GPUs that the nearest domain lacks.
    """

    engine: Engine
    tenants: Sequence[Tenant]
    scopes: Sequence[Scope]
    lacks: int
    _cheapest: list[Tenant] | None = None
    _is_known: bool = False

    def cheapest(self) -> list[Tenant] | None:
        """The fewest of all jobs whose end makes room; looked for once."""
        if not self._is_known:
            self._cheapest, self._is_known = _cheapest(self, self.tenants), True
        return self._cheapest


def _cheapest(grounds: Grounds, tenants: Sequence[Tenant]) -> list[Tenant] | None:
    """The fewest of the jobs, then the smallest, as far as a few ways to look for them tell."""
    found = [_in_scopes(grounds, tenants, by) for by in (_by_node, _by_size)]
    return min((set_ for set_ in found if set_ is not None), key=_cost, default=None)


def finish_changes(grounds: Grounds, visible: Visible) -> tuple[list[Change], float | None]:
    """Jobs whose end makes room: those that end soonest as declared, and the fewest.

    Returns:
        The changes, and from when the gang fits if jobs end as declared and nothing else starts.
    """
    sets = [set_] if (set_ := _soonest(grounds)) is not None else []
    start_s = _latest(sets[0]) if sets else None
    fewest = grounds.cheapest()
    if fewest is not None and fewest not in sets:
        sets.append(fewest)
    return [_change(grounds, ChangeKind.FINISH, set_, visible) for set_ in sets], start_s


def _soonest(grounds: Grounds) -> list[Tenant] | None:
    """Those of the jobs that end first, by what they declared, whose end makes room."""
    known = [t for t in grounds.tenants if t.ends_s < inf]
    known.sort(key=lambda t: (t.ends_s, t.job.uid))
    return _enough(grounds, known)


def preempt_change(grounds: Grounds, priority: int, visible: Visible) -> list[Change]:
    """The fewest whole gangs of lower priority that may be made to leave."""

    def may_leave(tenant: Tenant) -> bool:
        return tenant.job.spec.preemptible and tenant.job.spec.priority < priority

    set_ = grounds.cheapest()
    if set_ is None:
        return []  # not even all of them would be enough
    if not all(map(may_leave, set_)):
        set_ = _cheapest(grounds, [t for t in grounds.tenants if may_leave(t)])
    return [] if set_ is None else [_change(grounds, ChangeKind.PREEMPT, set_, visible)]


def uncordon_change(grounds: Grounds, usable: Sequence[bool]) -> list[Change]:
    """The fewest nodes that make room once they are uncordoned."""
    engine = grounds.engine
    for scope in grounds.scopes:
        nodes = engine.enough(lifts_in(engine, usable, scope))
        if nodes is not None:
            first = engine.others_first(nodes)
            return [Change(ChangeKind.UNCORDON, nodes=_names(engine, nodes), others_first=first)]
    return []


def both_change(
    grounds: Grounds, usable: Sequence[bool], visible: Visible, fewer_than: int | None
) -> list[Change]:
    """Nodes to uncordon and jobs to end, where there are such nodes.

    Args:
        fewer_than: GPUs that jobs alone would have to free. Nodes beside them are worth it only
            with fewer, and are looked for in the nearest domain alone. None = jobs alone are not
            enough.
    """
    engine = grounds.engine
    scopes = grounds.scopes if fewer_than is None else grounds.scopes[:-1][:1]
    for scope in scopes:
        lifts: list[Edit] = list(lifts_in(engine, usable, scope))
        found = _both(grounds, lifts, scope) if lifts else None
        if found is not None:
            freed, nodes = found
            if fewer_than is not None and sum(t.gpus for t in freed) >= fewer_than:
                return []
            change = _change(grounds, ChangeKind.FINISH_AND_UNCORDON, freed, visible)
            first = engine.others_first([*nodes, *(t.freed for t in freed)])
            return [replace(change, nodes=_names(engine, nodes), others_first=first)]
    return []


def _both(
    grounds: Grounds, lifts: Sequence[Edit], scope: Scope
) -> tuple[list[Tenant], list[Edit]] | None:
    engine = grounds.engine
    inside = those_in(grounds.tenants, scope, engine.world.topology.node_count)
    with engine.scratch():
        engine.apply_all(lifts)
        freed = _enough(grounds, _by_node(inside, scope))
        if freed is None:
            return None
        engine.apply_all(t.freed for t in freed)
        for lift in lifts:
            engine.revert(lift)
        nodes = engine.enough(lifts)
        return None if nodes is None else (freed, nodes)


def lifts_in(engine: Engine, usable: Sequence[bool], scope: Scope) -> list[Lifted]:
    """Cordoned nodes of a scope that the gang could use, those with most free GPUs first."""
    table = engine.world.table
    nodes = [n for n in range(*scope) if usable[n] and table.aside[n] == CORDONED]
    nodes.sort(key=lambda n: (-table.free[n].bit_count(), n))
    return [Lifted(n, CORDONED) for n in nodes]


Order = Callable[[Sequence[Tenant], Scope], list[Tenant]]


def _by_size(tenants: Sequence[Tenant], scope: Scope) -> list[Tenant]:
    """Those that hold most first."""
    return sorted(tenants, key=lambda t: (-t.gpus_in(scope), *_last(t)))


def _by_node(tenants: Sequence[Tenant], scope: Scope) -> list[Tenant]:
    """Whole nodes become free one after another, those of which least is in use first."""
    low, high = scope
    on_node: dict[int, list[Tenant]] = {}
    used: dict[int, int] = {}
    for tenant in tenants:
        for node, gpus in tenant.gpus_on.items():
            if low <= node < high:
                on_node.setdefault(node, []).append(tenant)
                used[node] = used.get(node, 0) + gpus
    ordered: dict[Tenant, None] = {}
    for node in sorted(on_node, key=lambda n: (len(on_node[n]), used[n], n)):
        here = on_node[node]
        if len(here) > 1:
            here.sort(key=_last)
        ordered.update(dict.fromkeys(here))
    return list(ordered)


def _last(tenant: Tenant) -> tuple[float, int, str]:
    """Ends soonest, is youngest."""
    return tenant.ends_s, -tenant.job.age, tenant.job.uid


def _in_scopes(grounds: Grounds, tenants: Sequence[Tenant], by: Order) -> list[Tenant] | None:
    """Jobs of the first scope whose end makes room, none of them needlessly."""
    nodes = grounds.engine.world.topology.node_count
    for scope in grounds.scopes:
        inside = those_in(tenants, scope, nodes)
        found = _enough(grounds, by(inside, scope))
        if found is not None:
            return found
    return None


def _enough(grounds: Grounds, ordered: Sequence[Tenant]) -> list[Tenant] | None:
    """The first of the jobs whose end makes room, without those that need not end."""
    edits = [t.freed for t in ordered]
    kept = grounds.engine.enough(edits, _lower_bound(ordered, grounds))
    if kept is None:
        return None
    uids = {edit.job.uid for edit in kept if isinstance(edit, Freed)}
    return [t for t in ordered if t.job.uid in uids]


def _lower_bound(ordered: Sequence[Tenant], grounds: Grounds) -> int:
    """How many jobs have to end at least, for all the GPUs that are lacking."""
    gpus = 0
    for number, tenant in enumerate(ordered, 1):
        gpus += sum(tenant.gpus_on.values())
        if gpus >= grounds.lacks:
            return number
    return len(ordered)


def _cost(set_: Sequence[Tenant]) -> tuple[int, int, float, list[str]]:
    return (len(set_), sum(t.gpus for t in set_), _latest(set_), [t.job.uid for t in set_])


def _latest(set_: Sequence[Tenant]) -> float:
    return max(t.ends_s for t in set_)


def _change(grounds: Grounds, kind: ChangeKind, set_: Sequence[Tenant], visible: Visible) -> Change:
    seen: list[JobRef] = [ref_of(t.job) for t in set_ if visible(t.job)]
    return Change(
        kind,
        jobs=tuple(seen),
        hidden=len(set_) - len(seen),
        gpus=sum(t.gpus for t in set_),
        ends_s=finite(_latest(set_)),
        others_first=grounds.engine.others_first(t.freed for t in set_),
    )


def _names(engine: Engine, edits: Iterable[Edit]) -> tuple[NodeId, ...]:
    nodes = engine.world.topology.nodes
    return tuple(NodeId(nodes[e.node_index].name) for e in edits if isinstance(e, Lifted))
