"""Places for lost members of a gang whose other members stay where they are.

Each lost member goes as near as can be to where it was, so what its rules and its traffic had there
is kept as far as it can be; required rules are kept against the members that stay, and against each
other where several are lost at once. Several members of a unit that was lost as a whole go into one
domain together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape, View, is_shunned
from scheduler.model.job import JOB_GROUP, JobSpec, Mode, Role, Rule
from scheduler.model.node import NodeType
from scheduler.model.placement import PodPlace
from scheduler.place.assign import best_mask
from scheduler.place.bounds import level_of, rules_of_parallel
from scheduler.place.members import shape_of
from scheduler.place.search import ask_for_parallel
from scheduler.place.uniform import required_wants
from scheduler.recover.missing import Member
from scheduler.topology.tree import Topology

DOMAINS_TRIED = 32
"""Domains tried for a unit that was lost as a whole; then the search gives up."""

Bond = tuple[int, str, int]
"""Members that must lie in one domain: level index, what keeps them together, number of the set."""

Domain = tuple[int, int]
"""Level index and index of the domain."""


@dataclass(frozen=True, slots=True)
class Former:
    """Where a lost member was.

    Attributes:
        node: Index of its node; None when that is not on the map any more, or it never had one.
        mask: Its GPUs there; tried first elsewhere too, so that they stay the same on all nodes.
    """

    node: int | None = None
    mask: int = 0


@dataclass(slots=True)
class _Want:
    member: Member
    former: Former
    shape: Shape
    bonds: list[Bond]
    role: Role | None


@dataclass(slots=True)
class _Search:
    trial: Trial
    spec: JobSpec
    spares: frozenset[int]
    fixed: dict[Bond, Domain] = field(default_factory=dict)
    taken: dict[str, set[int]] = field(default_factory=dict)
    """Role -> nodes that it has a member on; of roles that have at most one on a node."""
    placed: list[PodPlace] = field(default_factory=list)

    @property
    def topology(self) -> Topology:
        return self.trial.table.topology


def find_places(
    trial: Trial,
    spec: JobSpec,
    kept: Mapping[Member, int],
    lost: Mapping[Member, Former],
    gpus_per_pod: int,
    spares: Iterable[int] = (),
) -> list[PodPlace] | Rule | None:
    """A place for every lost member, held in the trial; the trial is as it was if there is none.

    Args:
        kept: Members that stay -> node index.
        lost: Members to be placed.
        gpus_per_pod: Of a parallel job.
        spares: Nodes to be tried before all others.

    Returns:
        The places by member; else a required rule that the members which stay do not keep as it is,
        or whose level the map has not; else None: there is no room for all of them.
    """
    bonds = _bonds_of(trial, spec, kept, lost, gpus_per_pod)
    if isinstance(bonds, Rule):
        return bonds
    search = _Search(trial, spec, frozenset(spares))
    for member, node in kept.items():
        for bond in bonds.get(member, ()):
            search.fixed[bond] = (bond[0], search.topology.place[bond[0]][node])
        search.taken.setdefault(member[0], set()).add(node)
    roles = {role.name: role for role in spec.roles}
    wants = [
        _Want(
            member,
            former,
            _shape_for(trial, spec, roles.get(member[0]), kept, member, former, gpus_per_pod),
            sorted(bonds.get(member, ())),
            roles.get(member[0]),
        )
        for member, former in sorted(lost.items())
    ]
    mark = trial.mark()
    trial.table.set_own(kept.values() if spec.exclusive else ())
    found = all(_place_one(search, want, wants) for want in wants)
    trial.table.set_own(())
    if not found:
        trial.roll_back(mark)
        return None
    order = {role.name: i for i, role in enumerate(spec.roles)}
    return sorted(search.placed, key=lambda p: (order.get(p.role, 0), p.index))


def spec_of_lost(
    trial: Trial,
    spec: JobSpec,
    kept: Mapping[Member, int],
    lost: Mapping[Member, Former],
    gpus_per_pod: int,
) -> JobSpec | None:
    """Lost members as a gang of their own, with the nodes that they may go to.

    None where they are not alike, or rules send them to different domains: then nobody is made to
    leave for them.
    """
    bonds = _bonds_of(trial, spec, kept, lost, gpus_per_pod)
    if isinstance(bonds, Rule) or len({role for role, _ in lost}) != 1:
        return None
    search = _Search(trial, spec, frozenset())
    for member, node in kept.items():
        for bond in bonds.get(member, ()):
            search.fixed[bond] = (bond[0], search.topology.place[bond[0]][node])
    name = next(iter(lost))[0]
    role = next((r for r in spec.roles if r.name == name), None)
    scopes: set[Domain | None | Literal["none"]] = set()
    for member, former in lost.items():
        want = _Want(member, former, Shape(), sorted(bonds.get(member, ())), role)
        if any(bond not in search.fixed for bond in want.bonds):
            return None
        scopes.add(_scope_of(search, want))
    if len(scopes) != 1:
        return None
    (scope,) = scopes
    if scope == "none":
        return None
    alone = role is None or role.one_per_node
    own = {node for (of, _), node in kept.items() if of == name} if alone else set()
    kind = _type_of(trial.table.topology, [*kept.values(), *(f.node for f in lost.values())])
    nodes = _nodes_in(search, scope, own, kind)
    member_role = Role(
        name="lost",
        replicas=len(lost),
        min=len(lost),
        gpus=gpus_per_pod if role is None else role.gpus,
        resources=spec.resources_per_pod if role is None else role.resources,
        one_per_node=alone,
    )
    return replace(
        spec,
        parallelism=None,
        roles=(member_role,),
        rules=(),
        nodes=nodes,
        dp_sizes=(),
        segment=None,
    )


def _nodes_in(
    search: _Search, scope: Domain | None, but: set[int], kind: NodeType | None
) -> tuple[str, ...]:
    """Names of the nodes in a domain that the gang may use and does not."""
    topology, allowed = search.topology, set(search.spec.nodes)
    lo, hi = 0, topology.node_count
    if scope is not None:
        level = topology.levels[scope[0]]
        lo, hi = level.node_lo[scope[1]], level.node_hi[scope[1]]
    return tuple(
        topology.nodes[node].name
        for node in range(lo, hi)
        if node not in but
        and (not allowed or topology.nodes[node].name in allowed)
        and (kind is None or topology.types[node].name == kind.name)
    )


# -- what has to lie together ---------------------------------------------------------------------


def _bonds_of(
    trial: Trial,
    spec: JobSpec,
    kept: Mapping[Member, int],
    lost: Mapping[Member, Former],
    gpus_per_pod: int,
) -> dict[Member, set[Bond]] | Rule:
    """The sets of members that required rules keep together, by member."""
    if spec.parallelism is not None:
        return _bonds_of_parallel(trial, spec, kept, lost, gpus_per_pod)
    topology = trial.table.topology
    out: dict[Member, set[Bond]] = {}
    members = [*kept, *lost]
    for role in (None, *spec.roles):
        rules = spec.rules if role is None else role.rules
        parts = role.parts.rules if role is not None and role.parts is not None else ()
        for rule in (*rules, *parts):
            if rule.mode is not Mode.REQUIRED:
                continue
            level = level_of(rule.within, topology, None)
            if level is None:
                return rule
            for member in members:
                number = _number_in(rule, role, member, in_parts=rule in parts)
                if number is not None:
                    name = rule.group if role is None else role.name
                    out.setdefault(member, set()).add((level, name, number))
    return out


def _number_in(rule: Rule, role: Role | None, member: Member, *, in_parts: bool) -> int | None:
    """The number of the set that a rule puts a member in; None when it is not about it."""
    if role is None:
        return 0 if rule.group in (JOB_GROUP, member[0]) else None
    if role.name != member[0]:
        return None
    if not in_parts or role.parts is None:
        return -1
    return member[1] // role.parts.size


def _bonds_of_parallel(
    trial: Trial,
    spec: JobSpec,
    kept: Mapping[Member, int],
    lost: Mapping[Member, Former],
    gpus_per_pod: int,
) -> dict[Member, set[Bond]] | Rule:
    topology = trial.table.topology
    kind = _type_of(topology, [*kept.values(), *(f.node for f in lost.values())])
    sizes = spec.sizes_at((len(kept) + len(lost)) * gpus_per_pod)
    if kind is None or sizes is None:
        return {}
    sized = replace(spec, parallelism=sizes, gpus_per_pod=gpus_per_pod, dp_sizes=())
    ask = ask_for_parallel(trial, sized, sizes, kind)
    wants = required_wants(ask)
    if isinstance(wants, Rule):
        return wants
    out: dict[Member, set[Bond]] = {}
    closed: frozenset[str] = frozenset()
    for level in sorted(wants, reverse=True):
        closed = closed | wants[level]
        if ask.units.unit(closed) == 1 and JOB_GROUP not in closed:
            continue
        labels = ask.units.unit_labels(closed).tolist()
        for member in (*kept, *lost):
            out.setdefault(member, set()).add((level, "", labels[member[1]]))
    return out


def _type_of(topology: Topology, nodes: Iterable[int | None]) -> NodeType | None:
    return next((topology.types[node] for node in nodes if node is not None), None)


def _shape_for(
    trial: Trial,
    spec: JobSpec,
    role: Role | None,
    kept: Mapping[Member, int],
    member: Member,
    former: Former,
    gpus_per_pod: int,
) -> Shape:
    """What a lost member asks of its node: the node type of its fellows."""
    topology = trial.table.topology
    fellows = [node for (name, _), node in kept.items() if name == member[0]]
    kind = _type_of(topology, [*fellows[:1], former.node])
    if role is not None:
        return shape_of(topology, spec, role, kind if role.gpus else None)
    required = [rule for rule in rules_of_parallel(spec) if rule.mode is Mode.REQUIRED]
    named = {level_of(rule.within, topology, kind) for rule in required}
    return Shape(
        node_type=None if kind is None else kind.name,
        gpus=gpus_per_pod,
        resources=spec.resources_per_pod,
        single=True,
        labels=tuple(sorted(spec.labels.items())),
        tolerations=spec.tolerations,
        nodes=frozenset(spec.nodes),
        named=tuple(sorted(x for x in named if x is not None and topology.blanks[x])),
        dead_allowed=0 if spec.rails_required else None,
        exclusive=spec.exclusive,
    )


# -- one member after the other -------------------------------------------------------------------


def _place_one(search: _Search, want: _Want, all_wants: Sequence[_Want]) -> bool:
    """Place one member in the trial; whether there is a place."""
    scope = _scope_of(search, want)
    if scope == "none":
        return False
    members = sum(w.member[0] == want.member[0] for w in all_wants)
    members += len(search.taken.get(want.member[0], ()))
    view = search.trial.view(want.shape.for_gang_of(search.trial.table, members))
    for inner in _scopes_for(search, view, want, all_wants, scope):
        node = _node_in(search, view, want, inner)
        if node is not None:
            _take(search, view, want, node)
            return True
    return False


def _scope_of(search: _Search, want: _Want) -> Domain | None | Literal["none"]:
    """The domain that rules leave to a member, None for any; "none" when they contradict."""
    innermost: Domain | None = None
    place = search.topology.place
    for bond in want.bonds:
        found = search.fixed.get(bond)
        if found is None:
            continue
        if search.topology.levels[found[0]].is_blank(found[1]):
            return "none"
        if innermost is not None:
            node = search.topology.levels[found[0]].node_lo[found[1]]
            if place[innermost[0]][node] != innermost[1]:
                return "none"
        innermost = found
    return innermost


def _scopes_for(
    search: _Search,
    view: View,
    want: _Want,
    all_wants: Sequence[_Want],
    scope: Domain | None,
) -> Iterator[Domain | None]:
    """Domains in which the member may be placed, best first, so that its fellows fit as well."""
    free = [bond for bond in want.bonds if bond not in search.fixed]
    free = [bond for bond in free if scope is None or bond[0] > scope[0]]
    if not free:
        yield scope
        return
    # The innermost set decides; those around it hold more of the gang, so they are looked at too.
    bond = free[-1]
    sizes = {b: sum(b in w.bonds and w.shape == want.shape for w in all_wants) for b in free}
    topology, level = search.topology, bond[0]
    lo, hi = (
        (0, len(topology.levels[level].names)) if scope is None else topology.inside(*scope, level)
    )
    near = {topology.place[level][node] for node in _anchors(search, want)}
    counts = view.counts

    def has_room(domain: int) -> bool:
        if topology.levels[level].is_blank(domain):
            return False
        node = topology.levels[level].node_lo[domain]
        return all(counts[b[0]][topology.place[b[0]][node]] >= sizes[b] for b in free)

    good = [domain for domain in range(lo, hi) if has_room(domain)]
    good.sort(key=lambda d: (d not in near, counts[level][d], d))
    for domain in good[:DOMAINS_TRIED]:
        yield (level, domain)


def _anchors(search: _Search, want: _Want) -> list[int]:
    """Nodes that it should be near: where it was, then where its fellows went."""
    own = [] if want.former.node is None else [want.former.node]
    return own + [place.node_index for place in search.placed[-1:]]


def _node_in(search: _Search, view: View, want: _Want, scope: Domain | None) -> int | None:
    """The node for a member: spares first, then the nearest, then the tightest."""
    topology = search.topology
    alone = want.role is None or want.role.one_per_node
    barred = search.taken.get(want.member[0], set()) if alone else set()
    lo, hi = (0, topology.node_count)
    if scope is not None:
        lo, hi = (
            topology.levels[scope[0]].node_lo[scope[1]],
            topology.levels[scope[0]].node_hi[scope[1]],
        )
    slots, mask, tolerations = view.slots, want.former.mask, search.spec.tolerations

    def key(node: int) -> tuple[bool, bool, int, int]:
        free = view.free(node)
        shunned = is_shunned(topology, node, tolerations)
        return (shunned, mask & free != mask, free.bit_count(), node)

    def best(nodes: Iterable[int]) -> int | None:
        return min((n for n in nodes if slots[n] and n not in barred), key=key, default=None)

    anchors = _anchors(search, want)
    if search.spares:
        near = [n for n in sorted(search.spares) if lo <= n < hi]
        for level in range(len(topology.levels) - 1, -1, -1):
            homes = {topology.place[level][anchor] for anchor in anchors}
            found = best(n for n in near if topology.place[level][n] in homes)
            if found is not None:
                return found
        found = best(near)
        if found is not None:
            return found
    outermost = -1 if scope is None else scope[0] - 1
    for level in range(len(topology.levels) - 1, outermost, -1):
        for anchor in anchors:
            domain = topology.place[level][anchor]
            first, last = (
                topology.levels[level].node_lo[domain],
                topology.levels[level].node_hi[domain],
            )
            if first >= lo and last <= hi and view.counts[level][domain]:
                found = best(range(first, last))
                if found is not None:
                    return found
    return best(range(lo, hi))


def _take(search: _Search, view: View, want: _Want, node: int) -> None:
    free, gpus = view.free(node), want.shape.gpus
    mask = want.former.mask
    if not gpus:
        mask = 0
    elif mask.bit_count() != gpus or mask & free != mask:
        mask = best_mask(free, gpus)
    role, index = want.member
    spec = search.spec
    rank = index * gpus if want.role is None else 0
    place = PodPlace(role, index, node, mask, rank, want.shape.resources, spec.exclusive)
    search.trial.hold_places((place,))
    if spec.exclusive:
        search.trial.table.set_own({*search.trial.table.own, node})
    search.placed.append(place)
    search.taken.setdefault(role, set()).add(node)
    for bond in want.bonds:
        search.fixed.setdefault(bond, (bond[0], search.topology.place[bond[0]][node]))
