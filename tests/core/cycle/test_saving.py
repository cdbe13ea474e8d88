"""Gangs with a checkpoint hook: asked before they leave, and given their time, not less."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Eviction, EvictStep, FactKind, Plan
from tests.builders import make_cluster
from tests.core.gangs import cancel, cycle, gang, report, report_all, submit, tell

NOW_S = 10_000.0
GRACE_S = 120.0


def running(world: World, name: str = "low", grace_s: float | None = GRACE_S) -> JobId:
    """A gang with a hook that fills the cluster and has run for a while."""
    uid = submit(world, gang(8, 1, 2, grace_s=grace_s), name)
    world.put_job(replace(world.jobs[uid], submitted_s=NOW_S))
    cycle(world, now_s=NOW_S - 100)
    report_all(world, uid, PodState.RUNNING)
    cycle(world, now_s=NOW_S - 100)
    assert world.jobs[uid].state is JobState.RUNNING
    return uid


def world_with_a_claimant() -> tuple[World, JobId, JobId]:
    """A gang that is to save first, for another that has claimed its place."""
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    low = running(world)
    high = submit(world, gang(8, 1, 2), "high", priority=100)
    world.put_job(replace(world.jobs[high], submitted_s=NOW_S))
    cycle(world, now_s=NOW_S)
    return world, low, high


def evict_of(world: World, uid: JobId) -> Eviction:
    evict = world.jobs[uid].evict
    assert evict is not None
    return evict


def say(world: World, kind: FactKind, uid: JobId, request_id: str | None = None) -> None:
    """What became of the request to save that a gang got."""
    tell(world, kind, uid, evict_of(world, uid).request_id if request_id is None else request_id)


def states(world: World, uid: JobId) -> set[PodState]:
    return {pod.state for pod in world.live_pods(uid)}


def stop_all(world: World, uid: JobId, now_s: float) -> Plan:
    for pod in world.live_pods(uid):
        assert pod.state is PodState.TERMINATING
        report(world, pod, PodState.STOPPED)
    return cycle(world, now_s=now_s)


def test_a_victim_with_a_hook_is_asked_and_runs_on_while_its_place_is_claimed() -> None:
    world, low, high = world_with_a_claimant()
    assert evict_of(world, low).step is EvictStep.ASKED
    assert evict_of(world, low).request_id
    assert evict_of(world, low).for_job == high
    assert states(world, low) == {PodState.RUNNING}
    assert world.jobs[high].state is JobState.RESERVED
    assert len(world.claims) == 2


def test_time_does_not_count_before_the_hook_is_being_asked() -> None:
    world, low, _ = world_with_a_claimant()
    plan = cycle(world, now_s=NOW_S + 100 * GRACE_S)
    assert evict_of(world, low).step is EvictStep.ASKED
    assert not plan.pod_moves
    assert plan.wake_at_s is None


def test_a_hook_that_never_answers_has_its_grace_and_no_more() -> None:
    world, low, high = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    plan = cycle(world, now_s=NOW_S + 5)
    assert plan.wake_at_s == NOW_S + 5 + GRACE_S
    cycle(world, now_s=NOW_S + 4.9 + GRACE_S)
    assert states(world, low) == {PodState.RUNNING}
    cycle(world, now_s=NOW_S + 5 + GRACE_S)
    assert evict_of(world, low).step is EvictStep.TERMINATING
    stop_all(world, low, NOW_S + 6 + GRACE_S)
    assert world.jobs[low].state is JobState.PENDING
    assert world.jobs[high].state is JobState.BOUND


def test_asking_again_gives_no_more_time() -> None:
    world, low, _ = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    cycle(world, now_s=NOW_S)
    say(world, FactKind.ASKED, low)
    cycle(world, now_s=NOW_S + 60)
    assert evict_of(world, low).deadline_s == NOW_S + GRACE_S


def test_a_gang_that_has_saved_leaves_at_once() -> None:
    world, low, _ = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    say(world, FactKind.CHECKPOINT, low)
    cycle(world, now_s=NOW_S + 3)
    assert evict_of(world, low).step is EvictStep.TERMINATING
    assert states(world, low) == {PodState.TERMINATING}


def test_a_gang_that_says_it_saves_has_until_the_same_deadline() -> None:
    world, low, _ = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    cycle(world, now_s=NOW_S)
    say(world, FactKind.SAVING, low)
    cycle(world, now_s=NOW_S + 3)
    assert evict_of(world, low).step is EvictStep.SAVING
    assert evict_of(world, low).deadline_s == NOW_S + GRACE_S
    assert states(world, low) == {PodState.RUNNING}
    cycle(world, now_s=NOW_S + GRACE_S)
    assert evict_of(world, low).step is EvictStep.TERMINATING


def test_an_answer_to_another_request_changes_nothing() -> None:
    world, low, _ = world_with_a_claimant()
    before = evict_of(world, low)
    say(world, FactKind.CHECKPOINT, low, "of-last-week")
    say(world, FactKind.ASKED, low, "of-last-week")
    cycle(world, now_s=NOW_S)
    assert evict_of(world, low) == before
    assert world.facts == []


def test_a_gang_not_yet_asked_stays_when_the_one_it_leaves_for_goes_away() -> None:
    world, low, high = world_with_a_claimant()
    cancel(world, high)
    plan = cycle(world, now_s=NOW_S + 1)
    assert world.jobs[low].state is JobState.RUNNING
    assert world.jobs[low].evict is None
    assert not plan.pod_moves
    assert not world.claims


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_gang_that_was_asked_goes_on_when_the_one_it_leaves_for_goes_away(
    asked_first: bool,
) -> None:
    world, low, high = world_with_a_claimant()
    if asked_first:
        say(world, FactKind.ASKED, low)
    cancel(world, high)
    if not asked_first:
        say(world, FactKind.ASKED, low)
    cycle(world, now_s=NOW_S + 1)
    assert world.jobs[low].state is JobState.EVICTING
    assert evict_of(world, low).deadline_s == NOW_S + 1 + GRACE_S


def test_a_suspend_by_the_owner_is_not_withdrawn_with_the_claimant() -> None:
    world, low, high = world_with_a_claimant()
    tell(world, FactKind.SUSPEND, low)
    cycle(world, now_s=NOW_S)
    cancel(world, high)
    cycle(world, now_s=NOW_S)
    assert world.jobs[low].state is JobState.EVICTING
    assert evict_of(world, low).then is JobState.SUSPENDED
    assert evict_of(world, low).step is EvictStep.ASKED


def test_an_end_asked_for_meanwhile_keeps_the_step_and_the_deadline() -> None:
    world, low, _ = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    cycle(world, now_s=NOW_S)
    before = evict_of(world, low)
    tell(world, FactKind.SUSPEND, low)
    cycle(world, now_s=NOW_S + 50)
    after = evict_of(world, low)
    assert (after.step, after.deadline_s, after.request_id) == (
        EvictStep.ASKED,
        NOW_S + GRACE_S,
        before.request_id,
    )
    assert after.then is JobState.SUSPENDED


@pytest.mark.parametrize("kind", [FactKind.SUSPEND, FactKind.REQUEUE])
def test_a_gang_saves_before_its_owner_has_it_leave(kind: FactKind) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    low = running(world)
    tell(world, kind, low)
    cycle(world, now_s=NOW_S)
    assert evict_of(world, low).step is EvictStep.ASKED
    assert states(world, low) == {PodState.RUNNING}


def test_a_gang_that_is_cancelled_is_not_asked() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    low = running(world)
    cancel(world, low)
    cycle(world, now_s=NOW_S)
    assert low not in world.jobs or world.jobs[low].state is JobState.CANCELLED


@pytest.mark.parametrize("grace_s", [None, GRACE_S])
def test_a_gang_that_never_ran_or_has_no_hook_stops_at_once(grace_s: float | None) -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    if grace_s is None:
        low = running(world, grace_s=None)
    else:
        low = submit(world, gang(8, 1, 2, grace_s=grace_s), "low")
        cycle(world, now_s=NOW_S)
    tell(world, FactKind.REQUEUE, low)
    cycle(world, now_s=NOW_S)
    assert evict_of(world, low).step is EvictStep.TERMINATING
    assert states(world, low) == {PodState.TERMINATING}


def test_a_gang_that_crashes_while_it_saves_has_left() -> None:
    world, low, high = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    report(world, world.live_pods(low)[0], PodState.FAILED, 1)
    world.put_job(
        replace(
            world.jobs[low],
            spec=replace(
                world.jobs[low].spec, failure=replace(world.jobs[low].spec.failure, max_restarts=3)
            ),
        )
    )
    cycle(world, now_s=NOW_S + 1)
    assert world.jobs[low].state is JobState.PENDING
    assert world.jobs[high].state is JobState.BOUND


def test_a_gang_that_ends_well_while_it_saves_has_succeeded() -> None:
    world, low, high = world_with_a_claimant()
    say(world, FactKind.ASKED, low)
    report_all(world, low, PodState.SUCCEEDED, 0)
    cycle(world, now_s=NOW_S + 1)
    assert low not in world.jobs or world.jobs[low].state is JobState.SUCCEEDED
    assert world.jobs[high].state is JobState.BOUND
