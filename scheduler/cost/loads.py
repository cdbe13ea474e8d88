"""How busy the links are that flows go through, with all their groups at work at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.cost.fabric import Fabric
from scheduler.cost.hops import Mesh, Ring, Rings, true_rows
from scheduler.model.job import ParallelSizes
from scheduler.parallel.groups import groups_over

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Laid:
    """A layout on a place.

    Attributes:
        at: Node of each pod.
        gpus: GPU index of each rank, or None where every pod has the same.
        left: Levels that one hop of each ring and chain is taken to leave at least, though all may
            lie together.
        shares: Of each pod's NICs what is left, for flows that spread over them and for flows
            that do not, (2, pods); None where all is well.
    """

    sizes: ParallelSizes
    gpus_per_pod: int
    fabric: Fabric
    cross_rail_factor: float
    at: Ints
    gpus: Ints | None
    shares: Floats | None
    left: int = 0


@dataclass(slots=True)
class Labels:
    """Domains that a gang touches, numbered through all levels that count.

    Attributes:
        of_pods: Domain of each pod, (levels, pods).
        gpus: The gang's GPUs in each domain.
        first: First domain of each level, and the end.
    """

    of_pods: Ints
    gpus: Floats
    first: Sequence[int]


@dataclass(slots=True)
class Load:
    """Seconds for each byte that a rank sends, at the links of one flow.

    Attributes:
        nic, uplink: At the busiest node, at the busiest uplink; 0.0 if unused.
        link: Name of that uplink.
        far: Levels that the farthest hop leaves; 0 = stays inside the scale-up domain.
        is_inside: Some hop stays inside.
        rail_true: All groups are.
    """

    nic: float
    uplink: float
    link: str
    far: int
    is_inside: bool
    rail_true: bool


STAYS = Load(0.0, 0.0, "", 0, is_inside=True, rail_true=True)
"""Of a flow whose groups lie in one pod each."""


def labels_of(laid: Laid) -> Labels:
    """Number the domains that the gang's pods lie in."""
    # `take` is several times as fast here as an index in brackets.
    flat = laid.fabric.place.take(laid.at, axis=1).ravel()
    order = flat.argsort()
    ordered = flat.take(order)
    is_new = np.zeros(len(flat), dtype=np.int64)
    is_new[1:] = ordered[1:] != ordered[:-1]
    numbers = is_new.cumsum()
    labels = np.empty_like(flat)
    labels[order] = numbers
    counts = np.bincount(numbers)
    pods = len(laid.at)
    return Labels(
        of_pods=labels.reshape(-1, pods),
        gpus=counts.astype(np.float64) * laid.gpus_per_pod,
        # The numbers of a level follow those of the level before.
        first=[*numbers[::pods].tolist(), len(counts)],
    )


def ring_loads(laid: Laid, table: Rings, labels: Labels) -> list[Load]:
    """Loads of each ring of the table."""
    if not table.parts:
        return []
    fabric, pods, rings = laid.fabric, len(laid.at), len(table.parts)
    here = labels.of_pods.take(table.src, axis=1)
    leaves = here != labels.of_pods.take(table.dst, axis=1)
    depth = leaves.sum(axis=0)
    true_share, all_true = _true_shares(laid, table)
    at_nic = table.count * fabric.at_nic.take(depth)
    if true_share is not None:
        at_nic *= laid.cross_rail_factor - (laid.cross_rail_factor - 1.0) * true_share
    nic = np.bincount(table.ring * pods + table.src, at_nic, rings * pods).reshape(rings, pods)
    if laid.shares is not None:
        nic = nic / np.where(table.is_spread[:, None], laid.shares[0], laid.shares[1])
    at_nics = (nic.max(axis=1) * table.per_nic * fabric.s_per_byte[0]).tolist()
    far = np.maximum.reduceat(depth, table.starts).tolist()
    farther = float(fabric.at_nic[laid.left + 1] / fabric.at_nic[1])
    near = np.minimum.reduceat(depth, table.starts).tolist()
    ids = len(labels.gpus)
    keys = table.ring * ids + here[1:]
    out = np.bincount(keys.ravel(), (leaves[1:] * table.count).ravel(), rings * ids)
    per_gpu = out.reshape(rings, ids) / labels.gpus
    per_gpu *= table.hop_share[:, None]
    uplinks = _uplinks(fabric, per_gpu, labels, max(far))
    found = []
    for number, part in enumerate(table.parts):
        uplink, link = _busiest(fabric, [level[number] for level in uplinks])
        inside = part.is_inside or near[number] == 0
        leaves_most = max(far[number], laid.left + 1) if laid.left and part.ways else far[number]
        if part.ways:
            at_nics[number] *= 1.0 + (farther - 1.0) / part.ways
        found.append(
            Load(at_nics[number], uplink, link, leaves_most, inside, rail_true=all_true[number])
        )
    return found


def _uplinks(fabric: Fabric, per_gpu: Floats, labels: Labels, far: int) -> list[list[float]]:
    """Seconds per byte at the busiest uplink of each level outside the NICs, (levels, rings)."""
    return [
        (
            per_gpu[:, labels.first[level] : labels.first[level + 1]].max(axis=1)
            * fabric.s_per_byte[level]
        ).tolist()
        for level in range(1, far)
    ]


def _busiest(fabric: Fabric, loads: Sequence[float]) -> tuple[float, str]:
    """The busiest of the links above NICs, and its name."""
    worst = max(loads, default=0.0)
    return (worst, fabric.links[1 + loads.index(worst)]) if worst else (0.0, "")


def _true_shares(laid: Laid, table: Rings) -> tuple[Floats | None, list[bool]]:
    """For each hop the share of rail-true groups, None = all; for each ring whether all are."""
    if laid.gpus is None:
        all_true = [part.is_true for part in table.parts]
        return None if all(all_true) else table.true_share, all_true
    shares: list[Floats] = []
    all_true = []
    for part in table.parts:
        true = _true_rows(laid, laid.gpus, part)
        shares.append(np.bincount(part.hop_of, true[part.row_of], len(part.src)) / part.count)
        all_true.append(bool(true.all()))
    return np.concatenate(shares), all_true


def _true_rows(laid: Laid, gpus: Ints, table: Ring | Mesh) -> NDArray[np.bool_]:
    pattern = table.pattern
    rows = groups_over(laid.sizes, pattern.over, expert=pattern.expert)
    return true_rows(laid.at[rows // laid.gpus_per_pod], gpus[rows])


def mesh_load(laid: Laid, table: Mesh, labels: Labels) -> Load:
    """Loads of an all-to-all: what each rank sends out of each domain it is in."""
    fabric, size, ids = laid.fabric, table.size, len(labels.gpus)
    here = labels.of_pods.take(table.pod, axis=1)
    outside = size - _together(table, here, ids)
    sent = table.sent
    # What leaves one level but not the next goes up so many tiers.
    reach = outside.copy()
    reach[:-1] -= outside[1:]
    at_nic = fabric.at_nic[1:] @ reach * sent
    true, all_true = _true_kinds(laid, table)
    if true is not None:
        at_nic *= (laid.cross_rail_factor - (laid.cross_rail_factor - 1.0) * true).take(table.row)
    nic = np.bincount(table.pod, at_nic, len(laid.at))
    if laid.shares is not None:
        nic = nic / laid.shares[1]
    out = np.bincount(here.ravel(), (outside * sent).ravel(), ids) / labels.gpus
    far = int((outside.max(axis=1) > 0).sum())
    uplinks = _uplinks(fabric, out[None, :], labels, far)
    uplink, link = _busiest(fabric, [level[0] for level in uplinks])
    return Load(
        nic=float(nic.max()) / laid.gpus_per_pod * fabric.s_per_byte[0],
        uplink=uplink,
        link=link,
        far=far,
        is_inside=bool(outside[0].min() < size - 1),
        rail_true=all_true,
    )


def _true_kinds(laid: Laid, table: Mesh) -> tuple[Floats | None, bool]:
    """For each kind of group the share that is rail-true, None = all; and whether all are."""
    if laid.gpus is None:
        all_true = bool(table.is_true.all())
        return None if all_true else table.is_true.astype(np.float64), all_true
    true = _true_rows(laid, laid.gpus, table)
    return np.bincount(table.kind_of, true) / table.copies, bool(true.all())


def _together(table: Mesh, here: Ints, ids: int) -> Floats:
    """Ranks of its group in the domain of each part, (levels, parts)."""
    keys = (table.row * ids + here).ravel()
    members = np.broadcast_to(table.members, here.shape).ravel()
    rows = len(table.copies)
    if rows * ids > 4 * len(keys) + 65_536:
        # Too many pairs of group and domain to count in one table.
        keys = np.unique(keys, return_inverse=True)[1]
        counts = np.bincount(keys, members)
    else:
        counts = np.bincount(keys, members, rows * ids)
    counted = counts[keys]
    together: Floats = counted.reshape(here.shape)
    return together
