"""Slurm's block topology: named blocks of nodes, and the sizes of what is joined of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.importers.options import joint_name
from scheduler.importers.refusals import Refusals, first_of
from scheduler.importers.switch_tree import Aligned

BLOCK_LEVEL = "block"
"""Level of the blocks; blocks joined to one of N nodes are in level `block-N`."""

BLOCK_SIZES_MAX = 16
"""Sizes of one file; each is at least twice the one before."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as a file states it; `line` counts from 1, 0 where it is not known."""

    name: str
    line: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Planned sizes in nodes, as written; empty where the file names none."""

    line: int = 0
    values: tuple[int, ...] = ()


def align_blocks(blocks: Sequence[Block], sizes: BlockSizes, refusals: Refusals) -> Aligned:
    """The blocks as the inner level, and a level for every size that joins several of them.

    Slurm joins blocks in the order of the file: with sizes 4 and 8 the first two blocks of 4 are
    one block of 8. Each size is the first one times a power of two.
    """
    warnings: list[str] = []
    _check_sizes(sizes, refusals)
    _check_names(blocks, refusals)
    if refusals:
        return Aligned((), {}, ())
    if sizes.values:
        small = [
            f"block '{b.name}' (line {b.line}) has {len(set(b.nodes))} nodes, fewer than the block "
            f"size {sizes.values[0]}"
            for b in blocks
            if len(set(b.nodes)) < sizes.values[0]
        ]
        warnings += first_of(small)
    joint = _joint_levels(blocks, sizes)
    levels = (*(name for name, _ in joint), BLOCK_LEVEL)
    places: dict[str, dict[str, str | None]] = {}
    home: dict[str, Block] = {}
    doubled: list[str] = []
    for index, block in enumerate(blocks):
        for node in dict.fromkeys(block.nodes):
            first = home.setdefault(node, block)
            if first is not block:
                doubled.append(
                    f"node '{node}' is in the blocks '{first.name}' (line {first.line}) and "
                    f"'{block.name}' (line {block.line}); a node is in one, so it has no place"
                )
                places[node] = dict.fromkeys(levels)
                continue
            places[node] = {name: names[index] for name, names in joint}
            places[node][BLOCK_LEVEL] = block.name
    return Aligned(levels, places, (*warnings, *first_of(doubled)), BLOCK_LEVEL)


def _check_sizes(sizes: BlockSizes, refusals: Refusals) -> None:
    if len(sizes.values) > BLOCK_SIZES_MAX:
        refusals.add("BlockSizes", f"more than {BLOCK_SIZES_MAX} sizes", line=sizes.line)
        return
    for size in sizes.values:
        base = sizes.values[0]
        ratio = size // base if base > 0 else 0
        if ratio < 1 or size % base or ratio & (ratio - 1):
            refusals.add(
                "BlockSizes",
                f"the size {size} is not the first size, {base}, times a power of two",
                line=sizes.line,
            )
    if len(set(sizes.values)) < len(sizes.values):
        refusals.add("BlockSizes", "a size comes twice", line=sizes.line)


def _check_names(blocks: Sequence[Block], refusals: Refusals) -> None:
    seen: dict[str, Block] = {}
    for block in blocks:
        first = seen.setdefault(block.name, block)
        if first is not block:
            message = f"block '{block.name}' comes twice; the first is on line {first.line}"
            refusals.add("BlockName", message, line=block.line)
        if not block.nodes:
            refusals.add("Nodes", f"block '{block.name}' has no nodes", line=block.line)


def _joint_levels(blocks: Sequence[Block], sizes: BlockSizes) -> list[tuple[str, list[str]]]:
    """For each size that joins blocks, outermost first: the level and each block's domain there."""
    if not sizes.values:
        return []
    found: list[tuple[str, list[str]]] = []
    for size in sorted(sizes.values, reverse=True):
        count = size // sizes.values[0]
        # One domain of all nodes, or more room than there are blocks, says nothing about a node.
        if 1 < count < len(blocks):
            names = [
                joint_name([b.name for b in blocks[start : start + count]])
                for start in range(0, len(blocks), count)
            ]
            found.append((f"{BLOCK_LEVEL}-{size}", [names[i // count] for i in range(len(blocks))]))
    return found
