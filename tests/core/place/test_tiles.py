"""Gangs over several domains of a level with narrow uplinks: tiles, and no lone pods."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.cost.step import predict
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.model.node import FabricLevel
from scheduler.model.placement import Placement
from scheduler.place.bounds import Bounds
from scheduler.place.pieces import ANYWHERE, FEW, INSIDE, Tiling, cut
from scheduler.place.room import Room
from scheduler.place.search import ask_for_parallel, place
from scheduler.place.spread import Piece
from scheduler.place.tiles import tilings
from scheduler.place.uniform import required_wants, settle
from scheduler.sim.peers.kueue import Kueue
from scheduler.sim.peers.placer import NodePlacer
from scheduler.sim.peers.slurm import Slurm
from scheduler.topology.build import build
from tests.builders import make_inventory
from tests.core.gangs import count_by, gang, occupy, placed, required, spans

LEAF_NODES, LEAVES = 8, 4


def yard(leaf: float, block: float, *, blocks: int = 4) -> World:
    """Blocks of four leaves of eight nodes; how narrow the uplinks of leaves and blocks are."""
    inventory = make_inventory({"core": 1, "block": blocks, "leaf": LEAVES, "node": LEAF_NODES})
    fabric = {
        "leaf": FabricLevel(400.0),
        "block": FabricLevel(400.0, leaf),
        "core": FabricLevel(400.0, block),
    }
    return World(build(replace(inventory, fabric=fabric)).topology)


def leave_free(world: World, free: Mapping[int, int]) -> World:
    """Take all nodes but so many in each leaf, by its number."""
    for leaf in range(len(world.topology.levels[2].names)):
        for node in range(LEAF_NODES - free.get(leaf, 0)):
            occupy(world, world.topology.nodes[leaf * LEAF_NODES + node].name)
    return world


def scatter(world: World, share: float, seed: int) -> World:
    chance = random.Random(seed)
    for node in world.topology.nodes:
        if chance.random() >= share:
            occupy(world, node.name)
    return world


def seconds(world: World, spec: JobSpec, found: Placement) -> float:
    nodes = [pod.node_index for pod in found.pods]
    return predict(spec, world.topology, world.topology.types[0], 8, nodes).inter_node_s


def test_stages_stay_in_a_block_that_is_narrow_though_replicas_would_fill_it_too() -> None:
    """Each block holds 24: four stages of six replicas leave it six at a time."""
    world = leave_free(yard(1.0, 7.0), dict.fromkeys(range(16), 6))
    spec = gang(8, 4, 24, axis_weights={"pp": 1.0, "dp": 2.0})
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "pp", "block")) == {1}
    assert set(count_by(world.topology, found, "block").values()) == {24}


def test_no_pod_is_alone_in_a_leaf_with_narrow_uplinks_where_two_can_be() -> None:
    world = leave_free(yard(2.0, 1.0), {0: 6, 1: 5, 4: 4, 5: 3, 8: 2, 12: 2})
    found = placed(world, gang(8, 1, 16))
    assert min(count_by(world.topology, found, "leaf").values()) >= 2
    # Filled from the largest on, 6 + 5 + 4 would have left one.
    assert len(count_by(world.topology, found, "leaf")) == 4


def test_a_required_group_is_whole_in_every_tile() -> None:
    world = leave_free(yard(2.0, 7.0), dict.fromkeys(range(16), 5))
    spec = gang(8, 4, 12, rules=(required("pp", "leaf"),))
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "pp", "leaf")) == {1}


def test_a_gang_that_fits_one_narrow_domain_is_not_cut() -> None:
    world = yard(2.0, 7.0)
    ask_spec = gang(8, 2, 4)
    assert len(count_by(world.topology, placed(world, ask_spec), "leaf")) == 1
    assert list(ways(world, ask_spec, cut_heaviest=False)) == []


def ways(world: World, spec: JobSpec, *, cut_heaviest: bool) -> list[Tiling]:
    sizes = spec.parallelism or ParallelSizes()
    ask = ask_for_parallel(world.trial, spec, sizes, world.topology.types[0])
    wants = required_wants(ask)
    assert isinstance(wants, dict)
    settled = settle(ask, wants)
    assert settled is not None
    found = tilings(ask, settled, cut_heaviest=cut_heaviest)
    return [way.tiling for _, way in found if way.tiling is not None]


def test_the_heaviest_axis_is_cut_apart_only_where_it_need_not_be() -> None:
    world = leave_free(yard(2.0, 1.0), dict.fromkeys(range(16), 4))
    light, heavy = {"pp": 8.0, "dp": 1.0}, {"pp": 1.0, "dp": 8.0}
    whole = ways(world, gang(8, 4, 8, axis_weights=light), cut_heaviest=False)
    assert whole
    assert all(tiling.digits[0] == ("pp", 4) for tiling in whole)
    # Eight replicas fit no leaf: there is no choice but to cut them.
    assert ways(world, gang(8, 4, 8, axis_weights=heavy), cut_heaviest=True) == []
    assert ways(world, gang(8, 4, 8, axis_weights=heavy), cut_heaviest=False)


@given(
    rooms=st.lists(st.integers(0, 8), min_size=16, max_size=16),
    wanted=st.integers(2, 40),
    least=st.integers(1, 4),
    unit=st.sampled_from((1, 2, 3, 4)),
    where=st.sampled_from((INSIDE, FEW, ANYWHERE)),
    even=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_pieces_hold_the_gang_in_whole_tiles_and_none_is_small(
    rooms: list[int], wanted: int, least: int, unit: int, where: str, *, even: bool
) -> None:
    world = leave_free(yard(2.0, 7.0), dict(enumerate(rooms)))
    wanted = max(unit, wanted // unit * unit)
    spec = gang(8, 1, wanted)
    ask = ask_for_parallel(
        world.trial, spec, ParallelSizes(tp=8, dp=wanted), world.topology.types[0]
    )
    tiling = Tiling(2, 1, least, unit, where, (("dp", wanted),), even)
    pieces = cut(Room(ask.view, Bounds()), wanted, tiling)
    if pieces is None:
        return
    taken = by_leaf(pieces)
    assert sum(taken.values()) == wanted
    assert all(share <= rooms[leaf] and share % unit == 0 for leaf, share in taken.items())
    if len(taken) > 1 and not even:
        assert min(taken.values()) >= least
    if where == INSIDE:
        assert len({leaf // LEAVES for leaf in taken}) == 1


def by_leaf(pieces: list[Piece]) -> Counter[int]:
    out: Counter[int] = Counter()
    for lo, hi, share in pieces:
        assert lo // LEAF_NODES == (hi - 1) // LEAF_NODES
        out[lo // LEAF_NODES] += share
    return out


GANGS = st.builds(
    lambda pp, dp, cp, weights: gang(8, pp, dp, cp=cp, axis_weights=weights),
    st.sampled_from((1, 2, 3, 4, 8)),
    st.sampled_from((1, 2, 4, 6, 9)),
    st.sampled_from((1, 1, 2, 4)),
    st.fixed_dictionaries(
        {}, optional={axis: st.sampled_from((0.5, 4.0, 40.0)) for axis in ("pp", "dp", "cp")}
    ),
)
EXPERTS = st.sampled_from(
    (
        JobSpec(name="j", parallelism=ParallelSizes(tp=2, pp=2, dp=32, ep=16, etp=1)),
        JobSpec(name="j", parallelism=ParallelSizes(pp=4, dp=32, ep=8, etp=1)),
        JobSpec(name="j", parallelism=ParallelSizes(tp=4, cp=2, dp=12)),
    )
)


@given(
    spec=GANGS | EXPERTS,
    leaf=st.sampled_from((1.0, 2.0, 4.0)),
    block=st.sampled_from((1.0, 3.0, 7.0)),
    share=st.sampled_from((0.3, 0.5, 0.8)),
    seed=st.integers(0, 9_999),
)
@example(
    spec=JobSpec(name="j", parallelism=ParallelSizes(tp=8, pp=2, dp=6)),
    leaf=4.0,
    block=7.0,
    share=0.3,
    seed=1,
)
@example(spec=gang(8, 2, 9), leaf=4.0, block=1.0, share=0.3, seed=2212)
@settings(max_examples=150, deadline=None)
def test_no_layout_is_faster_than_the_bound_and_no_peer_much_faster_than_the_place(
    spec: JobSpec, leaf: float, block: float, share: float, seed: int
) -> None:
    world = scatter(yard(leaf, block), share, seed)
    found = place(world.trial, spec)
    if not isinstance(found, Placement):
        return
    nodes = [pod.node_index for pod in found.pods]
    assert len(set(nodes)) == len(nodes)
    assert all(world.table.free[node] == 0xFF for node in nodes)
    ours = seconds(world, spec, found)
    sizes = spec.parallelism or ParallelSizes()
    least_s = ask_for_parallel(world.trial, spec, sizes, world.topology.types[0]).least_s()
    if found.search == "bounded" and found.gap is not None:
        least_s = max(least_s, ours * (1.0 - found.gap))
    if found.search == "exact":
        least_s = max(least_s, ours / 1.0101)
    free = [node for node, mask in enumerate(world.table.free) if mask == 0xFF]
    for order in orders(nodes, free, seed):
        laid = predict(spec, world.topology, world.topology.types[0], 8, order).inter_node_s
        assert laid >= least_s * (1.0 - 1e-9)
    for peer in (NodePlacer(Slurm(("block", "leaf"))), NodePlacer(Kueue(("block", "leaf")))):
        theirs = peer.place(world.trial, spec)
        assert theirs is not None
        assert seconds(world, spec, theirs) >= least_s * (1.0 - 1e-9)
        is_near = ours <= seconds(world, spec, theirs) / (1.0 - 0.08) * 1.01 + 1e-12
        # Where uplinks of both levels are narrow, tiles are cut at one of them: that is said.
        assert is_near or (leaf > 1.0 < block and found.search == "bounded")


def orders(nodes: list[int], free: list[int], seed: int) -> list[list[int]]:
    """Layouts near the one found, and anywhere."""
    chance = random.Random(seed)
    out = [sorted(nodes), sorted(free)[: len(nodes)]]
    for _ in range(6):
        some = list(nodes)
        one, two = chance.randrange(len(some)), chance.randrange(len(some))
        some[one], some[two] = some[two], some[one]
        out += [some, chance.sample(free, len(nodes))]
    return out


@pytest.mark.parametrize("narrow", [2.0, 3.0, 4.0, 5.0, 7.0])
def test_the_axis_with_ten_times_the_bytes_stays_in_its_leaf(narrow: float) -> None:
    world = yard(narrow, 1.0, blocks=1)
    spec = gang(8, 4, 8, axis_weights={"dp": 10.0, "pp": 1.0})
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "dp", "leaf")) == {1}
