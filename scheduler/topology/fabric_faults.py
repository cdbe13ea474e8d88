"""What a broken link, NIC or switch takes from each node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.topology.fabric import Fabric, Nic, Trunk, assemble
from scheduler.topology.natural import natural_key


@dataclass(frozen=True, slots=True)
class Faults:
    """Parts of a fabric that are down.

    Attributes:
        switches: By name.
        nics: (node, NIC name).
        links: (switch, switch) or (node, switch) -> cables that are down; more than there are means
            all. Cables of a node are taken in the order of its rails.
    """

    switches: frozenset[str] = frozenset()
    nics: frozenset[tuple[str, str]] = frozenset()
    links: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """What a node has lost.

    Attributes:
        rails: Rails without a working NIC, cable or leaf switch, ascending.
        confined: Rails that reach the nodes of their leaf switch still but not those beyond.
    """

    rails: tuple[int, ...] = ()
    confined: tuple[int, ...] = ()


def lost_rails(fabric: Fabric, faults: Faults) -> dict[str, Lost]:
    """What each node has lost, by name; nodes that lost nothing are absent."""
    broken = without(fabric, faults)
    cut_off = _cut_off(fabric, broken)
    found: dict[str, Lost] = {}
    for node in sorted(fabric.nics, key=natural_key):
        left = broken.nics.get(node, ())
        alive = {nic.rail for nic in left}
        rails = sorted({nic.rail for nic in fabric.nics[node]} - alive)
        open_rails = {nic.rail for nic in left if nic.switch not in cut_off}
        confined = sorted({nic.rail for nic in left if nic.switch in cut_off} - open_rails)
        if rails or confined:
            found[node] = Lost(tuple(rails), tuple(confined))
    return found


def without(fabric: Fabric, faults: Faults) -> Fabric:
    """What is left of a fabric."""
    nics = [nic for found in fabric.nics.values() for nic in _working(found, faults)]
    trunks = []
    for trunk in fabric.trunks():
        down = _down(faults, trunk.a, trunk.b)
        if not {trunk.a, trunk.b} & faults.switches and len(trunk.gbps) > down:
            trunks.append(Trunk(trunk.a, trunk.b, trunk.gbps[down:]))
    return assemble(
        nics,
        trunks,
        switches=[name for name in fabric.switches if name not in faults.switches],
        nodes=fabric.nics,
        tier=fabric.tier,
    )


def _working(nics: tuple[Nic, ...], faults: Faults) -> list[Nic]:
    down: dict[str, int] = {}
    working = []
    for nic in nics:
        left = down.setdefault(nic.switch, _down(faults, nic.node, nic.switch))
        if left:
            down[nic.switch] = left - 1
        elif nic.switch not in faults.switches and (nic.node, nic.name) not in faults.nics:
            working.append(nic)
    return working


def _down(faults: Faults, a: str, b: str) -> int:
    return max(0, faults.links.get((a, b), 0)) + max(0, faults.links.get((b, a), 0))


def _cut_off(before: Fabric, after: Fabric) -> set[str]:
    """Leaf switches that reached the top tier of their side of the fabric, and no longer do."""
    tops_before, tops_after = _reach(before), _reach(after)
    return {switch for switch, top in tops_after.items() if top < tops_before[switch]}


def _reach(fabric: Fabric) -> dict[str, int]:
    """The highest tier that each leaf switch reaches by going up alone."""
    reach = dict(fabric.tier)
    for switch in sorted(fabric.tier, key=lambda name: -fabric.tier[name]):
        for above in fabric.above(switch):
            reach[switch] = max(reach[switch], reach[above])
    return {switch: top for switch, top in reach.items() if fabric.tier[switch] == 1}
