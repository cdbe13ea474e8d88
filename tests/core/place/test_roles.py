"""Gangs of roles: minimums together, unlike members, parts, rings, growth."""

import pytest

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, Role, Rule
from scheduler.model.lifecycle import Reason
from scheduler.model.node import Taint, TaintEffect
from scheduler.model.resources import Resources
from scheduler.place.exact import STEP_LIMIT, pack_exactly
from scheduler.place.grow import grow
from tests.builders import make_cluster, make_node, make_topology, make_tree, make_type
from tests.core.gangs import (
    broken,
    count_by,
    nodes_of,
    occupy,
    parts,
    placed,
    preferred,
    refused,
    required,
    role,
    role_gang,
)


def rack_of(*names: str, **fields: object) -> World:
    return World(make_topology([make_node(n, rack="r0") for n in names], levels=("rack", "node")))


@pytest.mark.parametrize("swap", [False, True])
def test_unlike_members_fit_in_the_one_way_there_is(*, swap: bool) -> None:
    world = rack_of("a", "b")
    occupy(world, "a", 0b1)
    occupy(world, "b", 0x0F)
    roles = [role("x", 1, gpus=4), role("y", 1, gpus=7)]
    found = placed(world, role_gang(*(reversed(roles) if swap else roles)))
    assert {p.role: world.topology.nodes[p.node_index].name for p in found.pods} == {
        "x": "b",
        "y": "a",
    }


def test_enough_gpus_in_total_do_not_make_room() -> None:
    world = rack_of("n1", "n2", "n3", "n4")
    occupy(world, "n1", 0b11)
    for name in ("n2", "n3", "n4"):
        occupy(world, name, 0b11_1111)
    verdict = refused(world, role_gang(role("m", 3, gpus=4)))
    assert (verdict.fitting, verdict.wanted, verdict.code) == (1, 3, Reason.ROOM)
    assert "1 of 3" in verdict.message


def test_members_above_the_minimum_come_as_room_allows() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    found = placed(world, role_gang(role("m", 8, min=4, rules=(required("m", "rack"),))))
    assert len(found.pods) == 4
    assert len(count_by(world.topology, found, "rack")) == 1


def test_parts_start_whole_or_not_at_all() -> None:
    world = rack_of("n0", "n1", "n2")
    assert refused(world, role_gang(role("m", 4, parts=parts(2, 2)))).wanted == 4
    found = placed(world, role_gang(role("m", 4, min=2, parts=parts(2, 2, 1))))
    assert [pod.index for pod in found.pods] == [0, 1]


def test_a_rule_of_parts_binds_each_part() -> None:
    world = World(make_tree({"block": 1, "rack": 3, "node": 1}))
    in_rack = role_gang(role("m", 2, parts=parts(2, 1, None, Rule("", "rack"))))
    verdict = refused(world, in_rack)
    assert verdict.rule is not None
    assert verdict.rule.within == "rack"
    in_block = role_gang(role("m", 2, parts=parts(2, 1, None, Rule("", "block"))))
    assert len(placed(world, in_block).pods) == 2


def test_parts_lie_whole_in_racks_beside_each_other() -> None:
    world = World(make_cluster(racks=3, nodes_per_rack=3))
    spec = role_gang(role("m", 6, parts=parts(2, 3, None, Rule("", "rack"))))
    nodes = nodes_of(world.topology, placed(world, spec))
    racks = [world.topology.domains_of(world.topology.node_index[n])["rack"] for n in nodes]
    assert all(racks[i] == racks[i + 1] for i in (0, 2, 4))


def test_ranks_follow_the_fabric_in_number_order() -> None:
    world = World(make_tree({"block": 1, "rack": 3, "node": 4}))
    occupy(world, "n006")
    occupy(world, "n011")
    found = placed(world, role_gang(role("m", 10, ring=True), rules=(required("job", "block"),)))
    racks = [world.topology.place[1][pod.node_index] for pod in found.pods]
    assert racks == sorted(racks)


def test_a_preferred_rack_is_taken_whole_and_else_the_nearest_is() -> None:
    nodes = [
        make_node(f"n{i}", rack=f"h{(i + 1) // 2}", block="b0" if i < 5 else "b1")
        for i in range(1, 7)
    ]
    world = World(make_topology(nodes, levels=("block", "rack", "node")))
    occupy(world, "n4")
    occupy(world, "n6")
    spec = role_gang(role("m", 2, one_per_node=True), rules=(preferred("job", "rack"),))
    assert nodes_of(world.topology, placed(world, spec)) == ["n1", "n2"]
    occupy(world, "n2")
    found = placed(world, spec)
    assert nodes_of(world.topology, found) == ["n1", "n3"]
    assert broken(world, spec, found) == (preferred("job", "rack"),)


def test_one_per_node_spreads_small_members() -> None:
    world = rack_of("a", "b", "c")
    found = placed(world, role_gang(role("m", 3, gpus=1, one_per_node=True)))
    assert sorted(nodes_of(world.topology, found)) == ["a", "b", "c"]


def test_members_on_one_node_when_ruled() -> None:
    world = rack_of("a", "b")
    occupy(world, "a", 0b111)
    found = placed(world, role_gang(role("m", 3, gpus=2, rules=(required("m", "node"),))))
    assert set(nodes_of(world.topology, found)) == {"b"}


def test_roles_share_the_domain_of_the_job() -> None:
    world = World(make_cluster(racks=3, nodes_per_rack=2))
    occupy(world, "n001")
    spec = role_gang(role("a", 1), role("b", 1, gpus=4), rules=(required("job", "rack"),))
    found = placed(world, spec)
    assert len(count_by(world.topology, found, "rack")) == 1
    assert count_by(world.topology, found, "rack") != {"r01": 2}


def test_roles_that_fit_no_domain_together_say_how_many_do() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    spec = role_gang(role("a", 2), role("b", 1), rules=(required("job", "rack"),))
    verdict = refused(world, spec)
    assert verdict.wanted == 3
    assert verdict.fitting == 2


def test_the_minimum_of_every_role_comes_before_extras() -> None:
    world = rack_of("n0", "n1", "n2")
    spec = role_gang(role("a", 3, min=1), role("b", 2, min=1))
    found = placed(world, spec)
    counts = {name: sum(p.role == name for p in found.pods) for name in ("a", "b")}
    assert counts["a"] >= 1
    assert counts["b"] >= 1
    assert sum(counts.values()) == 3


def test_cpu_only_members_are_packed_by_cpu() -> None:
    kind = make_type()
    world = World(make_cluster(node_type=kind))
    wants = Resources(cpu_milli=kind.capacity.cpu_milli // 2, memory_mib=1024)
    found = placed(world, role_gang(role("c", 3, gpus=0, resources=wants)))
    assert sorted(
        nodes_of(world.topology, found).count(n) for n in set(nodes_of(world.topology, found))
    ) == [1, 2]


def test_counted_resources_limit_members() -> None:
    kind = make_type()
    world = World(make_cluster(node_type=kind))
    verdict = refused(
        world, role_gang(role("c", 1, gpus=1, resources=Resources(other=(("fpga", 1),))))
    )
    assert verdict.set_aside == {"cpu_memory_or_other_in_use": 8}


def test_labels_taints_and_lists_keep_nodes_out() -> None:
    nodes = [make_node(f"n{i}", rack="r0") for i in range(4)]
    nodes[0] = type(nodes[0])("n0", nodes[0].type, nodes[0].places, {"zone": "a"})
    nodes[1] = type(nodes[1])(
        "n1", nodes[1].type, nodes[1].places, {"zone": "a"}, (Taint("gpu", "no"),)
    )
    world = World(make_topology(nodes, levels=("rack", "node")))
    picky = role_gang(role("m", 1), labels={"zone": "a"})
    assert nodes_of(world.topology, placed(world, picky)) == ["n0"]
    verdict = refused(world, role_gang(role("m", 2, one_per_node=True), labels={"zone": "a"}))
    assert verdict.set_aside == {"labels": 2, "tainted": 1}
    listed = role_gang(role("m", 1), nodes=("n3",))
    assert nodes_of(world.topology, placed(world, listed)) == ["n3"]
    assert refused(world, role_gang(role("m", 2), nodes=("n3",))).set_aside["not_listed"] == 3


def test_a_taint_that_only_prefers_bars_nobody() -> None:
    soft = (Taint("slow", "", TaintEffect.PREFER_NO_SCHEDULE),)
    node = make_node("n0", rack="r0")
    world = World(
        make_topology([type(node)("n0", node.type, node.places, {}, soft)], levels=("rack", "node"))
    )
    assert len(placed(world, role_gang(role("m", 1))).pods) == 1


def test_gpu_models_choose_the_node_type() -> None:
    small, large = make_type("a", gpus=4), make_type("b", gpus=8)
    nodes = [make_node("n0", small, rack="r0"), make_node("n1", large, rack="r0")]
    world = World(make_topology(nodes, {"a": small, "b": large}, levels=("rack", "node")))
    assert nodes_of(world.topology, placed(world, role_gang(role("m", 1, gpus=8)))) == ["n1"]
    assert "no known node" in refused(world, role_gang(role("m", 1, gpus=9))).message
    assert "model 'MI300X'" in refused(world, role_gang(role("m", 1, gpus=1), gpu="MI300X")).message


def exhausted(spec: JobSpec, world: World) -> bool:
    return pack_exactly(world.trial, spec, None)[1]


def test_exact_packing_finds_what_every_greedy_order_misses() -> None:
    """Nodes with 5 and 4 free; members 3, 2, 2, 2: only 3 + 2 and 2 + 2 fit."""
    world = rack_of("a", "b")
    occupy(world, "a", 0b111)
    occupy(world, "b", 0b1111)
    found = placed(world, role_gang(role("x", 1, gpus=3), role("y", 3, gpus=2)))
    assert len(found.pods) == 4
    exact, cut = pack_exactly(
        world.trial, role_gang(role("x", 1, gpus=3), role("y", 3, gpus=2)), None
    )
    assert exact is not None
    assert len(exact) == 4
    assert not cut


def test_exact_packing_says_when_it_cannot_look_at_everything() -> None:
    many = role_gang(role("x", 200, gpus=1), role("y", 200, gpus=1))
    assert exhausted(many, World(make_cluster(racks=20, nodes_per_rack=10)))
    assert STEP_LIMIT < 400 * 200
    ruled = role_gang(role("x", 1, rules=(required("x", "rack"),)), role("y", 1))
    assert exhausted(ruled, rack_of("a", "b"))


def test_exact_packing_keeps_members_of_one_role_apart_when_asked() -> None:
    world = rack_of("a", "b")
    spec = role_gang(role("x", 2, gpus=2, one_per_node=True), role("y", 1, gpus=6))
    exact, _ = pack_exactly(world.trial, spec, None)
    assert exact is not None
    nodes = [p.node_index for p in exact if p.role == "x"]
    assert len(set(nodes)) == 2


def test_a_gang_grows_inside_the_domain_of_its_rule() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    spec = role_gang(role("m", 8, min=1, rules=(required("m", "rack"),)))
    index = world.topology.node_index["n006"]
    more = grow(world.trial, spec, {("m", 0): index})
    names = {world.topology.nodes[p.node_index].name for p in more}
    assert names <= {"n005", "n006", "n007", "n008"}
    assert len(more) == 4


def test_a_gang_grows_as_near_as_it_can() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    spec = role_gang(role("m", 2, min=1, one_per_node=True))
    index = world.topology.node_index["n006"]
    (more,) = grow(world.trial, spec, {("m", 0): index})
    assert world.topology.nodes[more.node_index].name in {"n005", "n007", "n008"}


def test_only_whole_parts_are_added() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=3))
    spec = role_gang(role("m", 6, min=2, parts=parts(2, 3, 1)))
    nodes = {("m", 0): 0, ("m", 1): 1}
    for (_, _), node in nodes.items():
        occupy(world, world.topology.nodes[node].name)
    assert grow(world.trial, spec, nodes) == []


def test_members_that_ended_well_do_not_come_again() -> None:
    world = World(make_cluster())
    spec = role_gang(role("m", 3, min=1))
    more = grow(world.trial, spec, {("m", 0): 0}, {("m", 1)})
    assert [p.index for p in more] == [2]


def test_growth_under_a_rule_whose_level_is_gone_adds_nothing() -> None:
    world = World(make_cluster(levels=("rack", "node")))
    spec = role_gang(role("m", 3, min=1), rules=(required("job", "leaf"),))
    assert grow(world.trial, spec, {("m", 0): 0}) == []


def test_roles_under_a_missing_level_say_which_levels_there_are() -> None:
    world = World(make_cluster(levels=("rack", "node")))
    spec = role_gang(role("a"), role("b"), rules=(required("job", "leaf"),))
    assert "rack, node" in refused(world, spec).message


def test_a_role_is_on_one_node_type() -> None:
    """Three nodes of each type: five members fit on neither alone."""
    kinds = {n: make_type(n) for n in ("a", "b")}
    nodes = [make_node(f"{k}{i}", kinds[k], rack="r0") for k in kinds for i in range(3)]
    world = World(make_topology(nodes, kinds, levels=("rack", "node")))
    assert refused(world, role_gang(role("m", 5))).fitting == 3
    assert len(placed(world, role_gang(role("m", 3))).pods) == 3


def test_a_role_named_twice_as_decider_still_places() -> None:
    spec = role_gang(Role("lead", 1, 1, 1, decides=True), Role("work", 2, 2, 1))
    assert len(placed(rack_of("a"), spec).pods) == 3


def test_counts_may_move_while_domains_are_tried() -> None:
    """Found by chance: a domain that was tried and given back changed the line of those to come."""
    world = World(make_cluster(racks=4, nodes_per_rack=3))
    occupy(world, "n001", 0x0F)
    spec = role_gang(role("a", 2, gpus=3), role("b", 2, gpus=8), rules=(required("job", "rack"),))
    assert len(placed(world, spec).pods) == 4


def test_a_rule_of_a_role_is_told_by_its_name() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    verdict = refused(world, role_gang(role("work", 3, rules=(required("work", "rack"),))))
    assert verdict.rule == required("work", "rack")
    assert "'work within rack, required'" in verdict.message
