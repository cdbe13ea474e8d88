"""What descriptions tell of a node's hardware -> node types, one for nodes that are alike."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.node_types import default_rails
from scheduler.importers.options import Options
from scheduler.importers.product_data import CLOUD_MACHINES, PRODUCTS
from scheduler.importers.refusals import first_of
from scheduler.model.node import NODE_LEVEL, NodeType
from scheduler.model.resources import MAX_GPUS_PER_NODE, Resources
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

NAMELESS_GPU = "GPU"
"""Model of a GPU that the description only counts."""

UNKNOWN_TYPE = "unknown"
"""Type of a node of which nothing is known."""

ALIKE_MEMORY = 1.1
"""Nodes of one kind whose memory differs by less than this factor are of one type: what a system
reports as its memory differs a little between equal machines."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9._]+")
_MAKERS = re.compile(r"^(?:nvidia|amd|tesla)[-_ ]+", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_]+")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a description tells of one node.

    Attributes:
        gpu: Product as it is called there; "" if it is not named.
        gpus: None if the description does not tell.
        capacity: Zeros where it does not tell.
        instance: Instance type of a cloud.
    """

    gpu: str = ""
    gpus: int | None = None
    capacity: Resources = Resources()
    instance: str = ""


UNTOLD = Machine()
"""Of which nothing is told."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Node types of the nodes of an import.

    Attributes:
        type_of: Name of the type of each node, by node.
        types: By name.
    """

    type_of: Mapping[str, str]
    types: Mapping[str, NodeType]
    warnings: tuple[str, ...]


def type_nodes(
    machines: Mapping[str, Machine],
    options: Options,
    levels: Sequence[str],
    *,
    domain_level: str | None = None,
    in_domain: Collection[str] = (),
) -> Typed:
    """Types for these nodes.

    Args:
        levels: Those of the inventory.
        domain_level: The level that holds domains of multi-node scale-up links, if there is one; a
            type of which no node is in such a domain has its links inside each node.
        in_domain: Nodes that are in one.
    """
    warnings: list[str] = []
    nodes_of: dict[Machine, list[str]] = defaultdict(list)
    for node, machine in machines.items():
        nodes_of[machine].append(node)
    groups: dict[Machine, list[str]] = defaultdict(list)
    for machine, nodes in nodes_of.items():
        without_memory = replace(machine.capacity, memory_mib=0)
        groups[replace(machine, capacity=without_memory)] += nodes
    types: dict[str, NodeType] = {}
    type_of: dict[str, str] = {}
    unknown: list[str] = []
    for kind, nodes in groups.items():
        is_untold = kind.gpus is None and not kind.instance
        if is_untold and options.node_type is None:
            unknown += nodes
        for memory_mib, alike in _alike(machines, nodes):
            machine = replace(kind, capacity=replace(kind.capacity, memory_mib=memory_mib))
            found = _untold_type(machine, options) if is_untold else node_type_of(machine)
            types[found.name] = found
            type_of |= dict.fromkeys(alike, found.name)
    if unknown:
        ordered = sorted(unknown, key=natural_key)
        warnings.append(
            f"nothing says what GPUs there are in {listed('node', ordered)}: taken as none; name a "
            f"node type for them"
        )
    joined = {type_of[node] for node in in_domain}
    fitted = {
        name: _fitted(types[name], levels, domain_level if name in joined else None, warnings)
        for name in sorted(types)
    }
    if domain_level is not None:
        fitted = {n: t if n in joined else _alone(t) for n, t in fitted.items()}
    return Typed(type_of, fitted, tuple(first_of(warnings)))


def _alone(node_type: NodeType) -> NodeType:
    """The type where the cluster's scale-up level holds none of its nodes."""
    return replace(node_type, scale_up=node_type.scale_up or NODE_LEVEL)


def _untold_type(machine: Machine, options: Options) -> NodeType:
    """The type that the import names, or one without GPUs, with the capacity that is told."""
    base = options.node_type or NodeType(UNKNOWN_TYPE, gpu="", gpus=0)
    capacity = _capacity(machine.capacity, base.capacity)
    return replace(base, name=base.name + _suffix(machine.capacity), capacity=capacity)


def _alike(machines: Mapping[str, Machine], nodes: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Nodes grouped by memory, with the least of each group."""
    groups: list[tuple[int, list[str]]] = []
    for node in sorted(nodes, key=lambda node: machines[node].capacity.memory_mib):
        memory_mib = machines[node].capacity.memory_mib
        if not groups or memory_mib > groups[-1][0] * ALIKE_MEMORY:
            groups.append((memory_mib, []))
        groups[-1][1].append(node)
    return groups


def node_type_of(machine: Machine) -> NodeType:
    """The type of a machine: a built-in one with what is known here put in, or a new one."""
    cloud = CLOUD_MACHINES.get(machine.instance.lower())
    product = machine.gpu or (cloud.product if cloud else "")
    gpu, built_in = known_product(product, machine.gpus)
    gpus = built_in.gpus if built_in and machine.gpus is None else machine.gpus or 0
    base = built_in or NodeType("", gpu=gpu if gpus else "", gpus=gpus)
    if not built_in:
        base = replace(base, rail_of_gpu=default_rails(gpus, 0))
    elif cloud and cloud.rails:
        rails = default_rails(gpus, cloud.rails)
        base = replace(base, rails=cloud.rails, rail_of_gpu=rails, nic_gbps=cloud.nic_gbps)
    found = replace(base, capacity=_capacity(machine.capacity, base.capacity))
    return replace(found, name=_type_name(found, built_in, machine))


def known_product(product: str, gpus: int | None) -> tuple[str, NodeType | None]:
    """The name that jobs ask for, and the built-in type with so many of these GPUs.

    Without a count it is the type with the most.
    """
    name = _MAKERS.sub("", product).strip()
    lowered = _SEPARATORS.sub("-", name.lower())
    for known in PRODUCTS:
        if known.pattern.search(lowered):
            of_count = [t for count, t in known.types if gpus in (count, None)]
            return known.gpu or name, BUILT_IN[of_count[-1]] if of_count else None
    return name or NAMELESS_GPU, None


def _capacity(told: Resources, usual: Resources) -> Resources:
    return Resources(
        cpu_milli=told.cpu_milli or usual.cpu_milli,
        memory_mib=told.memory_mib or usual.memory_mib,
        other=told.other or usual.other,
    )


def _type_name(found: NodeType, built_in: NodeType | None, machine: Machine) -> str:
    """The same for the same hardware, so that a second import finds the type of the first."""
    if machine.instance:
        stem = _plain(machine.instance)
    elif built_in:
        stem = built_in.name
    else:
        stem = f"{_plain(found.gpu)}-x{found.gpus}" if found.gpus else "no-gpu"
    return stem + _suffix(machine.capacity)


def _suffix(told: Resources) -> str:
    """What tells apart types of one stem: the capacity that a description names."""
    suffix = f"-{round(told.cpu_milli / 1000)}c" if told.cpu_milli else ""
    if told.memory_mib:
        suffix += f"-{_two_digits(told.memory_mib / 1024)}g"
    if told.other:
        suffix += f"-{crc32(repr(told.other).encode()) & 0xFFFFFF:06x}"
    return suffix


def _plain(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-._")[:100] or NAMELESS_GPU.lower()


def _two_digits(number: float) -> str:
    """Rounded so that equal machines, which report nearly the same, get the same name."""
    return f"{float(f'{number:.1e}'):g}" if number < 1e6 else f"{number:.1e}".replace("+", "")


def _fitted(
    node_type: NodeType, levels: Sequence[str], domain_level: str | None, warnings: list[str]
) -> NodeType:
    """The type with a scale-up level that exists."""
    wanted = node_type.scale_up
    if wanted is None or wanted == NODE_LEVEL:
        return node_type
    if domain_level is not None:
        return replace(node_type, scale_up=domain_level)
    if wanted in levels:
        return node_type
    warnings.append(
        f"GPUs of type '{node_type.name}' talk inside one '{wanted}', and no level says where "
        f"those are; taken as inside one {NODE_LEVEL}"
    )
    return replace(node_type, scale_up=NODE_LEVEL)


def gpu_count_problem(gpus: int) -> str | None:
    """Why a node cannot have so many GPUs; None if it can."""
    if 0 <= gpus <= MAX_GPUS_PER_NODE:
        return None
    return f"{gpus} GPUs in one node; 0 to {MAX_GPUS_PER_NODE} are possible"
