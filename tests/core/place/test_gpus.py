"""GPU indices: aligned, equal on every node, small pods packed together."""

from scheduler.cluster.world import World
from scheduler.model.placement import Placement
from scheduler.place.assign import best_mask, broken_block
from scheduler.place.spread import aligned_free, aligned_masks
from tests.builders import make_cluster
from tests.core.gangs import gang, nodes_of, occupy, placed, role, role_gang


def hold(world: World, placement: Placement, job: str) -> None:
    for pod in placement.pods:
        occupy(world, world.topology.nodes[pod.node_index].name, pod.gpu_mask, job)


def test_two_jobs_of_four_share_a_node_in_aligned_halves() -> None:
    world = World(make_cluster())
    first = placed(world, gang(4))
    hold(world, first, "a")
    second = placed(world, gang(4))
    assert nodes_of(world.topology, first) == nodes_of(world.topology, second)
    assert (first.pods[0].gpu_mask, second.pods[0].gpu_mask) == (0x0F, 0xF0)


def test_a_gang_of_half_nodes_has_the_same_indices_everywhere() -> None:
    """Node 1 has only its upper half free, so all eight pods take the upper half."""
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    occupy(world, "n001", 0x0F)
    found = placed(world, gang(4, 1, 8, gpus_per_pod=4))
    assert len(set(nodes_of(world.topology, found))) == 8
    assert {pod.gpu_mask for pod in found.pods} == {0xF0}


def test_a_single_gpu_goes_where_it_breaks_least() -> None:
    world = World(make_cluster())
    occupy(world, "n002", 0b0111_0111)
    occupy(world, "n003", 0b0000_0001)
    found = placed(world, gang(1))
    assert nodes_of(world.topology, found) == ["n002"]
    assert found.pods[0].gpu_mask == 0b0000_1000


def test_a_pair_takes_the_pair_that_is_left_of_a_broken_quad() -> None:
    world = World(make_cluster())
    occupy(world, "n001", 0b0000_1100)
    found = placed(world, gang(2))
    assert (nodes_of(world.topology, found), found.pods[0].gpu_mask) == (["n001"], 0b0000_0011)


def test_scattered_gpus_are_used_when_no_block_is_free() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=1))
    occupy(world, "n001", 0b1010_1010)
    assert placed(world, gang(4)).pods[0].gpu_mask == 0b0101_0101


def test_small_members_fill_one_node_before_the_next() -> None:
    world = World(make_cluster())
    found = placed(world, role_gang(role("m", 5, gpus=2)))
    nodes = nodes_of(world.topology, found)
    assert sorted(nodes.count(n) for n in set(nodes)) == [1, 4]
    masks: dict[str, int] = {}
    for name, pod in zip(nodes, found.pods, strict=True):
        assert not masks.get(name, 0) & pod.gpu_mask
        masks[name] = masks.get(name, 0) | pod.gpu_mask


def test_part_used_nodes_are_filled_first() -> None:
    world = World(make_cluster(racks=4, nodes_per_rack=4))
    occupy(world, "n009", 0x0F)
    assert nodes_of(world.topology, placed(world, gang(2))) == ["n009"]


def test_whole_nodes_come_from_the_tightest_rack() -> None:
    world = World(make_cluster(racks=4, nodes_per_rack=4))
    for name in ("n009", "n010", "n011"):
        occupy(world, name)
    assert nodes_of(world.topology, placed(world, gang(8))) == ["n012"]


def test_aligned_masks_start_at_multiples_of_their_size() -> None:
    assert aligned_masks(8, 4) == [0x0F, 0xF0]
    assert aligned_masks(8, 3) == [0b111, 0b111_0000]
    assert aligned_masks(8, 8) == [0xFF]
    assert aligned_free(0b1111_0110, 2)
    assert not aligned_free(0b0110_0110, 2)
    assert aligned_free(0, 0)


def test_the_broken_block_is_the_largest_free_one_around() -> None:
    assert broken_block(0xFF, 0b1, 1) == 8
    assert broken_block(0b0000_0011, 0b1, 1) == 2
    assert broken_block(0b1111_0001, 0b1, 1) == 1
    assert best_mask(0b1111_0001, 1) == 0b1
    assert best_mask(0b1111_0011, 2) == 0b11
