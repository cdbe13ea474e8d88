"""Slurm's `topology.conf` (tree, block) and the `NodeName=` lines of `slurm.conf` -> Inventory."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from scheduler.errors import InventoryError
from scheduler.importers.fields import name_problem
from scheduler.importers.hostlist import NAMES_MAX, expand
from scheduler.importers.machines import Machine, type_nodes
from scheduler.importers.options import DEFAULTS, Options, check_nodes, check_places
from scheduler.importers.refusals import Refusals, first_of, refuse
from scheduler.importers.slurm_blocks import Block, BlockSizes, align_blocks
from scheduler.importers.slurm_lines import Entry, entries
from scheduler.importers.slurm_nodes import SlurmNode, read_nodes
from scheduler.importers.switch_tree import Aligned, Switch, align
from scheduler.importers.yaml_text import decode
from scheduler.model.node import NODE_LEVEL, Inventory, NodeRecord
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

SWITCH_KEYS = ("switchname", "switches", "nodes", "linkspeed", "level")
BLOCK_KEYS = ("blockname", "nodes", "blocksizes")

MAP_KINDS = {"switchname": "tree", "blockname": "block", "blocksizes": "block", "ringname": "ring"}
"""What the first key of a line of topology.conf says of the plugin that the file is for."""

NODE_KIND = "nodename"
KNOWN_KINDS = frozenset((*MAP_KINDS, NODE_KIND))

STRANGE_SHARE = 0.1
"""Nodes with another prefix than the rest are doubted when they are at most this part of all."""

_DIGITS = re.compile(r"\d+")


def parse(
    text: str | bytes, options: Options = DEFAULTS, *, nodes_text: str | bytes = ""
) -> Inventory:
    """The inventory that a topology.conf describes, with the nodes of a slurm.conf if there is one.

    Args:
        text: Lines of topology.conf, of slurm.conf, or of both one after the other.
        nodes_text: A slurm.conf that came as its own file.

    Raises:
        InventoryError: If a line cannot be read, the file is for a plugin without levels, switches
            form a cycle, or a name is used twice.
    """
    options.check()
    refusals = Refusals()
    lines = list(entries(decode(text), refusals))
    node_lines = [e for e in lines if e.kind == NODE_KIND]
    node_lines += [e for e in entries(decode(nodes_text), refusals) if e.kind == NODE_KIND]
    kind = _map_kind(lines, refusals)
    refusals.raise_if_any()
    if kind is None and not node_lines:
        raise refuse("", "no line begins with SwitchName, BlockName or NodeName: no Slurm map")
    aligned = Aligned((), {}, ())
    if kind == "tree":
        aligned = align(_switches(lines, refusals), level_names=options.level_names)
    elif kind == "block":
        aligned = _aligned_blocks(lines, refusals)
    named = read_nodes(node_lines, refusals, used=len(aligned.places))
    refusals.raise_if_any()
    cluster = next((e.name for e in lines if e.kind == "clustername"), "")
    return inventory_of(
        aligned,
        options,
        nodes=named.nodes if node_lines else None,
        cluster=cluster if cluster and not name_problem(cluster) else options.cluster,
        warnings=named.warnings,
    )


def _map_kind(lines: Iterable[Entry], refusals: Refusals) -> str | None:
    """The plugin that the file is for; None if it holds no map."""
    first: dict[str, Entry] = {}
    for entry in lines:
        if entry.kind in MAP_KINDS:
            first.setdefault(MAP_KINDS[entry.kind], entry)
    if len(first) > 1:
        where = " and ".join(f"a {kind} map (line {e.line})" for kind, e in sorted(first.items()))
        entry = max(first.values(), key=lambda found: found.line)
        refusals.add(entry.keys[entry.kind], f"the file holds {where}; send one", line=entry.line)
    elif "ring" in first:
        refusals.add(
            "RingName",
            "rings are not supported, for they have no domains; tree and block maps are",
            line=first["ring"].line,
        )
    return next(iter(first), None)


def _switches(lines: Iterable[Entry], refusals: Refusals) -> list[Switch]:
    switches: list[Switch] = []
    used = 0
    for entry in (e for e in lines if e.kind == "switchname"):
        _check_keys(entry, SWITCH_KEYS, refusals)
        check_places([entry.name], "SwitchName", refusals, line=entry.line)
        children = _names(entry, "switches", refusals, used)
        nodes = _names(entry, "nodes", refusals, used)
        used += len(children) + len(nodes)
        check_nodes(nodes, "Nodes", refusals, line=entry.line)
        switches.append(Switch(entry.name, entry.line, tuple(children), tuple(nodes)))
    refusals.raise_if_any()
    return switches


def _aligned_blocks(lines: Iterable[Entry], refusals: Refusals) -> Aligned:
    blocks: list[Block] = []
    sizes = BlockSizes()
    used = 0
    for entry in (e for e in lines if MAP_KINDS.get(e.kind) == "block"):
        if "blocksizes" in entry.values:
            sizes = _sizes(entry, refusals)
        if entry.kind == "blocksizes":
            continue
        _check_keys(entry, BLOCK_KEYS, refusals)
        check_places([entry.name], "BlockName", refusals, line=entry.line)
        nodes = _names(entry, "nodes", refusals, used)
        used += len(nodes)
        check_nodes(nodes, "Nodes", refusals, line=entry.line)
        blocks.append(Block(entry.name, entry.line, tuple(nodes)))
    if not blocks and not refusals:
        message = "block sizes without a block; every line with BlockName may be a comment"
        refusals.add("BlockName", message, line=sizes.line)
    aligned = align_blocks(blocks, sizes, refusals)
    refusals.raise_if_any()
    return aligned


def _sizes(entry: Entry, refusals: Refusals) -> BlockSizes:
    parts = [part.strip() for part in entry.get("blocksizes").split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        found = entry.get("blocksizes")[:60]
        message = f"'{found}' is no list of numbers, as in 18,36,72"
        refusals.add("BlockSizes", message, line=entry.line)
        return BlockSizes(entry.line)
    return BlockSizes(entry.line, tuple(map(int, parts)))


def _check_keys(entry: Entry, allowed: Sequence[str], refusals: Refusals) -> None:
    for key in entry.values:
        if key not in allowed:
            message = f"is unknown in such a line; allowed are {', '.join(allowed)}"
            refusals.add(entry.keys[key][:60], message, line=entry.line)


def _names(entry: Entry, key: str, refusals: Refusals, used: int) -> list[str]:
    """The names of a hostlist, each once."""
    if not entry.get(key):
        return []
    try:
        return list(dict.fromkeys(expand(entry.get(key), limit=NAMES_MAX, used=used)))
    except InventoryError as error:
        refusals.add_all(error, entry.keys[key], line=entry.line)
        return []


def inventory_of(
    aligned: Aligned,
    options: Options,
    *,
    nodes: Mapping[str, SlurmNode] | None,
    cluster: str,
    warnings: Iterable[str] = (),
) -> Inventory:
    """An inventory of a Slurm map and the nodes that slurm.conf names; None if there is none.

    Nodes that the map leaves out have no place; those that only the map names are left out, as
    Slurm does.
    """
    found = [*warnings, *aligned.warnings]
    names = aligned.places if nodes is None else nodes
    if nodes is None:
        found += _strange_names(aligned)
    else:
        unplaced = [name for name in nodes if name not in aligned.places]
        if unplaced and aligned.levels:
            found.append(
                f"{listed('node', unplaced)} of slurm.conf in no switch or block: no place"
            )
        undefined = [name for name in aligned.places if name not in nodes]
        if undefined:
            found.append(f"{listed('node', undefined)} of the map not in slurm.conf; left out")
    levels = (*aligned.levels, NODE_LEVEL)
    known = nodes or {}
    machines = {n: known[n].machine if n in known else Machine() for n in names}
    placed = [
        name for name in names if aligned.places.get(name, {}).get(aligned.domain_level or "")
    ]
    typed = type_nodes(
        machines, options, levels, domain_level=aligned.domain_level, in_domain=placed
    )
    nowhere = dict.fromkeys(aligned.levels)
    records = [
        NodeRecord(
            name=name,
            type=typed.type_of[name],
            places=aligned.places.get(name, nowhere),
            labels=known[name].labels if name in known else {},
            taints=known[name].taints if name in known else (),
        )
        for name in sorted(names, key=natural_key)
    ]
    return Inventory(
        cluster=cluster,
        levels=levels,
        scale_up=options.scale_up_of(levels),
        node_types=typed.types,
        nodes=tuple(records),
        warnings=(*found, *typed.warnings),
    )


def _strange_names(aligned: Aligned) -> list[str]:
    """Nodes named unlike almost all others: a range that lost its prefix names what is no node."""
    of_prefix: dict[str, list[str]] = defaultdict(list)
    for name in aligned.places:
        of_prefix[_DIGITS.sub("#", name)].append(name)
    counts = Counter({prefix: len(names) for prefix, names in of_prefix.items()})
    if not counts:
        return []
    usual, most = counts.most_common(1)[0]
    total = len(aligned.places)
    strange = [p for p, count in counts.items() if p != usual and count <= STRANGE_SHARE * most]
    if sum(counts[p] for p in strange) > STRANGE_SHARE * total:
        return []
    example = of_prefix[usual][0]
    return first_of(
        [
            f"{listed('node', of_prefix[p])} named unlike the other {most}, such as '{example}': "
            f"has a range lost its prefix?"
            for p in strange
        ]
    )
