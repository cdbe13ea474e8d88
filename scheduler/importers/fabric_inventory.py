"""A fabric read from cables -> Inventory: levels, rails, the network's speed, switches as sets."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from statistics import median

from scheduler.importers.machines import Machine, type_nodes
from scheduler.importers.node_types import default_rails
from scheduler.importers.options import Options
from scheduler.importers.refusals import first_of, refuse
from scheduler.importers.switch_tree import level_names_for
from scheduler.model.node import NODE_LEVEL, FabricLevel, Inventory, NodeRecord, NodeType
from scheduler.topology.dead_rails import DEAD_RAILS
from scheduler.topology.fabric import Fabric
from scheduler.topology.fabric_checks import check_fabric
from scheduler.topology.fabric_groups import FoundLevels, find_levels
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

SWITCH_SET = "leaf-switch"
"""Kind of the sets that hold the nodes plugged into one switch."""

OUTSIDER_SHARE = 0.5
"""A host with at most this part of the rails of its group is no compute node, but a host of another
kind (a fabric manager, a login host) plugged into a compute switch."""

RAILS_MIN = 2
"""Fewer rails than this do not tell such hosts apart."""

UNKNOWN_TYPE = "unknown"


def inventory_of_fabric(
    fabric: Fabric, options: Options, warnings: Iterable[str] = ()
) -> Inventory:
    """The inventory that a fabric's cables imply.

    Raises:
        InventoryError: If no node is plugged into any switch.
    """
    found = find_levels(fabric)
    if not found.groups or not found.places[0]:
        raise refuse("", "no link between a node and a switch, so there are no levels")
    names = level_names_for(len(found.places), options.level_names)
    levels = (*reversed(names), NODE_LEVEL)
    nodes = sorted(fabric.nics, key=natural_key)
    outsiders = _outsiders(found)
    typed = type_nodes(
        {node: Machine() for node in nodes if node not in outsiders},
        options if options.node_type else replace(options, node_type=_type_of_cables(found)),
        levels,
    )
    types = dict(typed.types)
    told = [*warnings, *_findings(found)]
    if options.node_type is None:
        told.append(
            f"cables do not tell what GPUs there are in {listed('node', nodes)}: taken as none; "
            f"name a node type for them"
        )
    elif options.node_type.rails not in (0, found_rails := _usual_rails(found)):
        told.append(
            f"node type '{options.node_type.name}' has {options.node_type.rails} rails; the cables "
            f"make {found_rails}"
        )
    if outsiders:
        types[UNKNOWN_TYPE] = NodeType(UNKNOWN_TYPE, gpu="", gpus=0)
        told.append(
            f"{listed('node', sorted(outsiders, key=natural_key))} on half of the rails around or "
            f"fewer: taken as no compute node, without GPUs"
        )
    dead = _dead_rails(found, outsiders)
    return Inventory(
        cluster=options.cluster,
        levels=levels,
        scale_up=options.scale_up_of(levels),
        node_types=types,
        nodes=tuple(
            NodeRecord(
                node,
                typed.type_of.get(node, UNKNOWN_TYPE),
                {
                    n: row.get(node)
                    for n, row in zip(reversed(names), found.places[::-1], strict=True)
                },
                labels=dead.get(node, {}),
            )
            for node in nodes
        ),
        sets={SWITCH_SET: _switch_sets(fabric)},
        fabric=_speeds(found, names, options.node_type),
        warnings=(*told, *typed.warnings),
    )


def _outsiders(found: FoundLevels) -> set[str]:
    outsiders: set[str] = set()
    for group in found.groups.values():
        rail_count = len(group.rails)
        if rail_count < RAILS_MIN:
            continue
        for node in group.nodes:
            rails = {n.rail for n in found.fabric.nics[node] if n.switch in group.leaves}
            if len(rails) <= OUTSIDER_SHARE * rail_count:
                outsiders.add(node)
    return outsiders


def _dead_rails(found: FoundLevels, outsiders: Collection[str]) -> dict[str, dict[str, str]]:
    """Node -> label of the rails of its group that none of its NICs reaches, where there are any.

    A NIC that is plugged into a switch of another group is no dead rail.
    """
    out: dict[str, dict[str, str]] = {}
    for group in found.groups.values():
        for node in group.nodes:
            alive = {nic.rail for nic in found.fabric.nics[node]}
            lost = [str(rail) for rail in group.rails if rail not in alive]
            if lost and node not in outsiders:
                out[node] = {DEAD_RAILS: "_".join(lost)}
    return out


def _usual_rails(found: FoundLevels) -> int:
    """Rails of the group that has most; others may lack a switch."""
    return max((len(group.rails) for group in found.groups.values()), default=0)


def _type_of_cables(found: FoundLevels) -> NodeType:
    """A type without GPUs, with the rails that the cables make."""
    rails = _usual_rails(found)
    gbps = _nic_gbps(found)
    name = f"{UNKNOWN_TYPE}-{rails}x{gbps:g}g"
    return NodeType(name, gpu="", gpus=0, rails=rails, rail_of_gpu=(), nic_gbps=gbps)


def _nic_gbps(found: FoundLevels) -> float:
    return median([nic.gbps for nics in found.fabric.nics.values() for nic in nics])


def _findings(found: FoundLevels) -> list[str]:
    """What looks wrong, bounded for each kind of thing."""
    by_code: dict[str, list[str]] = {}
    for finding in check_fabric(found):
        by_code.setdefault(finding.code, []).append(finding.message)
    return [message for messages in by_code.values() for message in first_of(messages)]


def _switch_sets(fabric: Fabric) -> dict[str, tuple[str, ...]]:
    return {
        switch: tuple(fabric.nodes_of(switch))
        for switch in fabric.switches
        if fabric.tier[switch] == 1
    }


def _speeds(
    found: FoundLevels, names: list[str], node_type: NodeType | None
) -> Mapping[str, FabricLevel]:
    """What one GPU gets inside a domain of each level, and how much less there is further out."""
    gbps = _nic_gbps(found)
    if node_type is not None and node_type.gpus:
        rails = node_type.rail_of_gpu or default_rails(node_type.gpus, node_type.rails)
        gbps *= min(1.0, len(set(rails)) / node_type.gpus)
    levels: dict[str, FabricLevel] = {}
    for tier, name in enumerate(names, 1):
        below = [s for s in found.fabric.switches if found.fabric.tier[s] == tier - 1]
        shares = [share for share in map(found.fabric.up_share, below) if share > 0]
        usual = median(shares) if tier > 1 and shares else 1.0
        levels[name] = FabricLevel(gbps, max(1.0, round(1 / usual, 3)))
    return levels
