"""Which domain each node is in at every level, with contradictions left out and gaps filled.

A domain lies in one domain of each outer level. Where its nodes name two, it is left out: they keep
every other place. Where some of its nodes name none, they are in the one that the others name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.topology.natural import natural_key

Places = Sequence[Sequence[str | None]]
"""`places[level][node]`: name of the domain that a node is in, for every level but `node`."""

LISTED_MAX = 3
"""Names shown in a warning before it says how many more there are."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Places that form a tree.

    Attributes:
        places: As declared, without left-out domains, with gaps filled.
        warnings: One for each domain left out, then one for each gap filled.
    """

    places: Places
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Mending:
    """What the passes over the declared places have found so far.

    Attributes:
        said: `said[level][node]`: what was declared or follows from it, left-out domains included,
            for they contradict an inner domain all the same.
        left_out: (level, domain) -> the outer level whose domain its nodes disagree about, and for
            each domain that they name there the nodes that name it.
        filled: (level, domain, outer level) -> nodes whose outer place came from the others.
    """

    said: list[list[str | None]]
    left_out: dict[tuple[int, str], tuple[int, dict[str, list[int]]]] = field(default_factory=dict)
    filled: dict[tuple[int, str, int], list[int]] = field(default_factory=dict)


def settle(level_names: Sequence[str], declared: Places, node_names: Sequence[str]) -> Settled:
    """Leave out each domain that lies in two parents and fill outer places from siblings.

    The order of the nodes does not change the result. A fill may show a contradiction further out,
    so passes are repeated until nothing changes; then once more from the start with all left-out
    domains known, since those must not fill anything.
    """
    mending = _Mending([list(column) for column in declared])
    while _pass(mending):
        pass
    if mending.left_out and mending.filled:
        mending.said = [list(column) for column in declared]
        mending.filled.clear()
        while _pass(mending):
            pass
    places = [
        [
            None if name is not None and (level, name) in mending.left_out else name
            for name in column
        ]
        for level, column in enumerate(mending.said)
    ]
    return Settled(
        places,
        (*_left_out(mending, level_names, node_names), *_filled(mending, level_names, node_names)),
    )


def _pass(mending: _Mending) -> bool:
    """Visit the levels from outside in; whether a place was filled."""
    found = False
    for level in range(1, len(mending.said)):
        parents = [_parents(mending, level, outer) for outer in range(level)]
        for outer in range(level):
            found |= _fill(mending, level, outer, parents[outer])
    return found


def _parents(mending: _Mending, level: int, outer: int) -> dict[str, str]:
    """The outer level's domain that each domain is in; those in two join the left-out ones."""
    parents: dict[str, str] = {}
    torn: set[str] = set()
    for name, parent in zip(mending.said[level], mending.said[outer], strict=True):
        if name is not None and parent is not None and parents.setdefault(name, parent) != parent:
            torn.add(name)
    if torn:
        _leave_out(mending, level, outer, torn)
    return parents


def _leave_out(mending: _Mending, level: int, outer: int, torn: set[str]) -> None:
    """Note who names which parent; the innermost level that disagrees is the one told."""
    told: dict[str, dict[str, list[int]]] = {name: {} for name in torn}
    for node, (name, parent) in enumerate(
        zip(mending.said[level], mending.said[outer], strict=True)
    ):
        if name in told and parent is not None:
            told[name].setdefault(parent, []).append(node)
    for name, nodes_of in told.items():
        before = mending.left_out.get((level, name))
        if before is None or before[0] < outer:
            mending.left_out[level, name] = (outer, nodes_of)


def _fill(mending: _Mending, level: int, outer: int, parents: dict[str, str]) -> bool:
    found = False
    outer_column = mending.said[outer]
    for node, parent in enumerate(outer_column):
        if parent is not None:
            continue
        name = mending.said[level][node]
        if name is not None and name in parents and (level, name) not in mending.left_out:
            outer_column[node] = parents[name]
            mending.filled.setdefault((level, name, outer), []).append(node)
            found = True
    return found


def _left_out(
    mending: _Mending, level_names: Sequence[str], node_names: Sequence[str]
) -> Iterator[str]:
    for (level, name), (outer, nodes_of) in sorted(
        mending.left_out.items(), key=lambda item: _order(*item[0])
    ):
        what, above = level_names[level], level_names[outer]
        parents = sorted(nodes_of, key=natural_key)
        says = [
            f"'{parent}' ({_nodes(nodes_of[parent], node_names)})"
            for parent in parents[:LISTED_MAX]
        ]
        more = f" and {len(parents) - LISTED_MAX} more" if len(parents) > LISTED_MAX else ""
        yield (
            f"{what} '{name}' is in {above} {' and '.join(says)}{more}; a {what} lies in one "
            f"{above}, so it was left out and its nodes have no {what}"
        )


def _filled(
    mending: _Mending, level_names: Sequence[str], node_names: Sequence[str]
) -> Iterator[str]:
    for (level, name, outer), nodes in sorted(
        mending.filled.items(), key=lambda item: _order(*item[0])
    ):
        parent = mending.said[outer][nodes[0]]
        if parent is not None and (outer, parent) not in mending.left_out:
            what, above = level_names[level], level_names[outer]
            yield (
                f"{_nodes(nodes, node_names)} named no {above}; taken as '{parent}', "
                f"where the rest of {what} '{name}' is"
            )


def _order(level: int, name: str, outer: int = 0) -> tuple[int, object, int]:
    return level, natural_key(name), outer


def _nodes(nodes: Sequence[int], node_names: Sequence[str]) -> str:
    return listed("node", sorted((node_names[node] for node in nodes), key=natural_key))


def listed(noun: str, names: Sequence[str]) -> str:
    """`node 'n1'`, `nodes 'n1', 'n2', 'n3' and 5 more`."""
    shown = ", ".join(f"'{name}'" for name in names[:LISTED_MAX])
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{noun}{plural if len(names) > 1 else ''} {shown}{more}"
