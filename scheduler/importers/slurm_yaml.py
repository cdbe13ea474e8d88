"""Slurm's `topology.yaml` (tree, block, flat) -> Inventory."""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.errors import InventoryError
from scheduler.importers.fields import Fields, as_text
from scheduler.importers.hostlist import NAMES_MAX, expand
from scheduler.importers.options import DEFAULTS, Options, check_nodes
from scheduler.importers.plain_values import Document, Value, shown
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.slurm_blocks import Block, BlockSizes, align_blocks
from scheduler.importers.slurm_conf import NODE_KIND, inventory_of
from scheduler.importers.slurm_lines import entries
from scheduler.importers.slurm_nodes import SlurmNodes, read_nodes
from scheduler.importers.switch_tree import Aligned, Switch, align
from scheduler.importers.yaml_text import decode, read
from scheduler.model.node import Inventory

PLUGIN_FIELDS = {
    "tree": ("switches",),
    "block": ("block_sizes", "blocks"),
    "flat": ("alpha_step_rank",),
    "ring": ("rings",),
    "torus3d": ("toruses",),
}
"""Plugins of Slurm, and what each is described by."""

SUPPORTED = ("tree", "block", "flat")

_TOPOLOGY_FIELDS = ("topology", "cluster_default", *PLUGIN_FIELDS)
_SWITCH_FIELDS = ("switch", "children", "nodes")
_BLOCK_FIELDS = ("block", "nodes")
_BLOCK_SIZE_MAX = 10**6


@dataclass(frozen=True, slots=True)
class _Topology:
    """One entry of the file; `plugin` is None where none is switched on."""

    fields: Fields
    name: str
    is_default: bool
    plugin: str | None


def parse(
    text: str | bytes,
    options: Options = DEFAULTS,
    *,
    nodes_text: str | bytes = "",
    topology: str = "",
) -> Inventory:
    """The inventory that one topology of a topology.yaml describes.

    Args:
        nodes_text: A slurm.conf, for the nodes' hardware; a flat topology names no nodes itself.
        topology: Name of the topology; by default the one marked `cluster_default`, else the first.

    Raises:
        InventoryError: If a field is wrong, the topology is of a plugin without levels, or it
            contradicts itself.
    """
    options.check()
    document = read(text)
    refusals = Refusals()
    found = _topologies(document, refusals)
    refusals.raise_if_any()
    chosen = _chosen(found, topology)
    aligned = _ALIGN[chosen.plugin or "flat"](chosen.fields, options, refusals)
    refusals.raise_if_any()
    named = _nodes(nodes_text, refusals, used=len(aligned.places))
    if chosen.plugin == "flat" and not named.nodes:
        message = "a flat topology names no nodes; send the slurm.conf that does along with it"
        chosen.fields.refuse("flat", message)
    refusals.raise_if_any()
    others = [t.name for t in found if t is not chosen]
    left_out = f"taken is topology '{chosen.name}'; others left out: {', '.join(others)}"
    return inventory_of(
        aligned,
        options,
        nodes=named.nodes if nodes_text else None,
        cluster=options.cluster,
        warnings=(*([left_out] if others else []), *named.warnings),
    )


def _nodes(text: str | bytes, refusals: Refusals, *, used: int) -> SlurmNodes:
    lines = [e for e in entries(decode(text), refusals) if e.kind == NODE_KIND]
    return read_nodes(lines, refusals, used=used)


def _topologies(document: Document, refusals: Refusals) -> list[_Topology]:
    value: Value = document.value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        root = shown(document.value)
        raise refuse("", f"must be a list of topologies, or one; found {root}", line=1)
    found: list[_Topology] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            refusals.add(f"[{index}]", f"must be a mapping; found {shown(item)}")
            continue
        fields = Fields(item, f"[{index}]", document, refusals)
        fields.allow(_TOPOLOGY_FIELDS)
        name = fields.text("topology")
        if not name:
            fields.refuse("topology", "missing; a topology has a name")
        default = item.get("cluster_default") is True
        found.append(_Topology(fields, name, default, _plugin(fields, name)))
    return found


def _plugin(fields: Fields, name: str) -> str | None:
    """The plugin that an entry is for; its own fields are looked at only if it is the one taken."""
    given = [p for p in PLUGIN_FIELDS if p in fields and fields.values[p] not in (None, False)]
    if len(given) > 1:
        fields.refuse(given[1], f"a topology has one plugin; '{name}' has {' and '.join(given)}")
    if not given:
        fields.refuse("topology", f"'{name}' has no plugin; write one of {', '.join(SUPPORTED)}")
        return None
    plugin = given[0]
    value = fields.values[plugin]
    if not isinstance(value, dict) and not (plugin == "flat" and value is True):
        fields.refuse(plugin, f"must be a mapping; found {shown(value)}")
        return plugin
    if isinstance(value, dict):
        fields.mapping(plugin).allow(PLUGIN_FIELDS[plugin])
        _check_lists(fields.mapping(plugin))
    return plugin


def _check_lists(fields: Fields) -> None:
    """What is a list in Slurm may also be one entry, and nothing else."""
    for key in ("switches", "blocks", "rings", "toruses"):
        if key in fields and not isinstance(fields.values[key], list | dict):
            fields.wrong(key, "a list")


def _chosen(found: list[_Topology], wanted: str) -> _Topology:
    if wanted:
        named = [t for t in found if t.name == wanted]
        if not named:
            names = ", ".join(t.name for t in found)
            raise refuse("topology", f"no topology '{wanted}'; there are {names}")
        chosen = named[0]
    else:
        chosen = next((t for t in found if t.is_default), found[0])
    if chosen.plugin not in SUPPORTED:
        raise refuse(
            chosen.fields.at(chosen.plugin or ""),
            f"topology '{chosen.name}' is a {chosen.plugin}, which is not supported, for it has no "
            f"domains; supported are {', '.join(SUPPORTED)}",
            line=chosen.fields.document.line_of(chosen.fields.values) or 0,
        )
    return chosen


def _inner(fields: Fields, key: str) -> list[Fields]:
    """The entries of a list, or the one that stands in its place."""
    if isinstance(fields.values.get(key), dict):
        return [fields.mapping(key)]
    return fields.mappings(key)


def _tree(fields: Fields, options: Options, refusals: Refusals) -> Aligned:
    switches: list[Switch] = []
    used = 0
    for entry in _inner(fields.mapping("tree"), "switches"):
        entry.allow(_SWITCH_FIELDS)
        name = entry.place("switch")
        if name is None and entry.values.get("switch") is None:
            entry.refuse("switch", "missing; a switch has a name")
        children, nodes = (_names(entry, key, used) for key in ("children", "nodes"))
        used += len(children) + len(nodes)
        check_nodes(nodes, entry.at("nodes"), refusals, line=_line(entry))
        switches.append(Switch(name or "", _line(entry), tuple(children), tuple(nodes)))
    if not switches:
        fields.refuse("tree", "without switches")
    refusals.raise_if_any()
    return align(switches, level_names=options.level_names)


def _block(fields: Fields, options: Options, refusals: Refusals) -> Aligned:
    inner = fields.mapping("block")
    blocks: list[Block] = []
    used = 0
    for entry in _inner(inner, "blocks"):
        entry.allow(_BLOCK_FIELDS)
        name = entry.place("block")
        if name is None and entry.values.get("block") is None:
            entry.refuse("block", "missing; a block has a name")
        nodes = _names(entry, "nodes", used)
        used += len(nodes)
        check_nodes(nodes, entry.at("nodes"), refusals, line=_line(entry))
        blocks.append(Block(name or "", _line(entry), tuple(nodes)))
    if not blocks:
        fields.refuse("block", "without blocks")
    sizes = BlockSizes(_line(inner), _sizes(inner))
    refusals.raise_if_any()
    return align_blocks(blocks, sizes, refusals)


def _sizes(fields: Fields) -> tuple[int, ...]:
    value = fields.values.get("block_sizes")
    values = value if isinstance(value, list) else [] if value is None else [value]
    sizes = [size for size in values if isinstance(size, int) and not isinstance(size, bool)]
    if len(sizes) < len(values) or any(not 0 < size <= _BLOCK_SIZE_MAX for size in sizes):
        fields.wrong("block_sizes", f"a list of whole numbers from 1 to {_BLOCK_SIZE_MAX}")
        return ()
    return tuple(sizes)


def _flat(fields: Fields, options: Options, refusals: Refusals) -> Aligned:
    return Aligned((), {}, ())


_ALIGN: dict[str, Callable[[Fields, Options, Refusals], Aligned]] = {
    "tree": _tree,
    "block": _block,
    "flat": _flat,
}


def _names(entry: Fields, key: str, used: int) -> list[str]:
    """The names of a hostlist, each once."""
    value = entry.values.get(key)
    text = as_text(value)
    if value is None or text == "":
        return []
    if text is None:
        entry.wrong(key, "a hostlist")
        return []
    try:
        return list(dict.fromkeys(expand(text, limit=NAMES_MAX, used=used)))
    except InventoryError as error:
        entry.refuse(key, error.problems[0].message)
        return []


def _line(fields: Fields) -> int:
    return fields.document.line_of(fields.values) or 0
