"""Scale-up domains of several nodes: NVL72 racks, Ascend supernodes, segments."""

import pytest

from scheduler.cluster.world import World
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.model.lifecycle import Reason
from scheduler.place.admit import never_fits
from tests.builders import make_tree
from tests.core.gangs import count_by, gang, occupy, placed, preferred, refused, required, spans

TRAY = BUILT_IN["gb200-tray"]


def racks_of_trays(racks: int = 5) -> World:
    """NVL72: 18 trays of 4 GPUs to a rack."""
    return World(make_tree({"leaf": 1, "rack": racks, "node": 18}, node_type=TRAY, scale_up="rack"))


def by_rack(world: World, spec: JobSpec) -> list[int]:
    return sorted(count_by(world.topology, placed(world, spec), "rack").values())


def test_a_large_gang_takes_sixteen_trays_of_each_rack() -> None:
    """64 trays: four racks with 16 each, so that two trays of each are left to others."""
    assert by_rack(racks_of_trays(), gang(4, 1, 64)) == [16, 16, 16, 16]


def test_a_segment_is_no_hold_on_trays() -> None:
    """Beside such a gang the two free trays of a rack serve a small job."""
    world = racks_of_trays(4)
    found = placed(world, gang(4, 1, 64))
    world.trial.hold_places(found.pods)
    small = placed(world, gang(8))
    assert len(count_by(world.topology, small, "rack")) == 1


def test_the_job_chooses_its_segment() -> None:
    world = racks_of_trays()
    assert by_rack(world, gang(4, 1, 32, segment=8)) in ([16, 16], [8, 8, 16])
    spec = gang(4, 1, 32, segment=8)
    found = placed(world, spec)
    place = world.topology.place[world.topology.level_index["rack"]]
    for first in range(0, 32, 8):
        assert len({place[pod.node_index] for pod in found.pods[first : first + 8]}) == 1


def test_segments_that_no_domain_holds_do_not_fit() -> None:
    world = racks_of_trays(3)
    for name in ("n001", "n002", "n003", "n019", "n020", "n021", "n037", "n038", "n039"):
        occupy(world, name)
    verdict = refused(world, gang(4, 1, 32, segment=16))
    assert verdict.code is Reason.RULE
    assert "each segment of 16 nodes" in verdict.message
    assert by_rack(world, gang(4, 1, 28, segment=14)) == [14, 14]


def test_a_last_segment_that_is_smaller_is_refused() -> None:
    verdict = never_fits(gang(4, 1, 20, segment=16), racks_of_trays().topology)
    assert verdict is not None
    assert "no whole number of segments of 16" in verdict.message
    assert "1, 2, 4, 5, 10" in verdict.message


def test_a_gang_smaller_than_its_segment_lies_in_one_domain() -> None:
    assert by_rack(racks_of_trays(), gang(4, 1, 12, segment=16)) == [12]


def test_a_rack_that_lost_a_tray_serves_gangs_that_fit_the_rest() -> None:
    world = racks_of_trays(2)
    world.set_node("n001", aside="lost")
    assert by_rack(world, gang(4, 1, 17)) == [17]
    for number in range(19, 37):
        occupy(world, f"n{number:03d}")
    assert by_rack(world, gang(4, 1, 17)) == [17]
    assert refused(world, gang(4, 1, 18, required("job", "rack"))).nearest is not None


@pytest.mark.parametrize("ep", [32, 64])
def test_experts_fill_the_trays_of_one_rack(ep: int) -> None:
    """ep 64 with etp 1 are 16 trays: the all-to-all stays on NVLink."""
    world = racks_of_trays()
    spec = JobSpec(name="j", parallelism=ParallelSizes(tp=4, dp=64, ep=ep, etp=1))
    assert set(spans(world.topology, spec, placed(world, spec), "ep", "rack")) == {1}


def supernodes() -> World:
    """Ascend 384: 48 nodes of 8 in 12 cabinets make one scale-up domain."""
    sizes = {"supernode": 2, "cabinet": 12, "node": 4}
    kind = BUILT_IN["atlas-900-a3"]
    return World(make_tree(sizes, node_type=kind, scale_up="supernode"))


def test_tensor_groups_may_cross_cabinets_of_one_supernode() -> None:
    world = supernodes()
    spec = gang(64, 1, 6)
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "tp", "supernode")) == {1}
    assert len(count_by(world.topology, found, "supernode")) == 1
    assert max(spans(world.topology, spec, found, "tp", "cabinet")) > 1


def test_a_gang_of_two_supernodes_keeps_its_tensor_groups_whole() -> None:
    world = supernodes()
    spec = gang(64, 1, 12, preferred("job", "cabinet"))
    found = placed(world, spec)
    assert set(spans(world.topology, spec, found, "tp", "supernode")) == {1}
    assert count_by(world.topology, found, "supernode") == {"s1": 48, "s2": 48}
