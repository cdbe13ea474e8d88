"""Pods that must lie together: the closure of rules over overlapping groups."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.model.job import HEAVY_FIRST, JOB_GROUP, ParallelSizes, Role
from scheduler.parallel.groups import groups_of
from scheduler.parallel.remembered import remembered

PART_GROUP = ""
"""Group of the rules that hold for each part of a role by itself."""


SEGMENT = "segment:"
"""Begins the name of a group of so many consecutive pods, as in `segment:16`."""


def segment_group(pods: int) -> str:
    """The group of ranks in each segment of so many consecutive pods."""
    return f"{SEGMENT}{pods}"


Digits = tuple[tuple[str, int], ...]
"""(axis, size): an axis of `Units.axes` comes once, or in several parts from the inside out."""

Memberships = tuple[NDArray[np.int64], NDArray[np.int64]]


class Units(Protocol):
    """The pods of a gang, equal to each other, and the groups they form.

    Attributes:
        pods: Pods wanted.
        soft_groups: Groups worth keeping together without a rule, most traffic first.
    """

    pods: int
    soft_groups: tuple[str, ...]

    def __hash__(self) -> int:
        """By identity: what is found out about the pods is remembered for these."""

    def unit(self, groups: frozenset[str]) -> int:
        """Pods of one unit: the least set that holds every such group which it touches."""

    def memberships(self, group: str) -> Memberships:
        """(number of a group, pod) for each pod of each group of a kind, each pair once."""

    def unit_labels(self, groups: frozenset[str]) -> NDArray[np.int64]:
        """For each pod, a number that it shares with the pods of its unit."""

    def order(self, chain: tuple[frozenset[str], ...]) -> Sequence[int]:
        """Pod indices such that the units of each link of the chain are consecutive.

        Args:
            chain: Kinds of groups, outermost (largest units) first; each holds all of the next.
        """

    def axes(self) -> Mapping[str, int]:
        """Pods along each axis with several; empty where pods are no grid of axes."""

    def run_of(self, group: str) -> tuple[str, int] | None:
        """(axis, pods) where each unit of a kind is so many neighbours along one of `axes`."""

    def tile_order(self, digits: Digits) -> Sequence[int]:
        """Pod indices in the order of their digits, of which the first changes fastest."""


class PodGrid:
    """Pods of a parallel job."""

    def __init__(self, sizes: ParallelSizes, gpus_per_pod: int) -> None:
        self.sizes = sizes
        self.gpus_per_pod = gpus_per_pod
        self.pods = sizes.world // gpus_per_pod
        self.soft_groups = tuple(a for a in HEAVY_FIRST if self.unit(frozenset({a})) > 1)

    def unit(self, groups: frozenset[str]) -> int:
        return self.pods if JOB_GROUP in groups else _unit(self.sizes, self.gpus_per_pod, groups)

    def memberships(self, group: str) -> Memberships:
        if group == JOB_GROUP:
            return np.zeros(self.pods, dtype=np.int64), np.arange(self.pods, dtype=np.int64)
        return _memberships(self.sizes, self.gpus_per_pod, group)

    def unit_labels(self, groups: frozenset[str]) -> NDArray[np.int64]:
        if JOB_GROUP in groups:
            return np.zeros(self.pods, dtype=np.int64)
        return _labels(self.sizes, self.gpus_per_pod, groups)

    def order(self, chain: tuple[frozenset[str], ...]) -> Sequence[int]:
        return _order(
            self.sizes,
            self.gpus_per_pod,
            tuple(c - {JOB_GROUP} for c in chain if JOB_GROUP not in c),
        )

    def axes(self) -> Mapping[str, int]:
        return {
            axis: int(place.max()) + 1
            for axis, place in _places(self.sizes, self.gpus_per_pod).items()
            if place.any()
        }

    def run_of(self, group: str) -> tuple[str, int] | None:
        return _run_of(self.sizes, self.gpus_per_pod, group)

    def tile_order(self, digits: Digits) -> Sequence[int]:
        return _tile_order(self.sizes, self.gpus_per_pod, digits)


@lru_cache(maxsize=4096)
def pod_grid(sizes: ParallelSizes, gpus_per_pod: int) -> PodGrid:
    """Pods of a parallel job, made once."""
    return PodGrid(sizes, gpus_per_pod)


class Members:
    """Members of a role, which talk to their neighbours in number."""

    def __init__(self, role: Role, pods: int) -> None:
        self.role = role
        self.pods = pods
        self.part = role.parts.size if role.parts is not None else 1
        self.soft_groups = ((PART_GROUP,) if 1 < self.part < pods else ()) + (
            (JOB_GROUP,) if pods > 1 else ()
        )

    def unit(self, groups: frozenset[str]) -> int:
        return self.part if groups == {PART_GROUP} else self.pods

    def memberships(self, group: str) -> Memberships:
        return self.unit_labels(frozenset({group})), np.arange(self.pods, dtype=np.int64)

    def unit_labels(self, groups: frozenset[str]) -> NDArray[np.int64]:
        numbers = np.arange(self.pods, dtype=np.int64)
        return numbers // self.part if groups == {PART_GROUP} else numbers * 0

    def order(self, chain: tuple[frozenset[str], ...]) -> Sequence[int]:
        return range(self.pods)

    def axes(self) -> Mapping[str, int]:
        return {}

    def run_of(self, group: str) -> tuple[str, int] | None:
        return None

    def tile_order(self, digits: Digits) -> Sequence[int]:
        return range(self.pods)


@lru_cache(maxsize=4096)
def _unit(sizes: ParallelSizes, gpus_per_pod: int, groups: frozenset[str]) -> int:
    if not groups:
        return 1
    closed = _closed_form(sizes, gpus_per_pod, groups)
    if closed is not None:
        return closed
    _, counts = np.unique(_labels(sizes, gpus_per_pod, groups), return_counts=True)
    # All units are alike: shifting every rank by a pod, or a group, maps units onto units.
    return int(counts.max())


def _closed_form(sizes: ParallelSizes, gpus_per_pod: int, groups: frozenset[str]) -> int | None:
    """Product of the axes over what lies in one pod; None where pods cut axes unevenly."""
    if "ep" in groups or any(group.startswith(SEGMENT) for group in groups):
        return None
    left, product = gpus_per_pod, 1
    dense = sizes.dense()
    for axis in sizes.order:
        size = dense[axis]
        inside = min(left, size)
        if size % inside or left % inside:
            return None
        left //= inside
        if axis in groups:
            product *= size // inside
    return product


@remembered(1024)
def _labels(sizes: ParallelSizes, gpus_per_pod: int, groups: frozenset[str]) -> NDArray[np.int64]:
    """For each pod, the least pod of its unit: what touches is joined until nothing does."""
    labels = np.arange(sizes.world, dtype=np.int64) // gpus_per_pod
    arrays = [_members(sizes, gpus_per_pod, group) for group in sorted(groups)]
    while True:
        before = labels.copy()
        for array in arrays:
            labels[array] = labels[array].min(axis=1)[:, None]
        least = labels.reshape(-1, gpus_per_pod).min(axis=1)
        # Each takes its leader's own leader: long chains would take as many rounds as links else.
        labels = np.repeat(least[least], gpus_per_pod)
        if np.array_equal(labels, before):
            # A copy: a view would keep the labels of all ranks.
            return labels[::gpus_per_pod].copy()


@remembered(1024)
def _memberships(sizes: ParallelSizes, gpus_per_pod: int, group: str) -> Memberships:
    if _closed_form(sizes, gpus_per_pod, frozenset({group})) is not None:
        labels = _labels(sizes, gpus_per_pod, frozenset({group}))
        return labels, np.arange(len(labels), dtype=np.int64)
    pods = _members(sizes, gpus_per_pod, group) // gpus_per_pod
    numbers = np.arange(len(pods), dtype=np.int64)[:, None]
    pairs = np.unique(numbers * (sizes.world // gpus_per_pod) + pods)
    return pairs // (sizes.world // gpus_per_pod), pairs % (sizes.world // gpus_per_pod)


def _members(sizes: ParallelSizes, gpus_per_pod: int, group: str) -> NDArray[np.int64]:
    """The ranks of each group of a kind, (groups, size)."""
    if not group.startswith(SEGMENT):
        return groups_of(sizes)[group]
    ranks = min(int(group.removeprefix(SEGMENT)) * gpus_per_pod, sizes.world)
    return np.arange(sizes.world, dtype=np.int64).reshape(-1, ranks)


@remembered(1024)
def _places(sizes: ParallelSizes, gpus_per_pod: int) -> Mapping[str, NDArray[np.int64]]:
    """Axis -> where each pod is along it; empty where pods cut axes unevenly."""
    rest = np.arange(sizes.world // gpus_per_pod, dtype=np.int64) * gpus_per_pod
    left, found = gpus_per_pod, {}
    for axis in sizes.order:
        size = sizes.dense()[axis]
        inside = min(left, size)
        if size % inside or left % inside:
            return {}
        left //= inside
        found[axis] = rest % size // inside
        rest = rest // size
    return found


@remembered(1024)
def _run_of(sizes: ParallelSizes, gpus_per_pod: int, group: str) -> tuple[str, int] | None:
    labels = _labels(sizes, gpus_per_pod, frozenset({group}))
    pods, places = _unit(sizes, gpus_per_pod, frozenset({group})), _places(sizes, gpus_per_pod)
    for axis, place in places.items():
        if (int(place.max()) + 1) % pods:
            continue
        rows = [labels, place // pods, *(other for a, other in places.items() if a != axis)]
        # Runs of so many neighbours are as many as the units, so each is one if none is cut.
        if len(np.unique(np.stack(rows), axis=1).T) == len(labels) // pods:
            return axis, pods
    return None


@remembered(1024)
def _tile_order(sizes: ParallelSizes, gpus_per_pod: int, digits: Digits) -> Sequence[int]:
    rest = dict(_places(sizes, gpus_per_pod))
    keys = []
    for axis, size in digits:
        keys.append(rest[axis] % size)
        rest[axis] = rest[axis] // size
    return [int(i) for i in np.lexsort(keys)]


@remembered(1024)
def _order(
    sizes: ParallelSizes, gpus_per_pod: int, chain: tuple[frozenset[str], ...]
) -> Sequence[int]:
    pods = sizes.world // gpus_per_pod
    first_ranks = np.arange(pods, dtype=np.int64) * gpus_per_pod
    keys, rest = [], first_ranks
    by_axis = {}
    for axis in sizes.order:
        size = sizes.dense()[axis]
        by_axis[axis] = rest % size
        rest = rest // size
    # lexsort sorts by its last key first: light axes vary slowest, then units from the outside in.
    keys = [by_axis[axis] for axis in HEAVY_FIRST]
    keys += [_labels(sizes, gpus_per_pod, link) for link in reversed(chain) if link]
    return [int(i) for i in np.lexsort(keys)]
