"""Predicted seconds: sums by hand, a slow count of the same, and what must never get dearer."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cost.constants import CONSTANTS
from scheduler.cost.fabric import fabric_for
from scheduler.cost.step import AxisTime
from scheduler.errors import InvariantError
from scheduler.model.job import JobSpec, ModelShape, ParallelSizes, Role
from scheduler.model.node import FabricLevel
from scheduler.parallel.groups import groups_over
from scheduler.parallel.traffic import ALL_TO_ALL, SEND_RECV, Flow, traffic_of
from scheduler.topology.build import build
from scheduler.topology.tree import Topology
from tests.builders import make_inventory, make_type
from tests.core.cost.yards import NO_LATENCY, job, price, yard

NIC = 50e9 * CONSTANTS.nic_efficiency
"""Bytes per second of one GPU."""

NVLINK = 450e9 * CONSTANTS.scale_up_efficiency
TIER = CONSTANTS.tier_efficiency


def timed(
    spec: JobSpec,
    topology: Topology,
    nodes: Sequence[int],
    *,
    gpus: int = 8,
    dead: Mapping[int, int] | None = None,
) -> Mapping[str, AxisTime]:
    """Axes of a place without any latency."""
    return price(spec, topology, nodes, gpus=gpus, dead=dead, constants=NO_LATENCY).axes


def test_ring_in_a_leaf_is_bound_by_the_rail() -> None:
    """dp 4 on 4 nodes: 8 rings, one a rail, each sends 10 GB per rank at the NIC's rate."""
    found = timed(job({"dp": 10}, tp=8, dp=4), yard(), range(4))["dp"]
    assert found.seconds == pytest.approx(10e9 / NIC)
    assert found.bottleneck == "rail"
    assert found.exposed_s == pytest.approx(found.seconds * (1 - CONSTANTS.traffic.dp_overlap))
    assert (found.count, found.size, found.rail_true) == (8, 4, True)


def test_groups_with_more_ranks_on_a_node_use_all_its_nics() -> None:
    """dp 32 on 4 nodes: one ring of 10 GB, spread over 8 NICs; NVLink is slower then."""
    found = timed(job({"dp": 10}, dp=32), yard(), range(4))["dp"]
    assert 10e9 / NVLINK > 10e9 / (8 * NIC)
    assert found.seconds == pytest.approx(10e9 / NVLINK)
    assert found.bottleneck == "scale_up"


def test_leaving_a_leaf_costs_a_tier() -> None:
    """Two nodes in each of two leaves: every ring crosses once either way."""
    found = timed(job({"dp": 10}, tp=8, dp=4), yard(), [0, 1, 4, 5])["dp"]
    assert found.seconds == pytest.approx(10e9 / NIC / TIER)


def test_rings_share_the_uplinks_of_a_leaf() -> None:
    """At 8:1 the 16 GPUs of a leaf have the uplinks of 2: 8 rings want them, four times too many.

    10 GB x 8 rings over 16 GPUs / 8 x 47 GB/s.
    """
    found = timed(job({"dp": 10}, tp=8, dp=4), yard(leaf_uplinks=8), [0, 1, 4, 5])["dp"]
    assert found.seconds == pytest.approx(10e9 * 8 / (16 / 8 * NIC))
    assert found.bottleneck == "leaf"


def test_lone_node_in_a_leaf_has_its_share_of_the_uplinks_alone() -> None:
    found = timed(job({"dp": 10}, tp=8, dp=4), yard(leaf_uplinks=8), [0, 1, 2, 4])["dp"]
    assert found.seconds == pytest.approx(10e9 * 8 / (8 / 8 * NIC))


def test_stages_send_half_of_it_each_way() -> None:
    """pp 4 along a leaf: a stage between two others sends 5 GB forward and 5 GB back."""
    found = timed(job({"pp": 10}, tp=8, pp=4), yard(), range(4))["pp"]
    assert found.seconds == pytest.approx(10e9 / NIC)
    lone = timed(job({"pp": 10}, tp=8, pp=2), yard(), range(2))["pp"]
    assert lone.seconds == pytest.approx(10e9 / NIC)


def test_all_to_all_sends_each_peer_its_part() -> None:
    """ep 32 over 4 nodes: 24 of 31 peers are on other nodes."""
    found = timed(job({"ep": 10}, dp=32, ep=32), yard(), range(4))["ep"]
    assert found.seconds == pytest.approx(10e9 * 24 / 31 / NIC)
    assert found.bottleneck == "rail"


def test_all_to_all_across_leaves_counts_what_leaves_them() -> None:
    """2 + 2 nodes at 4:1: 16 of 31 peers in the other leaf, of all 16 GPUs at once."""
    found = timed(job({"ep": 10}, dp=32, ep=32), yard(leaf_uplinks=4), [0, 1, 4, 5])["ep"]
    assert found.seconds == pytest.approx(10e9 * 16 / 31 * 4 / NIC)
    assert found.bottleneck == "leaf"


def test_tp_inside_a_node_is_left_out_of_the_time_between_nodes() -> None:
    found = price(job(tp=8), yard(), [0], constants=NO_LATENCY)
    assert found.axes["tp"].seconds == pytest.approx(64e9 / NVLINK)
    assert found.axes["tp"].bottleneck == "scale_up"
    assert found.inter_node_s == 0.0
    assert found.total_s > 0.0


def test_time_between_nodes_is_zero_when_nothing_leaves_one() -> None:
    assert price(job(tp=2, cp=2, dp=2), yard(), [3]).inter_node_s == 0.0


def test_axis_inside_pods_adds_nothing_between_nodes() -> None:
    found = price(job(tp=4, cp=2, dp=4), yard(), range(4))
    assert found.inter_node_s == found.axes["dp"].seconds


def test_tiny_messages_are_bound_by_latency() -> None:
    found = price(job({"pp": 1e-6}, tp=8, pp=2), yard(), range(2)).axes["pp"]
    assert found.bottleneck == "latency"


def test_rack_scale_nodes_talk_over_nvlink_inside_it() -> None:
    """GB200: tp 16 over 4 trays of a rack never touches a NIC; dp over two racks does."""
    tray = replace(make_type("tray", gpus=4, scale_up="rack"), scale_up_gbps=7_200.0)
    inventory = make_inventory({"leaf": 2, "rack": 2, "node": 8}, node_type=tray)
    topology = build(inventory).topology
    spec = job({"dp": 10}, tp=16, dp=2)
    near_by = timed(spec, topology, range(8), gpus=4)
    assert near_by["tp"].bottleneck == near_by["dp"].bottleneck == "scale_up"
    apart = timed(spec, topology, [*range(4), *range(8, 12)], gpus=4)
    assert apart["tp"].seconds == near_by["tp"].seconds
    assert apart["dp"].bottleneck == "rail"


def test_dead_rail_is_priced_for_those_who_leave_the_node() -> None:
    """7 of 8 NICs carry 8 rings: 8/7 of the time."""
    spec, topology = job({"dp": 10}, tp=8, dp=4), yard()
    well = timed(spec, topology, range(4))["dp"]
    hurt = timed(spec, topology, range(4), dead={2: 0b1000, 9: 0xFF})["dp"]
    assert hurt.seconds == pytest.approx(well.seconds * 8 / 7)
    alone = job(tp=8)
    assert price(alone, topology, [2], dead={2: 0b1000}) == price(alone, topology, [2])


def test_messages_that_do_not_spread_share_the_nic_next_door() -> None:
    """Two GPUs behind one NIC: half the rate, however many others are well."""
    spec = job({"pp": 10, "dp": 10}, tp=2, pp=4, dp=2)
    topology = yard(node_type=make_type(gpus=4))
    well = timed(spec, topology, range(4), gpus=4)
    hurt = timed(spec, topology, range(4), gpus=4, dead={1: 1})
    # Pods are the two replicas of a stage: all four GPUs send to the next, each by itself.
    assert hurt["pp"].seconds == pytest.approx(2 * well["pp"].seconds)


def test_node_without_a_rail_is_hardly_reached() -> None:
    spec, topology = job({"dp": 10}, tp=8, dp=4), yard()
    cut_off = timed(spec, topology, range(4), dead={1: 0xFF})["dp"]
    assert cut_off.seconds > 50 * timed(spec, topology, range(4))["dp"].seconds


def test_pods_must_hold_all_ranks() -> None:
    with pytest.raises(InvariantError, match="3 pods of 8 GPUs are not 32 ranks"):
        price(job(tp=8, dp=4), yard(), range(3))


def test_job_of_roles_costs_nothing_here() -> None:
    topology = yard()
    found = price(JobSpec(name="a", roles=(Role("w", 2, 2, gpus=8),)), topology, [0, 1])
    assert (found.axes, found.inter_node_s) == ({}, 0.0)


@pytest.mark.parametrize(("heavy", "light"), [("dp", "pp"), ("pp", "dp")])
@pytest.mark.parametrize("uplinks", [1.0, 2.0, 7.0])
def test_heavier_axis_is_cheaper_inside_the_leaf(heavy: str, light: str, uplinks: float) -> None:
    """tp 8, pp 4, dp 8 on two leaves of 16, with 10x the bytes on one axis."""
    topology = yard(1, 2, 16, leaf_uplinks=uplinks)
    spec = job({heavy: 10, light: 1}, tp=8, pp=4, dp=8)
    dp_inside = list(range(32))  # pod = dp + 8 x pp
    pp_inside = [pod // 8 * 4 + pod % 4 + 16 * (pod % 8 // 4) for pod in range(32)]
    inside = {"dp": dp_inside, "pp": pp_inside}
    assert (
        price(spec, topology, inside[heavy]).inter_node_s * 1.01
        < price(spec, topology, inside[light]).inter_node_s
    )


SIZES = st.sampled_from(
    [
        ParallelSizes(tp=8, dp=8),
        ParallelSizes(tp=8, pp=4, dp=2),
        ParallelSizes(tp=4, cp=2, pp=2, dp=4),
        ParallelSizes(tp=2, pp=2, dp=16, ep=8),
        ParallelSizes(tp=1, dp=64, ep=16),
        ParallelSizes(tp=8, pp=2, dp=4, order=("tp", "pp", "dp", "cp", "ep")),
        ParallelSizes(tp=2, pp=4, dp=8, order=("tp", "cp", "ep", "pp", "dp")),
    ]
)
PLACES = st.permutations(range(16)).map(lambda nodes: list(nodes)[:8])
MODELS = st.sampled_from([None, ModelShape(7e9, 32, 4_096, 4_096, 1, 256, experts=16, top_k=2)])


def gang(sizes: ParallelSizes, model: ModelShape | None) -> JobSpec:
    return JobSpec(name="a", parallelism=sizes, model=model)


@given(SIZES, MODELS, PLACES, st.floats(1, 8), st.floats(1, 4))
def test_more_oversubscription_is_never_cheaper(
    sizes: ParallelSizes, model: ModelShape | None, nodes: list[int], uplinks: float, more: float
) -> None:
    spec = gang(sizes, model)
    less, narrower = (price(spec, yard(leaf_uplinks=n), nodes) for n in (uplinks, uplinks * more))
    assert less.inter_node_s <= narrower.inter_node_s


@given(SIZES, MODELS, PLACES, st.sampled_from(["leaf", "block"]), st.data())
def test_folding_a_domain_into_another_is_never_dearer(
    sizes: ParallelSizes,
    model: ModelShape | None,
    nodes: list[int],
    level: str,
    data: st.DataObject,
) -> None:
    """All pods of a leaf (or block) move to another leaf of the block (or cluster) that is used.

    So every group that spanned both spans one domain less, and none spans more.
    """
    topology = yard(2, 2, 16, leaf_uplinks=data.draw(st.sampled_from([1.0, 2.0, 7.0])))
    nodes = [node // 4 * 16 + node % 4 for node in nodes]  # leaves of 16 leave room to move
    place = topology.place[topology.level_index[level]]
    used = sorted({place[node] for node in nodes})
    gone = data.draw(st.sampled_from(used))
    near_by = [d for d in used if d != gone and (level == "block" or d // 2 == gone // 2)]
    if not near_by:
        return
    kept = data.draw(st.sampled_from(near_by))
    free = [n for n in range(64) if place[n] == kept and n not in nodes]
    # Inside a block leaves fold into one, lest more leaves are touched than before.
    leaf = topology.place[topology.level_index["leaf"]]
    host = leaf[next(n for n in nodes if place[n] == kept)]
    free = [n for n in free if leaf[n] == host] if level == "block" else free
    folded = [free.pop() if place[node] == gone else node for node in nodes]
    spec = gang(sizes, model)
    assert price(spec, topology, folded).inter_node_s <= (
        price(spec, topology, nodes).inter_node_s * (1 + 1e-12)
    )


@given(
    st.sampled_from([ParallelSizes(tp=4, dp=8), ParallelSizes(tp=2, pp=2, dp=8, ep=4)]),
    MODELS,
    PLACES,
    st.data(),
)
def test_rail_true_layout_is_never_dearer_than_with_other_gpus(
    sizes: ParallelSizes, model: ModelShape | None, nodes: list[int], data: st.DataObject
) -> None:
    four = st.permutations(range(8)).map(lambda gpus: sum(1 << gpu for gpu in gpus[:4]))
    masks = [data.draw(four) for _ in range(8)]
    spec, topology = gang(sizes, model), yard(leaf_uplinks=2.0)
    true = price(spec, topology, nodes, gpus=4, masks=[masks[0]] * 8)
    permuted = price(spec, topology, nodes, gpus=4, masks=masks)
    assert true.inter_node_s <= permuted.inter_node_s
    assert all(item.rail_true for name, item in true.axes.items() if name in ("dp", "pp"))


@given(SIZES, MODELS, PLACES)
def test_links_are_as_busy_as_a_slow_count_says(
    sizes: ParallelSizes, model: ModelShape | None, nodes: list[int]
) -> None:
    """Bytes at every NIC and uplink, message by message, and the busiest of them."""
    topology = yard(leaf_uplinks=3.0)
    spec = gang(sizes, model)
    found = price(spec, topology, nodes)
    for axis, carried in traffic_of(spec).items():
        if axis == "tp":
            continue
        slow = sum(_busiest_s(flow, sizes, nodes, topology) for flow in carried.flows)
        # Latencies come on top; two stages may save up to 1/n of a ring.
        assert found.axes[axis].seconds >= slow * (1 - 1 / 8)
        fixed = 1e-4 * carried.messages_per_step + 1e-4 * sum(
            f.calls * f.size for f in carried.flows
        )
        assert found.axes[axis].seconds <= slow * 1.001 + fixed


def _busiest_s(flow: Flow, sizes: ParallelSizes, nodes: Sequence[int], topology: Topology) -> float:
    fabric = fabric_for(topology, topology.kinds[0], CONSTANTS)
    nics: dict[int, float] = defaultdict(float)
    ups: dict[tuple[int, int], float] = defaultdict(float)
    inside = 0.0
    for group in groups_over(sizes, flow.over, expert=flow.expert).tolist():
        for a, b, sent in _messages(flow, group):
            at = [topology.place[d][nodes[a // 8]] for d in fabric.levels]
            to = [topology.place[d][nodes[b // 8]] for d in fabric.levels]
            left = sum(x != y for x, y in zip(at, to, strict=True))
            if not left:
                inside = max(inside, flow.sent_bytes * fabric.scale_up_s_per_byte)
                continue
            nics[a // 8] += sent * TIER ** (1 - left)
            for level in range(1, left):
                ups[level, at[level]] += sent
    worst = max([n / 8 * fabric.s_per_byte[0] for n in nics.values()], default=0.0)
    for (level, domain), sent in ups.items():
        row = topology.place[fabric.levels[level]]
        gpus = 8 * sum(row[node] == domain for node in nodes)
        worst = max(worst, sent / gpus * fabric.s_per_byte[level])
    return max(worst, inside)


def _messages(flow: Flow, group: list[int]) -> list[tuple[int, int, float]]:
    """From, to and bytes of all that one group sends in a step."""
    size = len(group)
    if flow.collective == ALL_TO_ALL:
        part = flow.sent_bytes / (size - 1)
        return [(a, b, part) for a in group for b in group if a != b]
    if flow.collective == SEND_RECV:
        part = flow.sent_bytes / (1 if size == 2 else 2)
        pairs = list(pairwise(group))
        return [(a, b, part) for a, b in pairs] + [(b, a, part) for a, b in pairs]
    return [(a, group[(i + 1) % size], flow.sent_bytes) for i, a in enumerate(group)]


def test_layers_of_the_fabric_that_are_not_named_cost_nothing() -> None:
    """Racks inside a leaf are not switches."""
    inventory = make_inventory({"leaf": 2, "rack": 2, "node": 2}, node_type=make_type())
    topology = build(replace(inventory, fabric={"leaf": FabricLevel(400.0)})).topology
    spec = job({"dp": 10}, tp=8, dp=2)
    assert price(spec, topology, [0, 1]) == price(spec, topology, [0, 2])
    assert price(spec, topology, [0, 1]).inter_node_s < price(spec, topology, [0, 4]).inter_node_s
