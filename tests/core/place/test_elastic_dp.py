"""Jobs that may start with one of several values of dp."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.errors import JobError
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.place.admit import check_job, never_fits
from scheduler.place.search import ask_for_parallel, place
from tests.builders import make_cluster
from tests.core.gangs import broken, gang, occupy, placed, refused, required


def elastic(*sizes: int, pp: int = 2, **fields: object) -> JobSpec:
    return gang(8, pp, max(sizes), dp_sizes=tuple(sorted(sizes)), **fields)


def test_the_largest_size_that_fits_now_is_taken() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    spec = elastic(1, 2, 4)
    assert len(placed(world, spec).pods) == 8
    occupy(world, "n001")
    assert len(placed(world, spec).pods) == 4
    for number in range(2, 7):
        occupy(world, f"n{number:03d}")
    assert len(placed(world, spec).pods) == 2


def test_the_verdict_is_that_of_the_smallest_size() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    verdict = refused(world, elastic(2, 4))
    assert (verdict.wanted, verdict.fitting) == (4, 2)
    assert never_fits(elastic(2, 4), world.topology) is not None
    assert never_fits(elastic(1, 4), world.topology) is None


def test_rules_are_judged_at_the_size_it_has() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    occupy(world, "n001")
    spec = elastic(2, 4, rules=(required("pp", "rack"),))
    found = place(world.trial, spec)
    assert isinstance(found, Placement)
    assert len(found.pods) == 4
    assert broken(world, spec, found) == ()


def test_ranks_are_those_of_the_chosen_size() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    found = placed(world, elastic(2, 4))
    assert [pod.first_rank for pod in found.pods] == [0, 8, 16, 24]


def test_every_size_must_agree_with_the_other_axes() -> None:
    """ep 4 with etp 1 divides 8 x 1 x 2 ranks, and 8 x 3 x 2 = 48; pods of 32 divide neither."""
    check_job(elastic(1, 3, ep=4, etp=1), ("rack", "node"))
    with pytest.raises(JobError, match="at dp 3"):
        check_job(elastic(2, 3, gpus_per_pod=32), ("rack", "node"))


def test_a_segment_must_divide_every_size() -> None:
    with pytest.raises(JobError, match="segment: found 4"):
        check_job(elastic(3, 4, gpus_per_pod=8, segment=4), ("rack", "node"))


def test_what_a_gang_asks_for_is_kept_by_gang_and_never_mixed_up_with_another() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=4))
    one, two = gang(8, 2, 2), gang(8, 2, 2, rules=(required("job", "rack"),))
    kind = world.topology.kinds[0]
    sizes = one.parallelism
    assert sizes is not None
    first = ask_for_parallel(world.trial, one, sizes, kind)
    assert ask_for_parallel(world.trial, one, sizes, kind).price is first.price
    assert ask_for_parallel(world.trial, two, sizes, kind).rules != first.rules
    half = ask_for_parallel(world.trial, one, replace(sizes, dp=1), kind)
    assert (first.units.pods, half.units.pods) == (4, 2)
    other = World(make_cluster(racks=2, nodes_per_rack=4))
    anew = ask_for_parallel(other.trial, one, sizes, other.topology.kinds[0])
    assert anew.price is not first.price
