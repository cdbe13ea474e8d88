"""Required rules of a layout pod by pod, for searches that move single pods."""

from collections.abc import Sequence

from scheduler.place.bounds import Wants
from scheduler.place.uniform import Ask, bounds_for

Bonds = Sequence[tuple[int, Sequence[int]]]
"""(level index, number of its unit for each pod): each unit lies in one domain of the level."""


def bonds_of(ask: Ask, must: Wants, pods: int) -> Bonds:
    """What required rules hold together.

    Args:
        must: Required rules by level.
    """
    bounds = bounds_for(ask, must, pods)
    out = [(level, unit_of_pods(ask, groups, pods)) for level, _, groups in bounds.units]
    if bounds.whole is not None:
        out.append((bounds.whole, [0] * pods))
    return out


def unit_of_pods(ask: Ask, groups: frozenset[str], pods: int) -> Sequence[int]:
    """For each pod, a number that it shares with the pods of its unit."""
    labels: Sequence[int] = ask.units.unit_labels(groups)[:pods].tolist()
    return labels


def are_kept(ask: Ask, bonds: Bonds, nodes: Sequence[int]) -> bool:
    """Whether each unit lies in one domain."""
    for level, labels in bonds:
        place = ask.view.topology.place[level]
        domains: dict[int, int] = {}
        for label, node in zip(labels, nodes, strict=True):
            if domains.setdefault(label, place[node]) != place[node]:
                return False
    return True
