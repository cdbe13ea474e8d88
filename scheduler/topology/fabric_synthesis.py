"""The fabric that a topology's levels imply, for clusters whose cables nobody has listed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.model.node import NODE_LEVEL, FabricLevel, NodeType
from scheduler.topology.fabric import Fabric, Narrowest, Nic, Trunk, assemble, narrowest
from scheduler.topology.tree import Topology

NIC_GBPS_DEFAULT = 100.0
"""Where neither the node type nor the inventory names a bandwidth. Only ratios are right then."""


@dataclass(frozen=True, slots=True)
class _Port:
    """A place to plug something into: a switch and what comes from below it."""

    switch: str
    down_gbps: float
    cables: int


def synthesise(topology: Topology, switch_levels: Sequence[str] = ()) -> Fabric:
    """A fabric with one tier of switches per level: a switch per rail in the innermost, one above.

    Args:
        switch_levels: Levels whose domains are joined by switches; by default those that the
            inventory's fabric names, else all that are wider than a scale-up domain.
    """
    levels = _switch_levels(topology, switch_levels)
    nics = list(_nics(topology, levels[-1])) if levels else []
    return assemble(
        nics, _trunks(topology, levels, nics), nodes=[node.name for node in topology.nodes]
    )


def _switch_levels(topology: Topology, wanted: Sequence[str]) -> list[int]:
    """Positions of the levels, outermost first."""
    names = topology.level_names
    chosen = set(wanted) or set(topology.fabric)
    if chosen:
        return [depth for depth, name in enumerate(names[:-1]) if name in chosen]
    scale_up = {topology.scale_up_level(node_type) for node_type in set(topology.types)}
    inner = min((topology.level_index[name] for name in scale_up), default=len(names) - 1)
    # A cluster that is one scale-up domain has its switches there.
    return list(range(inner)) or list(range(len(names) - 1))


def _nics(topology: Topology, inner: int) -> Iterator[Nic]:
    """The NICs of all nodes; those of a node with fewer rails than others are on the first."""
    level, fabric = topology.levels[inner], topology.fabric.get(topology.level_names[inner])
    for domain in range(len(level.names)):
        span = range(level.node_lo[domain], level.node_hi[domain])
        has_rails = any(topology.types[index].rails > 1 for index in span)
        leaf = _switch_name(topology, inner, domain)
        for index in span:
            node, node_type = topology.nodes[index], topology.types[index]
            gbps = nic_gbps(node_type, fabric)
            for rail in range(max(1, node_type.rails)):
                switch = f"{leaf}/rail-{rail}" if has_rails else leaf
                yield Nic(node.name, f"nic-{rail}", switch, gbps, rail)


def nic_gbps(node_type: NodeType, level: FabricLevel | None) -> float:
    """One NIC's bandwidth: the type's own, else what the level gives each GPU, else a default."""
    if node_type.nic_gbps > 0:
        return node_type.nic_gbps
    if level is not None:
        return level.gbps_per_gpu * max(1, node_type.gpus) / max(1, node_type.rails)
    return NIC_GBPS_DEFAULT


def _switch_name(topology: Topology, depth: int, domain: int) -> str:
    """Unique in the fabric: names are unique in their level only, and blank domains have none."""
    level = topology.levels[depth]
    name = level.names[domain] or f"of {topology.nodes[level.node_lo[domain]].name}"
    return f"{level.name} {name}"


def _trunks(topology: Topology, levels: Sequence[int], nics: Sequence[Nic]) -> Iterator[Trunk]:
    """From every switch to the one above it, tier by tier."""
    below: dict[int, list[_Port]] = defaultdict(list)
    inner = levels[-1] if levels else 0
    for switch, (domain, gbps) in _leaf_ports(topology, inner, nics).items():
        below[domain].append(_Port(switch, sum(gbps), len(gbps)))
    for outer, depth in zip(levels[-2::-1], levels[:0:-1], strict=True):
        fabric = topology.fabric.get(topology.level_names[outer])
        ratio = fabric.oversubscription if fabric else 1.0
        above: dict[int, list[_Port]] = defaultdict(list)
        for domain in sorted(below):
            parent = topology.place[outer][topology.levels[depth].node_lo[domain]]
            switch = _switch_name(topology, outer, parent)
            for port in below[domain]:
                cable = port.down_gbps / ratio / port.cables
                yield Trunk(port.switch, switch, (cable,) * port.cables)
                above[parent].append(_Port(switch, port.down_gbps / ratio, port.cables))
        below = {domain: [_joined(ports)] for domain, ports in above.items()}


def _joined(ports: Sequence[_Port]) -> _Port:
    return _Port(ports[0].switch, sum(p.down_gbps for p in ports), sum(p.cables for p in ports))


def _leaf_ports(
    topology: Topology, inner: int, nics: Sequence[Nic]
) -> Mapping[str, tuple[int, list[float]]]:
    """For each leaf switch its domain and the bandwidth of each NIC on it."""
    ports: dict[str, tuple[int, list[float]]] = {}
    for nic in nics:
        domain = topology.place[inner][topology.node_index[nic.node]]
        ports.setdefault(nic.switch, (domain, []))[1].append(nic.gbps)
    return ports


def narrowest_between(
    fabric: Fabric, topology: Topology, a: tuple[int, int], b: tuple[int, int]
) -> Narrowest | None:
    """The narrowest link between two GPUs, each `(node_index, gpu_index)`; None without a way.

    Inside one scale-up domain it is that domain's own; else it is on the way between the NICs next
    to the GPUs, of which GPUs of one rail have an equal part.
    """
    type_a, type_b = topology.types[a[0]], topology.types[b[0]]
    if _same_scale_up(topology, a[0], b[0]):
        gbps = min(type_a.scale_up_gbps, type_b.scale_up_gbps)
        return Narrowest(gbps, 0, _domain_name(topology, a[0]))
    nics = [_nic_of(fabric, topology, *gpu) for gpu in (a, b)]
    if nics[0] is None or nics[1] is None:
        return None
    return narrowest(fabric, nics[0], nics[1])


def _nic_of(fabric: Fabric, topology: Topology, node_index: int, gpu_index: int) -> Nic | None:
    """The NIC next to a GPU with the GPU's share of its bandwidth."""
    node_type = topology.types[node_index]
    rails = node_type.rail_of_gpu or tuple(
        gpu * max(1, node_type.rails) // max(1, node_type.gpus) for gpu in range(node_type.gpus)
    )
    nic = fabric.nic_on(topology.nodes[node_index].name, rails[gpu_index])
    if nic is None:
        return None
    sharers = rails.count(rails[gpu_index])
    return Nic(nic.node, nic.name, nic.switch, nic.gbps / sharers, nic.rail)


def _scale_up_depth(topology: Topology, node_index: int) -> int:
    return topology.level_index[topology.scale_up_level(topology.types[node_index])]


def _same_scale_up(topology: Topology, a: int, b: int) -> bool:
    """Whether both nodes are in one named scale-up domain, or are one node."""
    depth = _scale_up_depth(topology, a)
    if a == b:
        return True
    level, place = topology.levels[depth], topology.place[depth]
    same = depth == _scale_up_depth(topology, b) and place[a] == place[b]
    return same and level.name != NODE_LEVEL and not level.is_blank(place[a])


def _domain_name(topology: Topology, node_index: int) -> str:
    depth = _scale_up_depth(topology, node_index)
    level = topology.levels[depth]
    return level.names[topology.place[depth][node_index]] or topology.nodes[node_index].name
