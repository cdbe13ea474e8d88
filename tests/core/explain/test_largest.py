"""The largest gang that fits now."""

from hypothesis import given, settings

from scheduler.cluster.world import World
from scheduler.explain.largest import Largest, largest_gangs
from scheduler.model.placement import Placement
from scheduler.place.search import place
from tests.builders import make_cluster, make_node, make_topology, make_type
from tests.core.gangs import gang, occupy, required, role, role_gang
from tests.properties.test_placement import worlds


def of_size(world: World, gpus: int) -> Largest:
    return next(f for f in largest_gangs(world.trial) if f.gpus_per_pod == gpus)


def within(found: Largest, level: str) -> tuple[str, int, int]:
    room = next(r for r in found.within if r.level == level)
    return room.domain, room.pods, room.gpus


def test_empty_cluster_holds_a_gang_of_all_its_gpus() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4, leaves=2))
    assert [f.gpus_per_pod for f in largest_gangs(world.trial)] == [1, 2, 4, 8]
    found = of_size(world, 8)
    assert found.whole_nodes
    assert (found.cluster.pods, found.cluster.gpus) == (16, 128)
    assert within(found, "leaf") == ("l1", 8, 64)
    assert within(found, "rack") == ("r01", 4, 32)


def test_gpus_in_use_and_nodes_aside_leave_less_for_each_shape() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    occupy(world, "n001", 0b0000_0001)
    world.set_node("n002", aside="cordoned")
    assert within(of_size(world, 8), "rack") == ("r02", 2, 16)
    assert of_size(world, 4).cluster.pods == 5
    assert of_size(world, 1).cluster.pods == 23


def test_full_cluster_holds_none() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=1))
    occupy(world, "n001")
    found = of_size(world, 8)
    assert found.cluster.pods == 0
    assert within(found, "rack") == ("", 0, 0)


def test_nodes_without_a_place_are_no_domain() -> None:
    nodes = [make_node("n1", rack="r1"), make_node("n2"), make_node("n3")]
    world = World(make_topology(nodes, levels=("rack", "node")))
    found = of_size(world, 8)
    assert found.cluster.pods == 3
    assert within(found, "rack") == ("r1", 1, 8)


def test_each_node_type_is_told_by_itself_and_those_without_gpus_not_at_all() -> None:
    kinds = {k.name: k for k in (make_type(gpus=8), make_type(gpus=4), make_type("cpu", gpus=0))}
    nodes = [make_node("a", "h100-8"), make_node("b", "h100-4"), make_node("c", "cpu")]
    world = World(make_topology(nodes, kinds, levels=("node",)))
    shapes = [(f.node_type, f.gpus_per_pod) for f in largest_gangs(world.trial)]
    assert shapes == [("h100-4", n) for n in (1, 2, 4)] + [("h100-8", n) for n in (1, 2, 4, 8)]


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_the_largest_gang_fits_and_one_pod_more_does_not(world: World) -> None:
    for found in largest_gangs(world.trial):
        pods = found.cluster.pods
        spec = role_gang(role("m", max(pods, 1), found.gpus_per_pod))
        assert isinstance(place(world.trial, spec), Placement) == (pods > 0)
        more = role_gang(role("m", pods + 1, found.gpus_per_pod))
        assert not isinstance(place(world.trial, more), Placement)
        for room in found.within:
            if found.whole_nodes and room.level != "node":
                rule = required("job", room.level)
                at_most = isinstance(place(world.trial, gang(8, 1, room.pods + 1, rule)), Placement)
                # A gang of one pod lies in one domain wherever its node is.
                assert not at_most or room.pods == 0
