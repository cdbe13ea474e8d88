"""Required and preferred rules of parallel jobs, exact by counts."""

import pytest

from scheduler.cluster.world import World
from scheduler.model.lifecycle import Reason
from scheduler.model.node import FabricLevel
from scheduler.place.admit import never_fits
from tests.builders import make_cluster, make_node, make_topology, make_tree, make_type
from tests.core.gangs import (
    broken,
    count_by,
    gang,
    nodes_of,
    occupy,
    placed,
    preferred,
    refused,
    required,
    spans,
)


def superpod() -> World:
    """128 nodes: 4 leaves of 8 racks of 4."""
    return World(make_cluster(racks=8, nodes_per_rack=4, leaves=4))


def leaves_of(size: int, count: int) -> World:
    return World(make_tree({"block": 1, "leaf": count, "node": size}))


def test_required_pp_keeps_every_pipeline_in_one_leaf() -> None:
    world, spec = superpod(), gang(8, 8, 16, required("pp", "leaf"))
    found = placed(world, spec)
    assert spans(world.topology, spec, found, "pp", "leaf") == [1] * 128
    assert spans(world.topology, spec, found, "tp", "node") == [1] * 128


def test_required_dp_keeps_every_replica_group_in_one_leaf() -> None:
    world, spec = superpod(), gang(8, 8, 16, required("dp", "leaf"))
    found = placed(world, spec)
    assert spans(world.topology, spec, found, "dp", "leaf") == [1] * 64
    assert max(spans(world.topology, spec, found, "pp", "leaf")) > 1


@pytest.mark.parametrize("leaf_size", [16, 40])
def test_each_rule_holds_on_leaves_of_either_size(leaf_size: int) -> None:
    """32 nodes; pp groups have 4 nodes, dp groups 8, so both rules together need one leaf of 32."""
    world = leaves_of(leaf_size, 4)
    for axis in ("pp", "dp"):
        spec = gang(8, 4, 8, required(axis, "leaf"))
        assert set(spans(world.topology, spec, placed(world, spec), axis, "leaf")) == {1}
    both = gang(8, 4, 8, required("pp", "leaf"), required("dp", "leaf"))
    if leaf_size >= 32:
        assert len(count_by(world.topology, placed(world, both), "leaf")) == 1
    else:
        verdict = never_fits(both, world.topology)
        assert verdict is not None
        assert verdict.never
        assert verdict.nearest is not None
        assert verdict.nearest.lacks_nodes == 16


def test_a_rule_counts_whole_groups_only() -> None:
    """Leaves of 7 free nodes hold one pipeline of 4 each: three leaves hold three, not five."""
    world = leaves_of(7, 3)
    assert len(placed(world, gang(8, 4, 3, required("pp", "leaf"))).pods) == 12
    verdict = refused(world, gang(8, 4, 5, required("pp", "leaf")))
    assert (verdict.code, verdict.fitting, verdict.wanted) == (Reason.RULE, 12, 20)


def test_rules_at_two_levels_nest() -> None:
    """Pairs of pp nodes inside racks of 3, all inside a leaf of 4 such racks: 4 pairs fit."""
    world = World(make_cluster(racks=4, nodes_per_rack=3, leaves=2))
    rules = (required("pp", "rack"), required("job", "leaf"))
    spec = gang(8, 2, 4, *rules)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "pp", "rack")) == {1}
    assert len(count_by(world.topology, found, "leaf")) == 1
    assert refused(world, gang(8, 2, 5, *rules)).fitting == 8


def test_a_job_waits_while_every_leaf_lacks_four_nodes() -> None:
    world = leaves_of(16, 3)
    for leaf in range(3):
        for node in range(4):
            occupy(world, f"n{leaf * 16 + node + 1:03d}")
    verdict = refused(world, gang(8, 4, 4, required("job", "leaf")))
    assert (verdict.never, verdict.code) == (False, Reason.RULE)
    assert verdict.nearest is not None
    assert (verdict.nearest.level, verdict.nearest.lacks_nodes) == ("leaf", 4)
    assert verdict.nearest.lacks_gpus == 32
    assert verdict.set_aside == {"gpus_in_use": 12}


def test_a_preferred_rule_is_kept_when_it_can_be() -> None:
    world = leaves_of(8, 4)
    spec = gang(8, 4, 4, preferred("pp", "leaf"))
    found = placed(world, spec)
    assert broken(world, spec, found) == ()
    assert set(spans(world.topology, spec, found, "pp", "leaf")) == {1}


def test_a_preferred_rule_is_broken_as_seldom_as_can_be() -> None:
    """Leaves of 6, 6, 4 free: two pipelines of 4 fit whole in the sixes, one in the four, and the
    fourth must lie in two leaves."""
    world = leaves_of(6, 3)
    occupy(world, "n013")
    occupy(world, "n014")
    spec = gang(8, 4, 4, preferred("pp", "leaf"))
    found = placed(world, spec)
    assert [(r.group, r.within) for r in broken(world, spec, found)] == [("pp", "leaf")]
    assert sorted(spans(world.topology, spec, found, "pp", "leaf"))[::8] == [1, 1, 1, 2]


def test_a_gang_that_fits_one_leaf_lies_in_the_tightest() -> None:
    world = superpod()
    occupy(world, "n040")
    found = placed(world, gang(8, 4, 4))
    assert count_by(world.topology, found, "leaf") == {"l2": 16}
    assert len(count_by(world.topology, found, "rack")) == 4


def test_a_larger_gang_keeps_the_heavier_axis_inside() -> None:
    """16 nodes over leaves of 8: the groups of dp stay whole, those of pp cross."""
    world = leaves_of(8, 4)
    spec = gang(8, 4, 4)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "dp", "leaf")) == {1}
    assert max(spans(world.topology, spec, found, "pp", "leaf")) == 2


def test_racks_that_cost_nothing_do_not_pull_pipelines_apart() -> None:
    """Where the fabric prices leaves, a leaf for the gang wins over racks that hold dp."""
    topology = make_cluster(racks=4, nodes_per_rack=4, leaves=2)
    object.__setattr__(
        topology, "fabric", {"leaf": FabricLevel(400.0), "block": FabricLevel(400.0)}
    )
    world = World(topology)
    for rack_start in (1, 5, 9):
        for node in range(rack_start, rack_start + 2):
            occupy(world, f"n{node:03d}")
    spec = gang(8, 2, 4)
    found = placed(world, spec)
    assert len(count_by(topology, found, "leaf")) == 1


def test_expert_groups_stay_in_one_leaf_when_ruled() -> None:
    """tp 2, ep 16 with etp 1: an ep group is 16 consecutive ranks = 2 nodes."""
    world = World(make_cluster(racks=4, nodes_per_rack=3, leaves=2))
    spec = gang(2, 2, 16, required("ep", "rack"), ep=16, etp=1)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "ep", "rack")) == {1}


def test_an_explicit_tp_rule_replaces_the_default() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    assert refused(world, gang(16)).code is Reason.RULE
    assert len(placed(world, gang(16, 1, 1, required("tp", "rack"))).pods) == 2


def test_a_rule_at_a_level_that_the_map_lost_says_so() -> None:
    world = World(make_cluster(levels=("rack", "node")))
    verdict = refused(world, gang(8, 2, 1, required("pp", "leaf")))
    assert "no level 'leaf'" in verdict.message
    assert "rack" in verdict.message


def test_pods_that_cut_groups_at_odd_places_are_held_together() -> None:
    """cp 3 in pods of 8 ranks: every pod shares a cp group with the next, so all three are one."""
    spec = gang(1, 1, 8, required("cp", "rack"), cp=3, gpus_per_pod=8)
    world = World(make_cluster(racks=2, nodes_per_rack=3))
    assert len(count_by(world.topology, placed(world, spec), "rack")) == 1
    small = World(make_cluster(racks=2, nodes_per_rack=2))
    assert refused(small, spec).code is Reason.RULE


def test_nvl72_racks_hold_four_gangs_of_sixteen_each() -> None:
    tray = make_type("gb200", gpus=4, scale_up="rack")
    world = World(make_tree({"rack": 4, "node": 18}, node_type=tray))
    racks: dict[str, int] = {}
    for number in range(16):
        found = placed(world, gang(16))
        (rack,) = count_by(world.topology, found, "rack")
        racks[rack] = racks.get(rack, 0) + 1
        for node in nodes_of(world.topology, found):
            occupy(world, node, job=f"j{number}")
    assert set(racks.values()) == {4}
    assert refused(world, gang(16)).nearest is not None
    assert len(placed(world, gang(8)).pods) == 2


def test_one_pod_may_go_where_no_rack_is_known_unless_the_job_is_ruled() -> None:
    """A tp group inside one pod lies in one rack wherever the pod is; a ruled job must have one."""
    nodes = [make_node("n0", rack=None)]
    world = World(make_topology(nodes, levels=("rack", "node")))
    assert len(placed(world, gang(8, 1, 1, required("tp", "rack"))).pods) == 1
    assert refused(world, gang(8, 1, 1, required("job", "rack"))).code is Reason.RULE


def test_a_gang_larger_than_the_cluster_is_told_what_the_cluster_lacks() -> None:
    """Not what the next unit would need in some rack: no rule stands in the way."""
    tray = make_type("gb200", gpus=4, scale_up="rack")
    world = World(make_tree({"rack": 2, "node": 18}, node_type=tray))
    verdict = refused(world, gang(16, 1, 20))
    assert verdict.code is Reason.ROOM
    assert verdict.nearest is not None
    assert (verdict.nearest.domain, verdict.nearest.lacks_nodes) == ("", 44)
    assert "the cluster lacks 44 nodes (176 GPUs)" in verdict.message


def test_a_preference_that_cannot_hold_never_breaks_a_required_rule() -> None:
    """Pairs of pods share a tp group in one leaf; racks with three free nodes tempt to cut one."""
    world = World(make_cluster(racks=1, nodes_per_rack=3, leaves=2))
    spec = gang(8, 2, 1, required("tp", "leaf"), preferred("job", "rack"), gpus_per_pod=4)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "tp", "leaf")) == {1}
