"""What looks wrong with a fabric or a map: for a person to look at, never a reason to refuse it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import networkx as nx

from scheduler.topology.fabric import Fabric, Nic, Part
from scheduler.topology.fabric_groups import FoundLevels, RailGroup
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed
from scheduler.topology.tree import Topology


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that looks wrong.

    Attributes:
        code: What kind of thing, e.g. `two_on_one_rail`.
        subject: The node, switch or domain it is about.
        message: What was found and what would be expected.
    """

    code: str
    subject: str
    message: str


def check_fabric(found: FoundLevels) -> list[Finding]:
    """Everything that looks wrong with a fabric's cables, nodes first."""
    fabric = found.fabric
    return [
        *_nodes_without_leaf(fabric),
        *(f for name, group in found.groups.items() for f in _group_findings(fabric, name, group)),
        *_missing_rails(found.groups),
        *_uplinks(fabric),
        *_slow_cables(fabric),
        *_useless_switches(fabric),
        *_side_links(fabric),
        *_islands(fabric),
    ]


def _nodes_without_leaf(fabric: Fabric) -> Iterator[Finding]:
    for node in sorted(fabric.nics, key=natural_key):
        tiers = {fabric.tier[nic.switch] for nic in fabric.nics[node]}
        if not tiers:
            yield Finding("no_link", node, f"node '{node}' has no link to any switch")
        elif 1 not in tiers:
            switches = sorted({nic.switch for nic in fabric.nics[node]}, key=natural_key)
            yield Finding(
                "on_spine",
                node,
                f"node '{node}' is plugged into {listed('switch', switches)} only, "
                f"which joins leaf switches; it has no place in the levels",
            )


def _group_findings(fabric: Fabric, name: str, group: RailGroup) -> Iterator[Finding]:
    """Nodes that are not plugged in as the rest of their rail group is."""
    usual_leaf = {nic_name: leaf for (leaf, _), nic_name in group.nic_names.items()}
    for node in group.nodes:
        nics = fabric.nics[node]
        inside = [nic for nic in nics if nic.switch in group.leaves]
        yield from _outside(node, name, nics, group)
        yield from _two_on_one_rail(node, inside)
        yield from _crossed(node, inside, usual_leaf)
        missing = sorted(set(group.rails) - {nic.rail for nic in inside})
        if missing:
            yield Finding(
                "missing_rail",
                node,
                f"node '{node}' has no working link on {_rails(missing)} of '{name}'",
            )


def _outside(node: str, name: str, nics: Iterable[Nic], group: RailGroup) -> Iterator[Finding]:
    for nic in nics:
        if nic.switch not in group.leaves:
            yield Finding(
                "outside_group",
                node,
                f"node '{node}' is in '{name}', but its NIC '{nic.name}' is plugged into "
                f"'{nic.switch}'",
            )


def _two_on_one_rail(node: str, nics: Iterable[Nic]) -> Iterator[Finding]:
    on_rail: dict[int, list[Nic]] = defaultdict(list)
    for nic in nics:
        on_rail[nic.rail].append(nic)
    for rail, found in sorted(on_rail.items()):
        if len(found) > 1:
            where = " and ".join(f"'{nic.name}' on '{nic.switch}'" for nic in found)
            yield Finding(
                "two_on_one_rail",
                node,
                f"node '{node}' has {len(found)} NICs on rail {rail}: {where}; one is expected",
            )


def _crossed(node: str, nics: Iterable[Nic], usual_leaf: Mapping[str, str]) -> Iterator[Finding]:
    for nic in nics:
        usual = usual_leaf.get(nic.name, nic.switch)
        if usual != nic.switch:
            yield Finding(
                "crossed",
                node,
                f"NIC '{nic.name}' of node '{node}' is plugged into '{nic.switch}'; on other nodes "
                f"that NIC is on '{usual}'",
            )


def _missing_rails(groups: Mapping[str, RailGroup]) -> Iterator[Finding]:
    known = {rail for group in groups.values() for rail in group.rails}
    for name, group in groups.items():
        missing = sorted(known - set(group.rails))
        if missing and group.nodes:
            yield Finding(
                "no_switch_of_rail", name, f"'{name}' has no leaf switch for {_rails(missing)}"
            )


def _rails(rails: list[int]) -> str:
    return f"rail{'s' if len(rails) > 1 else ''} {', '.join(map(str, rails))}"


def _uplinks(fabric: Fabric) -> Iterator[Finding]:
    """Switches with fewer cables upwards than most of their tier."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    last = fabric.tier_count
    for switch in fabric.switches:
        tier = fabric.tier[switch]
        if 0 < tier < last:
            up = fabric.above(switch)
            counts[tier][switch] = sum(len(fabric.trunk(switch, other)) for other in up)
    for of_tier in counts.values():
        usual = _most_common(of_tier.values())
        for switch, count in of_tier.items():
            if count < usual:
                yield Finding(
                    "uplinks",
                    switch,
                    f"switch '{switch}' has {count} uplinks; most of its tier have {usual}",
                )


def _most_common(values: Iterable[float]) -> float:
    """The most frequent value; the largest of several."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value))


def _slow_cables(fabric: Fabric) -> Iterator[Finding]:
    nics = [nic for found in fabric.nics.values() for nic in found]
    if nics:
        usual = _most_common(nic.gbps for nic in nics)
        for nic in nics:
            if nic.gbps < usual:
                yield Finding(
                    "slow_link",
                    nic.node,
                    f"NIC '{nic.name}' of node '{nic.node}' has a link of {nic.gbps:g} Gbit/s to "
                    f"'{nic.switch}'; most have {usual:g}",
                )
    trunks = list(fabric.trunks())
    if trunks:
        usual = _most_common(gbps for trunk in trunks for gbps in trunk.gbps)
        for trunk in trunks:
            slow = [gbps for gbps in trunk.gbps if gbps < usual]
            if slow:
                yield Finding(
                    "slow_link",
                    trunk.a,
                    f"{len(slow)} of {len(trunk.gbps)} cables between '{trunk.a}' and '{trunk.b}' "
                    f"have {min(slow):g} Gbit/s; most have {usual:g}",
                )


def _useless_switches(fabric: Fabric) -> Iterator[Finding]:
    for switch in fabric.switches:
        if not fabric.tier[switch]:
            yield Finding("no_nodes", switch, f"no node can be reached through switch '{switch}'")
        elif fabric.tier[switch] > 1 and len(fabric.neighbours(switch)) == 1:
            (only,) = fabric.neighbours(switch)
            yield Finding("dead_end", switch, f"switch '{switch}' joins nothing but '{only}'")


def _side_links(fabric: Fabric) -> Iterator[Finding]:
    for trunk in fabric.trunks():
        tier = fabric.tier[trunk.a]
        if tier and tier == fabric.tier[trunk.b]:
            yield Finding(
                "side_link",
                trunk.a,
                f"switches '{trunk.a}' and '{trunk.b}' are cabled to each other, and both are "
                f"{tier} hops from their nodes; such links make no level",
            )


def _islands(fabric: Fabric) -> Iterator[Finding]:
    """Parts of the fabric that cannot reach the largest."""
    parts = [
        sorted((name for part, name in found if part == Part.NODE), key=natural_key)
        for found in nx.connected_components(fabric.graph)
    ]
    with_nodes = sorted(
        (part for part in parts if part), key=lambda p: (-len(p), natural_key(p[0]))
    )
    for island in with_nodes[1:]:
        yield Finding("island", island[0], f"{listed('node', island)} cannot reach the other nodes")


def mixed_types(topology: Topology, level_name: str) -> list[Finding]:
    """Domains of a level, racks say, that hold nodes of several types.

    Raises:
        KeyError: If the topology has no such level.
    """
    level = topology.levels[topology.level_index[level_name]]
    findings = []
    for domain, name in enumerate(level.names):
        span = range(level.node_lo[domain], level.node_hi[domain])
        types = Counter(topology.types[index].name for index in span)
        if name and len(types) > 1:
            held = ", ".join(f"{count} of '{of}'" for of, count in sorted(types.items()))
            message = f"{level_name} '{name}' holds nodes of {len(types)} types: {held}"
            findings.append(Finding("mixed_types", name, message))
    return findings
