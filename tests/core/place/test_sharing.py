"""Who may share a node or a rack with whom: taints, exclusive jobs, power, pods without GPUs."""

from dataclasses import replace

from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.model.node import Inventory, NodeRecord, RackRecord, Taint, TaintEffect
from scheduler.model.placement import NoFit
from scheduler.model.resources import NOTHING, Resources
from scheduler.place.admit import never_fits
from scheduler.place.grow import grow
from scheduler.place.search import place
from scheduler.topology.build import build
from tests.builders import make_cluster, make_inventory, make_node, make_topology, make_type
from tests.core.gangs import (
    count_by,
    gang,
    nodes_of,
    occupy,
    placed,
    refused,
    required,
    role,
    role_gang,
)

SOFT = Taint("maintenance", "", TaintEffect.PREFER_NO_SCHEDULE)


def tainted(world_nodes: int, names: set[str], leaves: int = 2) -> World:
    inventory = make_inventory({"leaf": leaves, "node": world_nodes // leaves})
    nodes = tuple(replace(n, taints=(SOFT,)) if n.name in names else n for n in inventory.nodes)
    return World(build(replace(inventory, nodes=nodes)).topology)


def test_a_soft_taint_is_avoided_where_an_equal_place_exists() -> None:
    world = tainted(8, {"n001", "n005"})
    assert nodes_of(world.topology, placed(world, gang(8))) == ["n002"]
    assert set(nodes_of(world.topology, placed(world, gang(8, 1, 3)))) == {"n002", "n003", "n004"}


def test_a_soft_taint_is_a_price_and_not_a_bar() -> None:
    """Four nodes in one leaf are worth more than four untainted ones in two."""
    world = tainted(8, {"n001", "n005"})
    found = placed(world, gang(8, 1, 4))
    assert len(count_by(world.topology, found, "leaf")) == 1
    assert len(placed(world, gang(8, 1, 8)).pods) == 8


def test_an_exclusive_job_takes_only_nodes_that_nobody_uses() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    occupy(world, "n001", 0x01)
    spec = gang(2, exclusive=True)
    assert nodes_of(world.topology, placed(world, spec)) == ["n002"]
    occupy(world, "n002", 0x01)
    occupy(world, "n003", 0x01)
    assert refused(world, spec).set_aside == {"used_by_others": 3}


def test_nobody_joins_an_exclusive_job() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    world.table.hold(Held(0, 0x01, NOTHING, exclusive=True))
    assert nodes_of(world.topology, placed(world, gang(2))) == ["n002"]
    occupy(world, "n002")
    assert refused(world, gang(2)).set_aside == {"exclusive": 1, "gpus_in_use": 1}
    world.table.release(Held(0, 0x01, NOTHING))
    assert nodes_of(world.topology, placed(world, gang(2))) == ["n001"]


def test_members_of_an_exclusive_job_share_its_nodes() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=1))
    helper = role("h", 1, gpus=0, resources=Resources(cpu_milli=1_000))
    spec = role_gang(role("m", 2, gpus=2), helper, exclusive=True)
    found = placed(world, spec)
    assert nodes_of(world.topology, found) == ["n001"] * 3
    assert all(pod.exclusive for pod in found.pods)
    assert world.table.own == set()


def test_an_exclusive_job_grows_on_its_own_nodes() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    world.table.hold(Held(0, 0x03, NOTHING, exclusive=True))
    occupy(world, "n002", 0x01)
    spec = role_gang(role("m", 3, gpus=2, min=1), exclusive=True)
    more = grow(world.trial, spec, {("m", 0): 0})
    assert [(pod.index, pod.node_index) for pod in more] == [(1, 0), (2, 0)]


def powered(power_w: int, racks: int = 1, nodes: int = 4) -> World:
    """Racks of so many nodes of 10,200 W each."""
    budgets = [RackRecord(f"r{i + 1:02d}", power_w) for i in range(racks)]
    inventory = make_inventory({"leaf": 1, "rack": racks, "node": nodes}, racks=budgets)
    return World(build(inventory).topology)


def test_a_rack_starts_only_the_nodes_it_has_power_for() -> None:
    world = powered(30_600)
    assert len(placed(world, gang(8, 1, 3)).pods) == 3
    verdict = refused(world, gang(8, 1, 4))
    assert verdict.fitting == 3
    assert verdict.set_aside == {"rack_power": 1}
    assert never_fits(gang(8, 1, 4), world.topology) is not None


def test_a_node_in_use_draws_all_of_it_and_takes_more_pods() -> None:
    world = powered(10_200)
    occupy(world, "n003", 0x0F)
    assert nodes_of(world.topology, placed(world, gang(4))) == ["n003"]
    assert isinstance(place(world.trial, gang(8)), NoFit)


def test_power_comes_back_with_the_last_pod_of_a_node() -> None:
    world = powered(20_400, racks=2)
    spec = gang(8, 1, 4, required("dp", "leaf"))
    found = placed(world, spec)
    assert count_by(world.topology, found, "rack") == {"r01": 2, "r02": 2}
    mark = world.trial.mark()
    world.trial.hold_places(found.pods)
    assert isinstance(place(world.trial, gang(8)), NoFit)
    world.trial.roll_back(mark)
    assert placed(world, spec) == found


def test_a_rack_without_a_budget_or_with_plenty_is_not_limited() -> None:
    assert powered(0).topology.power == ()
    assert powered(40_800).topology.power == ()


def mixed() -> World:
    """A GPU server and a plain one in each of two racks."""
    plain = make_type("cpu", gpus=0)
    nodes: list[NodeRecord] = []
    for rack in ("r1", "r2"):
        nodes += [make_node(f"g{rack}", rack=rack), make_node(f"p{rack}", plain, rack=rack)]
    types = {"cpu": plain, "h100-8": make_type()}
    return World(make_topology(nodes, types, levels=("rack", "node")))


def test_pods_without_gpus_leave_gpu_servers_to_others() -> None:
    world = mixed()
    spec = role_gang(role("c", 1, gpus=0, resources=Resources(cpu_milli=56_000)))
    assert nodes_of(world.topology, placed(world, spec)) == ["pr1"]


def test_pods_without_gpus_fill_one_node_before_the_next() -> None:
    world = mixed()
    world.table.hold(Held(world.topology.node_index["pr2"], 0, Resources(cpu_milli=28_000)))
    spec = role_gang(role("c", 1, gpus=0, resources=Resources(cpu_milli=28_000)))
    assert nodes_of(world.topology, placed(world, spec)) == ["pr2"]


def test_helpers_without_gpus_lie_near_the_members_they_serve() -> None:
    world = mixed()
    occupy(world, "gr1")
    helper = role("c", 2, gpus=0, resources=Resources(cpu_milli=56_000))
    found = placed(world, role_gang(role("m", 1), helper))
    assert count_by(world.topology, found, "rack") == {"r2": 3}


def test_counted_resources_are_packed_with_the_gpus() -> None:
    """Two licences on the second node only: both members that need one go there."""
    kind = replace(make_type(), name="x", capacity=Resources(other=(("licence", 2),)))
    inventory = Inventory(
        "t", ("rack", "node"), "node", {"x": kind, "h100-8": make_type()},
        (make_node("n1", rack="r1"), make_node("n2", "x", rack="r1")),
    )  # fmt: skip
    world = World(build(inventory).topology)
    needs = role("m", 2, gpus=2, resources=Resources(other=(("licence", 1),)))
    found = placed(world, role_gang(needs, role("o", 1, gpus=4)))
    assert nodes_of(world.topology, found)[:2] == ["n2", "n2"]


def test_what_is_claimed_for_an_exclusive_job_is_kept_whole() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    kept = Held(0, 0x01, NOTHING, exclusive=True)
    world.table.claim(kept)
    assert nodes_of(world.topology, placed(world, gang(2))) == ["n002"]
    world.table.unclaim(kept)
    occupy(world, "n002")
    assert nodes_of(world.topology, placed(world, gang(2))) == ["n001"]
