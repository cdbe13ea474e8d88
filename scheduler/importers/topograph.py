"""Cluster models of NVIDIA topograph, and the NetQ answers that it reads -> Inventory.

A model has `switches` (a tree) and `blocks`: leaf switches with their nodes and, as annotations,
the scale-up domain and sub-domain of these. NetQ's compute nodes have a scale-up domain each; its
graph has switches, nodes and links.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.errors import InventoryError
from scheduler.importers.domain_levels import DOMAIN_LEVEL, Described, inventory_of_domains
from scheduler.importers.fabric_inventory import inventory_of_fabric
from scheduler.importers.fields import Fields, place_problem
from scheduler.importers.hostlist import NAMES_MAX, expand
from scheduler.importers.machines import NAMELESS_GPU, Machine, gpu_count_problem
from scheduler.importers.options import DEFAULTS, Options, check_nodes
from scheduler.importers.plain_values import Document, Value, shown
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.switch_tree import Switch, align
from scheduler.importers.yaml_text import read
from scheduler.model.node import Inventory
from scheduler.topology.fabric import Nic, Trunk, assemble
from scheduler.topology.natural import natural_key

ANNOTATION_PARTS = {"domain": DOMAIN_LEVEL, "sub-domain": "accelerator-part"}
"""End of an annotation's key -> the level or set that its value names."""

NETQ_LINK_GBPS = 400.0
"""NetQ's graph does not tell a link's speed; all are taken as equal, so only ratios are right."""

_MODEL_FIELDS = ("switches", "blocks", "nodes", "name", "description", "instances")
_SWITCH_FIELDS = ("labels", "annotations", "switches", "name")
_BLOCK_FIELDS = ("switch", "nodes", "annotations", "labels", "name", "type", "nvlink")
_REQUEST_FIELDS = {"provider", "engine"}


def parse(text: str | bytes, options: Options = DEFAULTS) -> Inventory:
    """The inventory that a model or a NetQ answer describes.

    Raises:
        InventoryError: If the text is neither, a field is wrong, or switches form a cycle.
    """
    options.check()
    document = read(text)
    value = document.value
    if isinstance(value, list):
        return _netq(value, document, options)
    if not isinstance(value, dict):
        raise refuse("", f"must be a mapping or a list; found {shown(value)}")
    if value.keys() >= _REQUEST_FIELDS:
        raise refuse(
            "provider",
            "this is a request to topograph, which names a model but holds none; send the model or "
            "the answer",
        )
    refusals = Refusals()
    fields = Fields(value, "", document, refusals)
    fields.allow(_MODEL_FIELDS)
    if not fields.values.get("blocks"):
        fields.refuse("blocks", "missing; a model has blocks: a switch and its nodes each")
    refusals.raise_if_any()
    return _model(fields, options)


def _model(fields: Fields, options: Options) -> Inventory:
    refusals = fields.refusals
    nodes_of: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    domains: dict[str, dict[str, str]] = {level: {} for level in ANNOTATION_PARTS.values()}
    used = 0
    for block in fields.mappings("blocks"):
        block.allow(_BLOCK_FIELDS)
        name = block.place("switch") or block.place("name")
        if name is None:
            block.refuse("switch", "missing; a block has the name of its leaf switch")
            continue
        if name in nodes_of:
            block.refuse("switch", f"switch '{name}' has two blocks")
        nodes = _nodes(block, used)
        used += len(nodes)
        nodes_of[name] = nodes
        lines[name] = _line(block)
        for level, domain in _annotated(block).items():
            domains[level] |= dict.fromkeys(nodes, domain)
    switches = _switches(fields, nodes_of, lines)
    refusals.raise_if_any()
    aligned = align(switches, level_names=options.level_names, unknown_children_are_empty=True)
    names = sorted(aligned.places, key=natural_key)
    columns = {level: [aligned.places[n][level] for n in names] for level in aligned.levels}
    described = [Described(name) for name in names]
    domain_of = domains.pop(DOMAIN_LEVEL)
    return inventory_of_domains(
        described, columns, domain_of, options, warnings=aligned.warnings, sets=domains
    )


def _nodes(block: Fields, used: int) -> list[str]:
    names: list[str] = []
    for text in block.texts("nodes"):
        try:
            names += expand(text, limit=NAMES_MAX, used=used + len(names))
        except InventoryError as error:
            block.refuse("nodes", error.problems[0].message)
    check_nodes(names, block.at("nodes"), block.refusals, line=_line(block))
    return list(dict.fromkeys(names))


def _annotated(block: Fields) -> dict[str, str]:
    """The scale-up domain and sub-domain that the annotations name."""
    found: dict[str, str] = {}
    annotations = block.mapping("annotations")
    for key in annotations.values:
        level = ANNOTATION_PARTS.get(key.rpartition("/")[2])
        if level is not None:
            domain = annotations.place(key)
            if domain:
                found[level] = domain
    return found


def _switches(
    fields: Fields, nodes_of: Mapping[str, list[str]], lines: Mapping[str, int]
) -> list[Switch]:
    found: dict[str, Switch] = {}
    named = fields.mapping("switches")
    for name in named.values:
        problem = place_problem(name)
        if problem is not None:
            named.refuse(name[:60], problem)
        inner = named.mapping(name)
        inner.allow(_SWITCH_FIELDS)
        children = tuple(dict.fromkeys(inner.texts("switches")))
        nodes = tuple(nodes_of.get(name, ()))
        found[name] = Switch(name, _line(inner), children, nodes)
        problem = next(filter(None, map(place_problem, children)), None)
        if problem is not None:
            inner.refuse("switches", problem)
    for name, nodes_here in nodes_of.items():
        found.setdefault(name, Switch(name, lines[name], (), tuple(nodes_here)))
    return list(found.values())


def _line(fields: Fields) -> int:
    return fields.document.line_of(fields.values) or 0


def _netq(value: list[Value], document: Document, options: Options) -> Inventory:
    refusals = Refusals()
    top = Fields({"": value}, "", document, refusals)
    items = top.mappings("")
    refusals.raise_if_any()
    if len(items) == 1 and "links" in items[0] and "nodes" in items[0]:
        return _netq_graph(items[0], options)
    if not items:
        raise refuse("", "an empty list; NetQ lists compute nodes, or one graph")
    return _netq_nodes(items, options)


def _netq_nodes(items: Sequence[Fields], options: Options) -> Inventory:
    """Compute nodes of NetQ's NMX service: a scale-up domain and GPUs each."""
    machines: dict[str, Machine] = {}
    domain_of: dict[str, str] = {}
    for item in items:
        name = item.name("Name")
        if name is None:
            item.refuse("Name", "missing; a compute node has a name")
            continue
        if name in machines:
            item.refuse("Name", f"node '{name}' comes twice")
        gpus = item.values.get("GpuIDList")
        count = len(gpus) if isinstance(gpus, list) else 0
        problem = gpu_count_problem(count)
        if problem is not None:
            item.refuse("GpuIDList", problem)
        known = isinstance(gpus, list)
        machines[name] = Machine(NAMELESS_GPU if count else "", count if known else None)
        domain = item.place("DomainUUID")
        if domain:
            domain_of[name] = domain
    items[0].refusals.raise_if_any()
    nodes = [Described(name, machines[name]) for name in sorted(machines, key=natural_key)]
    return inventory_of_domains(nodes, {}, domain_of, options)


def _netq_graph(graph: Fields, options: Options) -> Inventory:
    """NetQ's picture of the network: switches and hosts by tier, and links between them."""
    names: dict[str, str] = {}
    is_switch: dict[str, bool] = {}
    for tier in graph.mappings("nodes"):
        for item in tier.mappings("compounded_nodes"):
            device = item.text("id")
            names[device] = item.name("name") or device
            is_switch[device] = item.text("device_type") == "switch"
            if not device:
                item.refuse("id", "missing; a device has an id")
    repeated = [name for name, count in Counter(names.values()).items() if count > 1]
    if repeated:
        graph.refuse("nodes", f"two devices are named '{repeated[0]}'")
    nics: list[Nic] = []
    trunks: list[Trunk] = []
    for link in graph.mappings("links"):
        ends = (link.text("src"), link.text("target"))
        unknown = next((end for end in ends if end not in names), None)
        if unknown is not None:
            link.refuse("src", f"a link to '{unknown}', which is no device of the graph")
            continue
        count = link.integer("size", 1, 1, 10_000)
        if all(is_switch[end] for end in ends):
            gbps = (NETQ_LINK_GBPS,) * count
            trunks.append(Trunk(names[ends[0]], names[ends[1]], gbps))
        elif any(is_switch[end] for end in ends):
            host, switch = ends if is_switch[ends[1]] else ends[::-1]
            nics += _nics(link, host, names[host], names[switch])
    graph.refusals.raise_if_any()
    fabric = assemble(
        nics,
        trunks,
        switches=[names[device] for device, found in is_switch.items() if found],
        nodes=[names[device] for device, found in is_switch.items() if not found],
    )
    return inventory_of_fabric(fabric, options)


def _nics(link: Fields, host: str, host_name: str, switch: str) -> list[Nic]:
    """The host's ends of the cables of one link."""
    found: list[Nic] = []
    for cable in link.mappings("compounded_links"):
        for end in cable.mappings("interfaces"):
            if end.text("node") == host:
                name = end.text("interface") or f"port-{len(found)}"
                found.append(Nic(host_name, name, switch, NETQ_LINK_GBPS))
    return found or [Nic(host_name, f"port-{switch}", switch, NETQ_LINK_GBPS)]
