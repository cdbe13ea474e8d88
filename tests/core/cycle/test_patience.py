"""Gangs that wait for a better place although they could start."""

from dataclasses import replace

import pytest

from scheduler.backfill.patience import Worth, as_good, patience_message, patience_s
from scheduler.backfill.words import moment
from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import Plan
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, job_nodes, occupy, preferred, report_all, submit

NOW_S = 36_000.0
"""10:00 UTC."""


def now(world: World, after_s: float = 0.0) -> Plan:
    return cycle(world, None, NOW_S + after_s)


def in_two_racks() -> World:
    """Two racks of two nodes, of which one each is free: two nodes in two racks."""
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    for node in ("n001", "n003"):
        occupy(world, node)
    return world


def free(world: World, node: str) -> None:
    for pod in list(world.on_node[node].values()):  # type: ignore[index]  # a name is an id here
        world.put_pod(replace(pod, state=PodState.STOPPED))


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        (gang(8), 0.0),
        (gang(8, duration_s=3_600.0), 180.0),
        (gang(8, duration_s=864_000.0), 600.0),
        (gang(8, duration_s=3_600.0, patience_s=0.0), 0.0),
        (gang(8, patience_s=5_000.0), 5_000.0),
    ],
)
def test_patience_is_a_share_of_the_duration_unless_stated(spec: JobSpec, seconds: float) -> None:
    assert patience_s(spec) == seconds


def test_a_gang_that_could_lie_better_waits_and_says_for_what() -> None:
    world = in_two_racks()
    uid = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    plan = now(world)
    job = world.jobs[uid]
    assert (job.state, job.reason) == (JobState.PENDING, Reason.PATIENCE)
    assert job.message == "could start now on 2 rack domains; waits until 10:05 UTC for 1"
    assert job.could_start_s == NOW_S
    assert plan.wake_at_s == NOW_S + 300.0


def test_a_rule_that_would_be_kept_elsewhere_is_worth_waiting_for() -> None:
    world = in_two_racks()
    object.__setattr__(world.topology, "fabric", {})
    uid = submit(world, gang(8, 2, 1, preferred("pp", "rack"), patience_s=300.0), "a")
    now(world)
    assert world.jobs[uid].reason is Reason.PATIENCE


def test_a_gang_as_good_as_it_could_ever_be_starts_at_once() -> None:
    world = in_two_racks()
    free(world, "n003")
    uid = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    now(world)
    assert job_nodes(world, uid) == ["n003", "n004"]


def test_patience_ends_at_once_when_the_better_place_comes() -> None:
    world = in_two_racks()
    uid = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    now(world)
    free(world, "n001")
    now(world, 60.0)
    assert world.jobs[uid].state is JobState.BOUND
    assert world.jobs[uid].could_start_s is None
    assert job_nodes(world, uid) == ["n001", "n002"]


def test_at_the_end_of_its_patience_a_gang_is_placed_as_it_can_be() -> None:
    world = in_two_racks()
    uid = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    now(world)
    now(world, 299.0)
    assert world.jobs[uid].state is JobState.PENDING
    now(world, 300.0)
    assert job_nodes(world, uid) == ["n002", "n004"]


def test_a_patient_gang_holds_nothing_and_blocks_nobody() -> None:
    world = in_two_racks()
    patient = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    other = submit(world, gang(8), "b")
    now(world)
    assert world.jobs[other].state is JobState.BOUND
    assert world.jobs[patient].state is JobState.PENDING
    assert not world.claims


def test_patience_is_counted_from_when_it_could_first_start_whatever_happens_then() -> None:
    world = in_two_racks()
    patient = submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    now(world)
    other = submit(world, gang(8), "b", priority=5)
    now(world, 10.0)
    assert world.jobs[patient].reason is Reason.ROOM
    report_all(world, other, PodState.SUCCEEDED, 0)
    now(world, 200.0)
    assert world.jobs[patient].could_start_s == NOW_S
    now(world, 300.0)
    assert world.jobs[patient].state is JobState.BOUND


def test_nothing_is_decided_twice_while_a_gang_is_patient() -> None:
    world = in_two_racks()
    submit(world, gang(8, 1, 2, patience_s=300.0), "a")
    now(world)
    assert now(world, 10.0).is_empty()


@pytest.mark.parametrize(
    ("at_s", "said"),
    [(300.0, "00:05 UTC"), (86_400.0, "00:00 UTC tomorrow"), (180_000.0, "02:00 UTC in 2 days")],
)
def test_a_moment_is_told_as_a_time_of_day(at_s: float, said: str) -> None:
    assert moment(at_s, 0.0) == said


@pytest.mark.parametrize(
    ("here", "best", "said"),
    [
        (Worth(0, 2.0, (1, 3)), Worth(0, 1.0, (1, 2)), "on 3 rack domains; waits until"),
        (Worth(2, None, (1, 1)), Worth(0, None, (1, 1)), "with 2 preferred rules not kept;"),
        (Worth(0, 1.5, (1, 1)), Worth(0, 1.0, (1, 1)), "communicates 1.50 times as long"),
    ],
)
def test_what_a_gang_waits_for_is_said_by_what_would_be_better(
    here: Worth, best: Worth, said: str
) -> None:
    topology = make_cluster(levels=("block", "rack", "node"))
    assert said in patience_message(topology, here, best, NOW_S + 60.0, NOW_S)


@pytest.mark.parametrize(
    ("here", "best", "answer"),
    [
        (Worth(0, 1.009, (1, 2)), Worth(0, 1.0, (1, 1)), True),
        (Worth(0, 1.02, (1, 1)), Worth(0, 1.0, (1, 1)), False),
        (Worth(1, 1.0, (1, 1)), Worth(0, 1.0, (1, 1)), False),
        (Worth(0, None, (1, 2)), Worth(0, 1.0, (1, 1)), False),
        (Worth(0, None, (1, 1)), Worth(0, None, (1, 2)), True),
    ],
)
def test_seconds_count_where_they_are_known_else_domains(
    here: Worth, best: Worth, *, answer: bool
) -> None:
    assert as_good(here, best) is answer
