"""Limits of queues in an explanation."""

import pytest

from scheduler.cluster.world import World
from scheduler.explain.answer import Answer, ChangeKind, Raise
from scheduler.explain.explain import ask
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import Reason
from scheduler.model.placement import Placement
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, occupy, submit


def world_with(*queues: QueueRecord) -> World:
    world = World(make_cluster(racks=2, nodes_per_rack=2))
    world.set_queues(queues)
    return world


def told(world: World, spec: JobSpec) -> Answer:
    found = ask(world, spec, Policy(), 0.0)
    assert isinstance(found, Answer), found
    return found


def kinds(answer: Answer) -> set[ChangeKind]:
    return {change.kind for change in answer.changes}


def raises(answer: Answer) -> tuple[Raise, ...]:
    return next(change.raises for change in answer.changes if change.kind is ChangeKind.LIMIT)


def test_limit_that_is_too_low_is_to_be_raised_to_use_and_wish_together() -> None:
    world = world_with(QueueRecord("q", limit_gpus=16))
    submit(world, gang(8, queue="q"), "old")
    cycle(world)
    answer = told(world, gang(8, dp=2, queue="q"))
    assert answer.verdict.code is Reason.LIMIT
    assert raises(answer) == (Raise("q", 24),)
    assert ChangeKind.FINISH in kinds(answer), "the other job of the queue may end instead"


def test_only_jobs_that_count_against_the_limit_are_to_end() -> None:
    world = world_with(QueueRecord("q", limit_gpus=16), QueueRecord("r"))
    for name, queue in (("mine", "q"), ("other", "r")):
        submit(world, gang(8, queue=queue), name)
        cycle(world)
    answer = told(world, gang(8, dp=2, queue="q"))
    (finish,) = [c for c in answer.changes if c.kind is ChangeKind.FINISH]
    assert [job.uid for job in finish.jobs] == ["mine"]


def test_limits_of_queues_above_and_of_models_are_raised_together() -> None:
    world = world_with(
        QueueRecord("root", limit_gpus=8),
        QueueRecord("q", parent="root", limit_by_model={"H100-80GB": 4}),
    )
    answer = told(world, gang(8, dp=2, queue="q", gpu="H100-80GB"))
    assert set(raises(answer)) == {Raise("root", 16), Raise("q", 16, "H100-80GB")}


def test_gang_that_takes_any_model_needs_one_limit_of_a_model_raised() -> None:
    world = world_with(QueueRecord("q", limit_by_model={"H100-80GB": 8}))
    assert raises(told(world, gang(8, dp=2, queue="q"))) == (Raise("q", 16, "H100-80GB"),)


def test_limit_is_not_proposed_where_raising_it_would_not_be_enough() -> None:
    world = world_with(QueueRecord("q", limit_gpus=8))
    for node in ("n001", "n002", "n003"):
        occupy(world, node)
    answer = told(world, gang(8, dp=2, queue="q"))
    assert answer.verdict.code is Reason.LIMIT
    assert ChangeKind.LIMIT not in kinds(answer)


def test_gang_may_shrink_to_what_its_limit_allows() -> None:
    world = world_with(QueueRecord("q", limit_gpus=24))
    answer = told(world, gang(8, dp=4, queue="q"))
    (shrink,) = [c for c in answer.changes if c.kind is ChangeKind.SHRINK]
    assert shrink.size == 3


def test_closed_queue_has_no_change_that_would_help() -> None:
    world = world_with(QueueRecord("q", closed=True))
    answer = told(world, gang(8, queue="q"))
    assert (answer.verdict.code, answer.changes) == (Reason.CLOSED, ())


@pytest.mark.parametrize("limit", [None, 32])
def test_gang_within_its_limits_is_placed(limit: int | None) -> None:
    world = world_with(QueueRecord("q", limit_gpus=limit))
    found = ask(world, gang(8, dp=4, queue="q"), Policy(), 0.0)
    assert isinstance(found, Placement)
