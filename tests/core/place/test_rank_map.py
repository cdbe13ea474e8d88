"""Which axis crosses leaves is chosen by the time it costs; rules come before time."""

from collections.abc import Callable

import pytest

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, ModelShape, ParallelSizes, Rule
from scheduler.model.node import FabricLevel
from scheduler.model.placement import Placement
from scheduler.place.price import NONE_DEAD, StepPrice
from scheduler.place.spread import evened
from tests.builders import make_tree, make_type
from tests.core.gangs import count_by, gang, occupy, placed, preferred, required, spans


def leaves_of_eight(blocks: int = 1) -> World:
    """Leaves of 8 nodes, four to a block, with uplinks of half the rate of the links below."""
    return oversubscribed(make_tree_of(blocks, 4, 8))


def make_tree_of(blocks: int, leaves: int, nodes: int) -> World:
    return World(make_tree({"block": blocks, "leaf": leaves, "node": nodes}))


def oversubscribed(world: World, factor: float = 2.0) -> World:
    """Inside leaves the links are non-blocking, between those of a block they are not."""
    fabric = {"leaf": FabricLevel(400.0), "block": FabricLevel(400.0, factor)}
    object.__setattr__(world.topology, "fabric", fabric)
    return world


def weighed(pp_gb: float, dp_gb: float, **fields: object) -> JobSpec:
    """tp 8, pp 4, dp 8: 32 nodes, four leaves; dp groups have 8 nodes and pp groups 4."""
    return gang(8, 4, 8, axis_weights={"pp": pp_gb, "dp": dp_gb}, **fields)


def crossing(world: World, spec: JobSpec) -> set[str]:
    """Axes of which some group lies in several leaves."""
    found = placed(world, spec)
    return {
        axis for axis in ("pp", "dp") if max(spans(world.topology, spec, found, axis, "leaf")) > 1
    }


def test_the_axis_with_a_tenth_of_the_bytes_crosses_leaves() -> None:
    world = leaves_of_eight()
    assert crossing(world, weighed(pp_gb=1.0, dp_gb=10.0)) == {"pp"}
    assert crossing(world, weighed(pp_gb=10.0, dp_gb=1.0)) == {"dp"}


@pytest.mark.parametrize("rule", [required, preferred])
def test_a_rule_forces_the_heavy_axis_across(rule: Callable[[str, str], Rule]) -> None:
    world = leaves_of_eight()
    heavy_dp = weighed(1.0, 10.0, rules=(rule("pp", "leaf"),))
    heavy_pp = weighed(10.0, 1.0, rules=(rule("dp", "leaf"),))
    assert crossing(world, heavy_dp) == {"dp"}
    assert crossing(world, heavy_pp) == {"pp"}


def test_the_shape_of_the_model_decides_where_it_is_given() -> None:
    """Many small micro-batches of a wide model make pp carry more than the gradients of few
    parameters; a large model with a small batch is the other way round."""
    world = leaves_of_eight()
    pipelined = ModelShape(params=1e9, layers=16, hidden=16_384, seq=8_192, global_batch=4_096)
    plain = ModelShape(params=400e9, layers=128, hidden=4_096, seq=1_024, global_batch=16)
    assert crossing(world, gang(8, 4, 8, model=pipelined)) == {"dp"}
    assert crossing(world, gang(8, 4, 8, model=plain)) == {"pp"}


def test_the_prediction_is_in_the_answer_where_layouts_were_compared() -> None:
    world = leaves_of_eight()
    spec = weighed(1.0, 10.0)
    found = placed(world, spec)
    assert found.predicted_s == pytest.approx(seconds(world, spec, found))
    assert placed(world, gang(8, 2, 2)).predicted_s is None


def seconds(world: World, spec: JobSpec, found: Placement) -> float:
    price = StepPrice(spec, world.topology, world.topology.types[0], found.gpus_per_pod)
    return price.seconds([pod.node_index for pod in found.pods], (), NONE_DEAD)


def test_a_gang_that_fits_a_leaf_lies_in_one_whatever_it_carries() -> None:
    world = leaves_of_eight()
    for spec in (gang(8, 2, 4), gang(8, 4, 2), gang(8, 1, 8)):
        found = placed(world, spec)
        assert len(count_by(world.topology, found, "leaf")) == 1
        assert (found.search, found.gap) == ("exact", None)


def test_equal_halves_beat_the_fewest_domains_in_the_largest() -> None:
    """Of 4 nodes in leaves of 3 and 2, 2 and 2 leave fewer hops to each uplink than 3 and 1."""
    world = oversubscribed(make_tree_of(1, 2, 3))
    occupy(world, "n006")
    found = placed(world, gang(8, 1, 4))
    assert count_by(world.topology, found, "leaf") == {"l1": 2, "l2": 2}
    assert found.search == "exact"


def test_a_search_that_is_cut_says_how_far_it_may_be_from_the_best() -> None:
    """18 nodes on leaves of 5 free ones: not all groups of 3 and of 6 can lie in one each."""
    world = oversubscribed(make_tree_of(1, 8, 8))
    for leaf in range(8):
        for node in range(3):
            occupy(world, f"n{8 * leaf + node + 1:03}")
    spec = gang(8, 6, 3, axis_weights={"pp": 4.0, "dp": 4.0})
    found = placed(world, spec)
    assert found.search == "bounded"
    assert found.gap is not None
    assert 0.0 < found.gap < 1.0


def test_expert_groups_stay_together_where_they_carry_most() -> None:
    """ep 16 with etp 1: 16 consecutive ranks, two nodes; its all-to-all outweighs dp."""
    world = oversubscribed(make_tree_of(1, 4, 4))
    sizes = ParallelSizes(tp=2, pp=2, dp=32, ep=16, etp=1)
    spec = JobSpec(name="j", parallelism=sizes)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "ep", "leaf")) == {1}


def test_context_groups_stay_inside_before_gradients() -> None:
    world = oversubscribed(make_tree_of(1, 4, 4))
    spec = gang(8, 1, 4, cp=4)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "cp", "leaf")) == {1}


def test_tensor_and_expert_groups_may_cross_trays_of_one_scale_up_domain() -> None:
    """tp 8 on trays of 4 GPUs; each group of two trays lies in one rack, that of 16 experts too."""
    tray = make_type("gb200", gpus=4, scale_up="rack")
    world = World(make_tree({"leaf": 2, "rack": 2, "node": 18}, node_type=tray))
    spec = JobSpec(name="j", parallelism=ParallelSizes(tp=8, dp=16, ep=32, etp=1))
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "tp", "rack")) == {1}
    assert set(spans(world.topology, spec, found, "ep", "rack")) == {1}


def test_a_pod_is_not_left_alone_where_uplinks_are_few() -> None:
    """17 pods in leaves with 16 and 9 free: 8 and 9 have more uplinks each than 16 and 1."""
    world = oversubscribed(make_tree_of(1, 2, 16), 7.0)
    for number in range(26, 33):
        occupy(world, f"n{number:03d}")
    found = placed(world, gang(8, 1, 17))
    assert sorted(count_by(world.topology, found, "leaf").values()) == [8, 9]


def test_shares_are_as_even_as_room_and_units_allow() -> None:
    assert evened([(16, 0), (9, 1), (2, 2)], 17, 2, 1) == [(0, 9), (1, 8)]
    assert evened([(16, 0), (4, 1)], 18, 2, 1) == [(0, 14), (1, 4)]
    assert evened([(8, 0), (8, 1), (8, 2)], 20, 3, 4) == [(0, 8), (1, 8), (2, 4)]
