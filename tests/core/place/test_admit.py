"""Checks at the door."""

import pytest

from scheduler.cluster.world import World
from scheduler.errors import JobError
from scheduler.model.job import JobSpec, ParallelSizes, Parts, Role, Rule, Toleration
from scheduler.model.node import Taint, TaintEffect
from scheduler.model.placement import NoFit, Placement
from scheduler.place.admit import check_job, dry_run, never_fits
from tests.builders import make_cluster
from tests.core.gangs import gang, occupy, preferred, required, role, role_gang

LEVELS = ("block", "leaf", "rack", "node")


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        (JobSpec(name="j"), "parallelism", "neither"),
        (JobSpec(name="j", parallelism=ParallelSizes(), roles=(role(),)), "parallelism", "both"),
        (gang(8, 2, 2, ep=3), "parallelism.ep", "does not divide"),
        (gang(8, order=("tp", "tp", "ep", "dp", "pp")), "parallelism.order", "once"),
        (gang(1000, 1000, 2), "parallelism", "at most 1000000"),
        (gang(8, 1, 2, gpus_per_pod=5), "gpus_per_pod", "1, 2, 4, 8, 16"),
        (gang(8, 1, 1, required("pp", "rak")), "topology[0].within", "block, leaf, rack, node"),
        (gang(8, 1, 1, required("m", "rack")), "topology[0].group", "tp, cp, pp, dp, ep, job"),
        (role_gang(role("m", 2), rules=(required("x", "rack"),)), "topology[0].group", "job, m"),
        (role_gang(role("m", 2, min=3)), "roles[0].min", "1 to replicas, 2"),
        (role_gang(role("m", 2, min=0)), "roles[0].min", "found 0"),
        (role_gang(role("m", 5, parts=Parts(2, 2, 2))), "roles[0].parts", "replicas 5"),
        (role_gang(role("m", 4, parts=Parts(2, 2, 3))), "roles[0].parts.min", "1 to count, 2"),
        (role_gang(role("m", 4, min=3, parts=Parts(2, 2, 1))), "roles[0].min", "parts.min 1"),
        (role_gang(role("m"), role("m")), "roles[1].name", "roles[0]"),
        (role_gang(role("pp")), "roles[0].name", "choose another"),
        (role_gang(role("m", 10**6, gpus=2)), "roles", "at most 1000000"),
        (
            role_gang(role("m", 2, parts=Parts(2, 1, 1, (Rule("", "rak"),)))),
            "roles[0].parts.topology[0].within",
            "rak",
        ),
        (role_gang(role("m", rules=(required("m", "row"),))), "roles[0].topology[0].within", "row"),
    ],
)
def test_contradictions_are_named_with_their_path(spec: JobSpec, path: str, words: str) -> None:
    with pytest.raises(JobError) as caught:
        check_job(spec, LEVELS)
    problem = caught.value.problems[0]
    assert problem.path == path
    assert words in problem.message
    assert path in str(caught.value)


def test_sound_jobs_pass() -> None:
    check_job(gang(8, 8, 16, required("pp", "leaf"), preferred("job", "scale_up")), LEVELS)
    check_job(role_gang(Role("m", 4, 2, 1, parts=Parts(2, 2, 1))), LEVELS)
    check_job(gang(2, 4, 16, ep=16, etp=1), LEVELS)


def test_never_fits_asks_the_empty_cluster() -> None:
    topology = make_cluster(racks=2, nodes_per_rack=2)
    world = World(topology)
    for name in ("n001", "n002", "n003", "n004"):
        occupy(world, name)
    assert never_fits(gang(8, 1, 4), topology) is None
    too_large = never_fits(gang(8, 1, 5), topology)
    assert too_large is not None
    assert too_large.never
    waits, never = dry_run(world, gang(8)), dry_run(world, gang(8, 1, 5))
    assert isinstance(waits, NoFit)
    assert isinstance(never, NoFit)
    assert (waits.never, never.never) == (False, True)
    assert isinstance(dry_run(World(topology), gang(8)), Placement)


def test_tp_wider_than_the_scale_up_domain_says_what_a_node_holds() -> None:
    verdict = never_fits(gang(16), make_cluster())
    assert verdict is not None
    assert "a node holds one pod of it, at most 8 GPUs" in verdict.message


def test_tolerations_work_as_in_kubernetes() -> None:
    taint = Taint("gpu", "shared", TaintEffect.NO_SCHEDULE)
    assert Toleration(exists=True).tolerates(taint)
    assert not Toleration().tolerates(taint)
    assert Toleration("gpu", value="shared").tolerates(taint)
    assert Toleration("gpu", exists=True).tolerates(taint)
    assert not Toleration("gpu", value="other").tolerates(taint)
    assert not Toleration("gpu", exists=True, effect=TaintEffect.NO_EXECUTE).tolerates(taint)
