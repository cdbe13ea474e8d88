"""Which pods talk to which, counted once for a layout and used for every place it may have."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.model.job import ParallelSizes
from scheduler.parallel.groups import groups_over
from scheduler.parallel.remembered import remembered
from scheduler.parallel.traffic import ALL_TO_ALL, SEND_RECV, Pattern

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
"""Ranks and counts of ranks; there may be a million, and many tables are kept."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_GPUS_OF_A_NODE = 64
"""More than a node can have, so that node x 64 + GPU tells GPUs apart."""


_NO_PODS: Ints = np.zeros(0, dtype=np.int64)
_NO_COUNTS: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Ring:
    """Hops between pods of one flow that goes from neighbour to neighbour.

    Attributes:
        src, dst: Pods of each hop, each pair once.
        count: Hops between ranks that the pair stands for.
        true_share: Of these hops, the share in groups that are rail-true if every pod has the same
            GPUs.
        hop_of, row_of: For each hop between ranks of different pods, its pair and its group.
        is_true: All groups are so.
        is_inside: Some hop stays in its pod.
        is_spread: Its hops use all NICs of a pod alike, as the channels of a collective do.
        nics: NICs of a pod that they use together.
        pods: Pods of a group, the most of any.
        local: Ranks of a group in a pod; a mean where pods cut groups unevenly.
        hop_share: Of what a rank sends, the part that one hop carries.
        ways: Others that each pod sends to, all of them equally much: 1 in a ring, 2 in a chain, at
            whose ends it is one; 0 where pods differ, and in groups of the expert grid.
    """

    pattern: Pattern
    src: Ints
    dst: Ints
    count: Floats
    true_share: Floats
    hop_of: Small
    row_of: Small
    is_true: bool
    is_inside: bool
    is_spread: bool
    nics: int
    pods: int
    local: float
    hop_share: float
    ways: int


@dataclass(frozen=True, slots=True)
class Mesh:
    """Groups of one flow in which everybody talks to everybody.

    Attributes:
        size: Ranks of a group.
        row, pod: Group and pod of each part of a group that lies in one pod.
        members: Ranks of that part.
        sent: What it sends to each rank elsewhere, of all copies together: the share of a rank's
            bytes, times the ranks.
        copies: Groups that are alike down to their pods and stand for one here.
        is_true: Whether the group is rail-true if every pod has the same GPUs.
        kind_of: For each group, the row that stands for it.
        pods, local: As for `Ring`.
    """

    pattern: Pattern
    size: int
    row: Ints
    pod: Ints
    members: Floats
    sent: Floats
    copies: Floats
    is_true: Flags
    kind_of: Small
    is_inside: bool
    pods: int
    local: float


@dataclass(frozen=True, slots=True)
class Rings:
    """Several rings in one table, so that all are counted together.

    Attributes:
        parts: Those of which some hop leaves its pod.
        src, dst, count, true_share: Of all their hops, ring by ring.
        ring: Which of them each hop belongs to.
        starts: First hop of each.
        per_nic: For each, hop_share / nics.
        hop_share, is_spread: For each.
    """

    parts: tuple[Ring, ...]
    src: Ints
    dst: Ints
    count: Floats
    true_share: Floats
    ring: Ints
    starts: Ints
    per_nic: Floats
    hop_share: Floats
    is_spread: Flags


@remembered(1024)
def ring_of(sizes: ParallelSizes, pattern: Pattern, gpus_per_pod: int) -> Ring:
    """Hops of a flow that is not an all-to-all."""
    rows = groups_over(sizes, pattern.over, expert=pattern.expert)
    pods = rows // gpus_per_pod
    if pattern.collective == SEND_RECV:
        src, dst = pods[:, :-1], pods[:, 1:]
        ends = np.stack([rows[:, :-1], rows[:, 1:]])
    else:
        src, dst = pods, np.roll(pods, -1, axis=1)
        ends = np.stack([rows, np.roll(rows, -1, axis=1)])
    leaves = src != dst
    row_of = np.nonzero(leaves)[0]
    src, dst = src[leaves], dst[leaves]
    if pattern.collective == SEND_RECV:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        row_of = np.concatenate([row_of, row_of])
    world = sizes.world // gpus_per_pod
    pairs, hop_of, counts = np.unique(src * world + dst, return_inverse=True, return_counts=True)
    true = true_rows(pods, rows % gpus_per_pod)
    true_count = np.bincount(hop_of, weights=true[row_of], minlength=len(pairs))
    touched = distinct(pods)
    return Ring(
        pattern=pattern,
        src=pairs // world,
        dst=pairs % world,
        count=counts.astype(np.float64),
        true_share=true_count / counts,
        hop_of=hop_of.astype(np.int32),
        row_of=row_of.astype(np.int32),
        is_true=bool(true.all()),
        is_inside=not leaves.all(),
        is_spread=pattern.collective != SEND_RECV,
        nics=_nics(pattern, ends[:, leaves], gpus_per_pod),
        pods=int(touched.max()),
        local=rows.shape[1] / float(touched.mean()),
        hop_share=0.5 if pattern.collective == SEND_RECV and rows.shape[1] > 2 else 1.0,
        ways=_ways(pattern, pairs // world, counts),
    )


def _ways(pattern: Pattern, src: Ints, counts: Ints) -> int:
    """Of hops between pods: their sources, and how many hops between ranks each stands for."""
    if pattern.expert or not len(src) or counts.min() != counts.max():
        return 0
    most = int(np.bincount(src).max())
    return most if most == (2 if pattern.collective == SEND_RECV else 1) else 0


def _nics(pattern: Pattern, ends: Ints, gpus_per_pod: int) -> int:
    """All of a pod for collectives, which spread over channels; else those of ranks that send."""
    if pattern.collective != SEND_RECV or not ends.size:
        return gpus_per_pod
    senders = np.unique(ends)
    return max(1, int(np.unique(senders // gpus_per_pod, return_counts=True)[1].min()))


@remembered(512)
def mesh_of(sizes: ParallelSizes, pattern: Pattern, gpus_per_pod: int) -> Mesh:
    """Groups of an all-to-all."""
    rows = groups_over(sizes, pattern.over, expert=pattern.expert)
    pods = rows // gpus_per_pod
    true = true_rows(pods, rows % gpus_per_pod)
    kinds, kind_of, copies = np.unique(
        np.column_stack([true, pods]), axis=0, return_inverse=True, return_counts=True
    )
    kind_of = kind_of.reshape(-1)
    world = sizes.world // gpus_per_pod
    keys = kinds[:, 1:] + np.arange(len(kinds))[:, None] * world
    parts, members = np.unique(keys, return_counts=True)
    touched = distinct(pods)
    return Mesh(
        pattern=pattern,
        size=rows.shape[1],
        row=parts // world,
        pod=parts % world,
        members=members.astype(np.float64),
        sent=members * copies[parts // world] / (rows.shape[1] - 1),
        copies=copies.astype(np.float64),
        is_true=kinds[:, 0].astype(bool),
        kind_of=kind_of.astype(np.int32),
        is_inside=bool((members > 1).any()),
        pods=int(touched.max()),
        local=rows.shape[1] / float(touched.mean()),
    )


@remembered(512)
def rings_of(sizes: ParallelSizes, patterns: tuple[Pattern, ...], gpus_per_pod: int) -> Rings:
    """The rings of all flows that are not all-to-alls, in their order."""
    rings = (
        ring_of(sizes, pattern, gpus_per_pod)
        for pattern in patterns
        if pattern.collective != ALL_TO_ALL
    )
    parts = tuple(ring for ring in rings if len(ring.src))
    lengths = [len(part.src) for part in parts]
    return Rings(
        parts=parts,
        src=np.concatenate([_NO_PODS, *(part.src for part in parts)]),
        dst=np.concatenate([_NO_PODS, *(part.dst for part in parts)]),
        count=np.concatenate([_NO_COUNTS, *(part.count for part in parts)]),
        true_share=np.concatenate([_NO_COUNTS, *(part.true_share for part in parts)]),
        ring=np.repeat(np.arange(len(parts)), lengths),
        starts=np.cumsum([0, *lengths])[:-1],
        per_nic=np.array([part.hop_share / part.nics for part in parts]),
        hop_share=np.array([part.hop_share for part in parts]),
        is_spread=np.array([part.is_spread for part in parts], dtype=bool),
    )


def distinct(rows: Ints) -> Ints:
    """Different values in each row, whose equal values stand together."""
    changes: Ints = (np.diff(rows, axis=1) != 0).sum(axis=1)
    return changes + 1


def true_rows(nodes: Ints, gpus: Ints) -> Flags:
    """Whether each group uses the same GPU indices on every node it touches.

    Args:
        nodes, gpus: Node and GPU index of every member, (groups, group size).
    """
    keys = np.sort(nodes * _GPUS_OF_A_NODE + gpus, axis=1)
    touched = distinct(keys // _GPUS_OF_A_NODE)
    size = keys.shape[1]
    true = np.zeros(len(keys), dtype=bool)
    for count in np.unique(touched):
        if size % count:
            continue  # some node has more of the group's GPUs than another
        chosen = touched == count
        rows = keys[chosen].reshape(-1, count, size // count)
        node, gpu = rows // _GPUS_OF_A_NODE, rows % _GPUS_OF_A_NODE
        evenly = (node == node[:, :, :1]).all(axis=(1, 2))
        alike = (gpu == gpu[:, :1, :]).all(axis=(1, 2))
        true[chosen] = evenly & alike
    return true
