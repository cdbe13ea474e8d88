"""Rail groups and levels, found in how the NICs of the nodes spread over the switches.

A rail group is a set of leaf switches that share their nodes: NIC 0 of all of them on one switch,
NIC 1 on the next. Groups that share the switches above them form a domain of the next level, and
so on up. What a few cables say against the many (one node across two groups) joins no groups.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx

from scheduler.topology.fabric import Fabric, Nic, nic_name_key, with_rails
from scheduler.topology.natural import natural_key

SHARED_NODES_MIN = 0.5
"""Two leaf switches are in one rail group when they share this part of all nodes on either: fewer
is a few nodes plugged in wrongly, or a storage switch that every group reaches."""

SHARED_SWITCHES_MIN = 0.5
"""A domain has the parent that owns at least this part of the switches above it."""

_NUMBERED = re.compile(r"(\d+)")
_DIGITS = "0123456789"

Slot = tuple[str, int]
"""The k-th NIC of each node on one leaf switch: (switch, k)."""


@dataclass(frozen=True, slots=True)
class RailGroup:
    """The nodes that share a set of leaf switches.

    Attributes:
        leaves: The switches, in natural order.
        nodes: Those with most of their NICs here, in natural order.
        rail_of: Rail of each slot of each switch; rails of different groups that serve NICs of
            the same name have the same number.
        nic_names: The name that most nodes give to the NIC in a slot.
    """

    leaves: tuple[str, ...]
    nodes: tuple[str, ...]
    rail_of: Mapping[Slot, int]
    nic_names: Mapping[Slot, str]

    @property
    def rails(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.rail_of.values())))


@dataclass(frozen=True, slots=True)
class FoundLevels:
    """What a fabric's cables say of its levels.

    Attributes:
        fabric: With the rail of every NIC.
        groups: The domains of the innermost level, by name.
        places: For each level, innermost first, the domain of each node; a node that is plugged
            into no leaf switch is absent.
        switches: For each level, innermost first, the switches of each domain.
    """

    fabric: Fabric
    groups: Mapping[str, RailGroup]
    places: tuple[Mapping[str, str], ...]
    switches: tuple[Mapping[str, tuple[str, ...]], ...]


def find_levels(fabric: Fabric) -> FoundLevels:
    """The rail groups and the levels above them; none for a fabric without nodes."""
    groups = _rail_groups(fabric)
    names = _names([group.leaves for group in groups])
    by_name = dict(zip(names, groups, strict=True))
    rail_of = {
        (nic.node, nic.name): rail for group in groups for nic, rail in _nic_rails(fabric, group)
    }
    place = {node: name for name, group in by_name.items() for node in group.nodes}
    switches: Mapping[str, tuple[str, ...]] = {n: g.leaves for n, g in by_name.items()}
    places, rows = [place], [switches]
    for tier in range(2, fabric.tier_count + 1):
        parent_of, switches = _parents(fabric, switches, tier)
        if not switches:
            break
        above = {n: parent_of[d] for n, d in places[-1].items() if d in parent_of}
        places.append(above)
        rows.append(switches)
    return FoundLevels(with_rails(fabric, rail_of), by_name, tuple(places), tuple(rows))


def _rail_groups(fabric: Fabric) -> list[RailGroup]:
    """In the natural order of their leaves."""
    leaves = [switch for switch in fabric.switches if fabric.tier[switch] == 1]
    on_leaf = {leaf: set(fabric.nodes_of(leaf)) for leaf in leaves}
    sets = _joined(leaves, _linked_leaves(fabric, on_leaf))
    home = _homes(fabric, sets)
    slots = [_slots(fabric, group, home) for group in sets]
    rails = _number_rails(slots)
    members: dict[int, list[str]] = defaultdict(list)
    for node, at in home.items():
        members[at].append(node)
    return [
        RailGroup(
            leaves=group,
            nodes=tuple(sorted(members[index], key=natural_key)),
            rail_of=rails[index],
            nic_names=slots[index],
        )
        for index, group in enumerate(sets)
    ]


def _linked_leaves(fabric: Fabric, on_leaf: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Pairs of leaves that share enough of their nodes."""
    shared: Counter[tuple[str, str]] = Counter()
    for nics in fabric.nics.values():
        plugged = sorted({nic.switch for nic in nics if nic.switch in on_leaf})
        shared.update(combinations(plugged, 2))
    return [
        (a, b)
        for (a, b), count in shared.items()
        if count >= SHARED_NODES_MIN * (len(on_leaf[a]) + len(on_leaf[b]) - count)
    ]


def _joined(items: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Items joined by pairs, each set and their list in the order of the items."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(items)
    graph.add_edges_from(pairs)
    order = {item: index for index, item in enumerate(items)}
    sets = [tuple(sorted(found, key=order.__getitem__)) for found in nx.connected_components(graph)]
    return sorted(sets, key=lambda found: order[found[0]])


def _homes(fabric: Fabric, sets: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """The group that holds most NICs of each node; the first of several."""
    group_of = {leaf: index for index, group in enumerate(sets) for leaf in group}
    homes: dict[str, int] = {}
    for node, nics in fabric.nics.items():
        counts = Counter(group_of[nic.switch] for nic in nics if nic.switch in group_of)
        if counts:
            homes[node] = min(counts, key=lambda group: (-counts[group], group))
    return homes


def _slots(fabric: Fabric, group: Sequence[str], home: Mapping[str, int]) -> dict[Slot, str]:
    """The slots of a group and the usual name of the NIC in each.

    A switch has as many slots as most of its nodes have NICs on it.
    """
    leaves = set(group)
    nic_counts: dict[str, Counter[int]] = defaultdict(Counter)
    names: dict[Slot, Counter[str]] = defaultdict(Counter)
    for node in {node for leaf in group for node in fabric.nodes_of(leaf)} & home.keys():
        for leaf, nics in _by_leaf(fabric.nics[node], leaves).items():
            nic_counts[leaf][len(nics)] += 1
            for k, nic in enumerate(nics):
                names[leaf, k][nic.name] += 1
    return {
        (leaf, k): min(names[leaf, k], key=lambda name: (-names[leaf, k][name], natural_key(name)))
        for leaf in group
        for k in range(min(nic_counts[leaf], key=lambda n: (-nic_counts[leaf][n], n)))
    }


def _by_leaf(nics: Iterable[Nic], leaves: set[str]) -> dict[str, list[Nic]]:
    """A node's NICs on each of these switches, in natural order."""
    found: dict[str, list[Nic]] = defaultdict(list)
    for nic in nics:
        if nic.switch in leaves:
            found[nic.switch].append(nic)
    return {s: sorted(on, key=lambda nic: nic_name_key(nic.name)) for s, on in found.items()}


def _number_rails(groups: Sequence[Mapping[Slot, str]]) -> list[dict[Slot, int]]:
    """Number the rails of all groups so that NICs of one name are on one rail everywhere.

    A group that lacks a switch then lacks that rail, and the others keep their numbers. Names say
    nothing where two slots of a group have the same: those are numbered by their order alone.
    """
    families = [_family(slots) for slots in groups]
    known: dict[str, set[str]] = defaultdict(set)
    for slots, family in zip(groups, families, strict=True):
        if family is not None:
            known[family].update(slots.values())
    number = {
        family: {name: rail for rail, name in enumerate(sorted(names, key=natural_key))}
        for family, names in known.items()
    }
    return [
        {slot: number[family][name] for slot, name in slots.items()}
        if family is not None
        else {slot: rail for rail, slot in enumerate(sorted(slots, key=_slot_order(slots)))}
        for slots, family in zip(groups, families, strict=True)
    ]


def _slot_order(slots: Mapping[Slot, str]) -> Callable[[Slot], tuple[object, object, int]]:
    return lambda slot: (natural_key(slots[slot]), natural_key(slot[0]), slot[1])


def _family(slots: Mapping[Slot, str]) -> str | None:
    """The NIC names of a group without their numbers; None if names cannot tell its slots apart."""
    stems = {_NUMBERED.sub("", name) for name in slots.values()}
    return stems.pop() if len(stems) == 1 and len(set(slots.values())) == len(slots) else None


def _nic_rails(fabric: Fabric, group: RailGroup) -> Iterable[tuple[Nic, int]]:
    """The rail of each NIC of the group's nodes; one too many on a switch is on its last rail."""
    slot_counts = Counter(leaf for leaf, _ in group.rail_of)
    for node in group.nodes:
        for leaf, nics in _by_leaf(fabric.nics[node], set(group.leaves)).items():
            for k, nic in enumerate(nics):
                yield nic, group.rail_of[leaf, min(k, slot_counts[leaf] - 1)]


def _parents(
    fabric: Fabric, domains: Mapping[str, tuple[str, ...]], tier: int
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Domains of one level -> the domain above each, and the switches of those."""
    above = {
        domain: {up for switch in switches for up in fabric.above(switch)}
        for domain, switches in domains.items()
    }
    owner: dict[str, int] = {}
    sets: list[list[str]] = []
    for domain in (domain for domain in domains if above[domain]):
        counts = Counter(owner[switch] for switch in above[domain] if switch in owner)
        index = min(counts, key=lambda found: (-counts[found], found), default=len(sets))
        if counts[index] < SHARED_SWITCHES_MIN * len(above[domain]):
            index = len(sets)
            sets.append([])
        sets[index].append(domain)
        for switch in above[domain]:
            owner.setdefault(switch, index)
    rows = [
        tuple(sorted(set().union(*(above[d] for d in found)), key=natural_key)) for found in sets
    ]
    names = _names(rows)
    parent_of = {d: name for found, name in zip(sets, names, strict=True) for d in found}
    return parent_of, dict(zip(names, rows, strict=True))


def _names(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A name for each set of switches: the switch's own, or what their names have in common.

    `leaf-1-a`, `leaf-2-a` -> `leaf-x-a`. Where that is no name or not unique: the first and how
    many more.
    """
    names = [_common_name(row) for row in rows]
    counts = Counter(names)
    return [
        name if name and counts[name] == 1 else f"{row[0]}+{len(row) - 1}"
        for name, row in zip(names, rows, strict=True)
    ]


def _common_name(row: Sequence[str]) -> str:
    """What the names of several switches have in common, `x` where they differ; "" if nothing."""
    if len(row) == 1:
        return row[0]
    head = _common_head(row)
    rest = [name[len(head) :][::-1] for name in row]
    head, tail = head.rstrip(_DIGITS), _common_head(rest)[::-1].lstrip(_DIGITS)
    return f"{head}x{tail}" if any(c.isalpha() for c in head + tail) else ""


def _common_head(names: Sequence[str]) -> str:
    low, high = min(names), max(names)
    size = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:size]
