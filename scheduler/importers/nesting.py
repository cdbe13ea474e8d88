"""Where domains of a second kind, such as those of NVLink, fit into levels that are known already.

A kind becomes a level where it nests: each domain in one domain of the level outside it, and each
domain of the level inside it whole in one of them. A domain that does not nest is left out of the
level; a kind of which none nests stays a named set of nodes.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

Column = Sequence[Hashable | None]
"""The domain of each node at one level; None where it has none."""


@dataclass(frozen=True, slots=True)
class Nested:
    """Where a kind fits best.

    Attributes:
        position: Index among the known levels, outermost first, that the new level takes; None if
            no domain nests anywhere.
        left_out: Domains that do not nest there, in natural order.
        cleared: Nodes without a domain of the kind that are, at a level inside, in a domain whose
            other nodes have one: they cannot keep their places inside.
    """

    position: int | None
    left_out: tuple[str, ...] = ()
    cleared: tuple[int, ...] = ()


def nest(levels: Sequence[Column], kind: Sequence[str | None]) -> Nested:
    """The place of a kind among known levels; the innermost of several that are equally good.

    Args:
        levels: The known levels, outermost first; the nodes themselves are left out.
        kind: The kind's domain of each node; None where a node has none.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for node, domain in enumerate(kind):
        if domain is not None:
            members[domain].append(node)
    best: tuple[int, int, Nested] | None = None
    for position in range(len(levels), -1, -1):
        outside, inside = levels[:position], levels[position:]
        torn = {d for d, nodes in members.items() if _is_torn(outside, nodes)}
        torn |= {d for column in inside for d in _crossing(column, kind)}
        lost = sum(len(members[domain]) for domain in torn)
        cleared = _cleared(inside, kind, torn)
        if best is None or (lost, len(cleared)) < best[:2]:
            left_out = tuple(sorted(torn, key=natural_key))
            best = (lost, len(cleared), Nested(position, left_out, cleared))
    if best is None or len(best[2].left_out) == len(members):
        return Nested(None, tuple(sorted(members, key=natural_key)))
    return best[2]


def _is_torn(outside: Sequence[Column], nodes: Sequence[int]) -> bool:
    return any(len({column[node] for node in nodes} - {None}) > 1 for column in outside)


def _crossing(inside: Column, kind: Sequence[str | None]) -> set[str]:
    """The kind's domains that share a domain of a level inside with another of them."""
    around: dict[Hashable, set[str]] = defaultdict(set)
    for node, domain in enumerate(kind):
        inner = inside[node]
        if domain is not None and inner is not None:
            around[inner].add(domain)
    return {domain for found in around.values() if len(found) > 1 for domain in found}


def _cleared(
    inside: Sequence[Column], kind: Sequence[str | None], torn: set[str]
) -> tuple[int, ...]:
    kept = [domain if domain not in torn else None for domain in kind]
    found: set[int] = set()
    for column in inside:
        within = {column[n] for n, domain in enumerate(kept) if domain is not None} - {None}
        found.update(n for n, domain in enumerate(kept) if domain is None and column[n] in within)
    return tuple(sorted(found))


def nesting_warnings(
    noun: str, nested: Nested, nodes: Sequence[str], inner_level: str | None
) -> list[str]:
    """What a person should know of the place that was found.

    Args:
        noun: What one domain of the kind is called.
        inner_level: Name of the level inside the new one.
    """
    warnings: list[str] = []
    if nested.left_out and nested.position is None:
        warnings.append(
            f"{listed(noun, nested.left_out)} cut across every level, so they make no level; they "
            f"are kept as named sets"
        )
    elif nested.left_out:
        warnings.append(
            f"{listed(noun, nested.left_out)} cut across other levels, so their nodes have no "
            f"place in that level; they are kept as named sets"
        )
    if nested.cleared and inner_level is not None:
        warnings.append(
            f"{listed('node', [nodes[n] for n in nested.cleared])} without a {noun} in a "
            f"{inner_level} that lies in one; no place in level '{inner_level}' and those inside it"
        )
    return warnings


def with_level(
    columns: Mapping[str, list[str | None]], level: str, kind: list[str | None], nested: Nested
) -> dict[str, list[str | None]]:
    """The columns of all levels, outermost first, with the new one in its place."""
    if nested.position is None:
        return dict(columns)
    torn = set(nested.left_out)
    kept = [None if domain in torn else domain for domain in kind]
    found: dict[str, list[str | None]] = {}
    for position, (name, column) in enumerate(columns.items()):
        if position == nested.position:
            found[level] = kept
        found[name] = list(column)
        if position >= nested.position:
            for node in nested.cleared:
                found[name][node] = None
    found.setdefault(level, kept)
    return found
