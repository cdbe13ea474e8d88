"""Seconds that one training step spends talking, for a layout on a place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.cost.collectives import (
    Ways,
    all_reduce_s,
    all_to_all_s,
    halves_s,
    ring_s,
    send_recv_s,
)
from scheduler.cost.constants import CONSTANTS, Constants
from scheduler.cost.fabric import SCALE_UP_LINK, fabric_for
from scheduler.cost.hops import Mesh, Ring, mesh_of, ring_of, rings_of
from scheduler.cost.loads import STAYS, Laid, Load, labels_of, mesh_load, ring_loads
from scheduler.cost.shares import nic_shares
from scheduler.cost.spans import Span, spans_of
from scheduler.errors import invariant
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.model.node import NodeType
from scheduler.model.resources import indices_of
from scheduler.parallel.groups import groups_of
from scheduler.parallel.traffic import (
    ALL_REDUCE,
    ALL_TO_ALL,
    REDUCE_SCATTER_ALL_GATHER,
    RING,
    SEND_RECV,
    AxisTraffic,
    Flow,
    Pattern,
    traffic_of,
)
from scheduler.topology.tree import Topology

Ints = NDArray[np.int64]

LATENCY = "latency"
"""The bottleneck of an axis whose messages are too small for any link to count."""

_WITHIN = "tp"
"""The axis that is left out of the time between nodes."""


@dataclass(frozen=True, slots=True)
class _Where:
    """What it takes to count the spans of groups."""

    topology: Topology
    node_type: NodeType
    sizes: ParallelSizes
    gpus_per_pod: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AxisTime:
    """What one axis costs in a step.

    Attributes:
        count, size: Its groups.
        bytes_per_step: Sent by each rank.
        seconds: Of its slowest group, all groups at once.
        exposed_s: What is not hidden behind computation.
        bottleneck: `scale_up`, `rail` or `nic` (the node's own), the level whose uplinks bind, or
            `latency`.
        rail_true: Every group has the same GPU indices on every node it touches.
    """

    count: int
    size: int
    bytes_per_step: float
    seconds: float
    exposed_s: float
    bottleneck: str
    rail_true: bool
    axis: str = field(repr=False)
    where: _Where = field(repr=False, compare=False)

    @property
    def spans(self) -> Mapping[str, Span]:
        """Level -> domains that the groups touch; counted when asked for."""
        at = self.where
        return spans_of(
            groups_of(at.sizes)[self.axis] // at.gpus_per_pod,
            at.nodes,
            at.topology,
            at.node_type,
            at.gpus_per_pod,
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a place costs.

    Attributes:
        axes: Of size above 1.
        inter_node_s: Sum over the flows that leave a pod, tp left out, before overlap; 0.0 when
            nothing does.
        total_s: Sum of what every axis exposes, tp too.
        assumed: Nobody described the model, or not all of it.
        table_version: Of the constants.
    """

    axes: Mapping[str, AxisTime]
    inter_node_s: float
    total_s: float
    assumed: bool
    table_version: str


def predict(
    spec: JobSpec,
    topology: Topology,
    node_type: NodeType,
    gpus_per_pod: int,
    nodes: Sequence[int],
    masks: Sequence[int] | None = None,
    dead_rails: Mapping[int, int] | None = None,
    *,
    constants: Constants = CONSTANTS,
    left: int = 0,
) -> Prediction:
    """Price a place for all pods of a parallel job; no axes for a job of roles.

    All groups of an axis run at once and share NICs and uplinks; the axes one after the other. Of
    the links above a domain the job has the share that its GPUs are of the domain's: the others
    are taken to be as busy.

    Args:
        nodes: Node index of each pod, by pod index; as many as the job has pods.
        masks: GPUs of each pod; None = the same on every node.
        dead_rails: Node index -> mask of its dead rails.
        left: Levels outside the scale-up domain that a hop of each ring and chain is taken to
            leave: for a bound that no place beats where domains are too small for these.
    """
    sizes = spec.parallelism
    if sizes is None:
        return Prediction({}, 0.0, 0.0, False, constants.version)
    invariant(
        len(nodes) * gpus_per_pod == sizes.world,
        f"{len(nodes)} pods of {gpus_per_pod} GPUs are not {sizes.world} ranks",
    )
    traffic = traffic_of(spec, constants.traffic)
    flows = tuple(flow for axis in traffic.values() for flow in axis.flows)
    patterns = tuple(pattern for axis in traffic.values() for pattern in axis.patterns)
    laid = Laid(
        sizes=sizes,
        gpus_per_pod=gpus_per_pod,
        fabric=fabric_for(topology, node_type, constants),
        # A fabric without rails has none to cross.
        cross_rail_factor=constants.cross_rail_factor if node_type.rails > 1 else 1.0,
        at=np.asarray(nodes, dtype=np.int64),
        gpus=_gpus_of_ranks(masks),
        shares=nic_shares(node_type, gpus_per_pod, nodes, masks, dead_rails, constants),
        left=left,
    )
    priced = _prices(laid, flows, patterns, constants)
    where = _Where(topology, node_type, sizes, gpus_per_pod, tuple(nodes))
    return _sum_up(traffic, priced, where, constants)


def _sum_up(
    traffic: Mapping[str, AxisTraffic],
    priced: Sequence["_Price"],
    where: _Where,
    constants: Constants,
) -> Prediction:
    axes: dict[str, AxisTime] = {}
    between_s, exposed_s, at = 0.0, 0.0, 0
    for axis, carried in traffic.items():
        prices = priced[at : at + len(carried.flows)]
        at += len(carried.flows)
        seconds = sum(price.seconds for price in prices)
        slowest = max(prices, key=lambda price: price.seconds)
        exposed = seconds * (1.0 - carried.overlap)
        exposed_s += exposed
        if axis != _WITHIN:
            between_s += sum(price.seconds for price in prices if price.leaves)
        size = carried.flows[0].size if len(carried.flows[0].over) == 1 else 0
        size = size or getattr(where.sizes, axis)
        axes[axis] = AxisTime(
            count=where.sizes.world // size,
            size=size,
            bytes_per_step=carried.bytes_per_step,
            seconds=seconds,
            exposed_s=exposed,
            bottleneck=slowest.bottleneck,
            rail_true=all(price.rail_true for price in prices),
            axis=axis,
            where=where,
        )
    return Prediction(
        axes=axes,
        inter_node_s=between_s,
        total_s=exposed_s,
        assumed=any(carried.assumed for carried in traffic.values()),
        table_version=constants.version,
    )


@dataclass(frozen=True, slots=True)
class _Price:
    """One flow: `leaves` = some hop is between pods."""

    seconds: float
    bottleneck: str
    rail_true: bool
    leaves: bool


def _gpus_of_ranks(masks: Sequence[int] | None) -> Ints | None:
    if masks is None or len(set(masks)) < 2:
        return None
    return np.array([gpu for mask in masks for gpu in indices_of(mask)], dtype=np.int64)


def _prices(
    laid: Laid, flows: tuple[Flow, ...], patterns: tuple[Pattern, ...], constants: Constants
) -> list[_Price]:
    labels = labels_of(laid)
    loads = iter(ring_loads(laid, rings_of(laid.sizes, patterns, laid.gpus_per_pod), labels))
    priced = []
    for flow, pattern in zip(flows, patterns, strict=True):
        table: Ring | Mesh
        if flow.collective == ALL_TO_ALL:
            table = mesh_of(laid.sizes, pattern, laid.gpus_per_pod)
            load = mesh_load(laid, table, labels)
        else:
            table = ring_of(laid.sizes, pattern, laid.gpus_per_pod)
            load = next(loads) if len(table.src) else STAYS
        priced.append(_price(laid, flow, table, load, constants))
    return priced


def _price(laid: Laid, flow: Flow, table: Ring | Mesh, load: Load, constants: Constants) -> _Price:
    fabric = laid.fabric
    inside = fabric.scale_up_s_per_byte if load.is_inside else 0.0
    hop_s = fabric.hop_s[load.far]
    if load.far and (laid.shares is not None or not load.rail_true):
        hop_s += constants.detour_s
    ways = Ways(
        pods=table.pods,
        local=table.local,
        inside_s_per_byte=inside,
        between_s_per_byte=max(load.nic, load.uplink),
        inside_hop_s=constants.scale_up_hop_s,
        between_hop_s=hop_s,
    )
    seconds = _seconds(flow, ways, constants)
    slowest = max(inside, load.nic, load.uplink)
    bottleneck = {inside: SCALE_UP_LINK, load.nic: fabric.links[0], load.uplink: load.link}[slowest]
    if seconds > 2 * flow.sent_bytes * slowest:
        bottleneck = LATENCY
    return _Price(seconds, bottleneck, load.rail_true, leaves=table.pods > 1)


def _seconds(flow: Flow, ways: Ways, constants: Constants) -> float:
    sent, calls = flow.sent_bytes, flow.calls
    if flow.collective == ALL_REDUCE:
        return calls * constants.call_s + all_reduce_s(sent, 2 * calls, ways)
    if flow.collective == REDUCE_SCATTER_ALL_GATHER:
        return 2 * calls * constants.call_s + halves_s(sent, 2 * calls, ways)
    if flow.collective == RING:
        return calls * constants.call_s + ring_s(sent, flow.messages, ways)
    if flow.collective == SEND_RECV:
        return calls * constants.call_s + send_recv_s(sent, flow.messages, ways)
    return calls * constants.call_s + all_to_all_s(sent, calls, constants.peer_s, ways)
