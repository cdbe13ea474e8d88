"""Domains of a topology by the names that they have as hypernodes, which are unique."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from api.k8s.volcano.words import is_subdomain
from scheduler.topology.tree import Topology

_ODD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain as a hypernode.

    Attributes:
        domain: Its own name, unique in its level.
        members: Type and name: hypernodes of the tier below, and nodes with no place there.
        nodes: All that lie in it.
    """

    tier: int
    level: str
    domain: str
    members: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domains:
    by_name: Mapping[str, Domain]
    of_place: Mapping[tuple[str, str], str]
    """Level and domain -> name."""


def domains_of(topology: Topology) -> Domains:
    """Every domain that has a name, inner levels first; names that come twice get their level."""
    by_name: dict[str, Domain] = {}
    of_place: dict[tuple[str, str], str] = {}
    last = len(topology.levels) - 1
    for depth in range(last - 1, -1, -1):
        level = topology.levels[depth]
        for index, domain in enumerate(level.names):
            if not domain:
                continue
            nodes = topology.nodes[level.node_lo[index] : level.node_hi[index]]
            name = _free_name(level.name, domain, by_name)
            of_place[level.name, domain] = name
            members = dict.fromkeys(
                _member(topology, depth + 1, node_index, of_place)
                for node_index in range(level.node_lo[index], level.node_hi[index])
            )
            by_name[name] = Domain(
                tier=last - depth,
                level=level.name,
                domain=domain,
                members=tuple(members),
                nodes=tuple(node.name for node in nodes),
            )
    return Domains(by_name, of_place)


def _member(
    topology: Topology, depth: int, node_index: int, of_place: Mapping[tuple[str, str], str]
) -> tuple[str, str]:
    """What of a domain holds one of its nodes: a domain of the next level, or the node itself."""
    level = topology.levels[depth]
    place = level.names[topology.place[depth][node_index]]
    known = of_place.get((level.name, place)) if depth < len(topology.levels) - 1 else None
    return ("HyperNode", known) if known else ("Node", topology.nodes[node_index].name)


def _free_name(level: str, domain: str, taken: Mapping[str, object]) -> str:
    if is_subdomain(domain) and domain not in taken:
        return domain
    plain = f"{_ODD.sub('-', f'{level} {domain}'.lower()).strip('-')[:200]}"
    if plain and plain not in taken and is_subdomain(plain):
        return plain
    return f"{plain or 'domain'}-{crc32(f'{level}/{domain}'.encode()):08x}"
