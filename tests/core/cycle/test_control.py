"""What people ask of jobs: every fact in every state."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.evict.control import CONTROL, Effect, effect_of
from scheduler.evict.saving import HANDSHAKE
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import FINAL, JOB_MOVES, JobState, PodState, Reason
from scheduler.model.node import Health
from scheduler.model.plan import Eviction, EvictStep, FactKind, Plan
from scheduler.model.standing import NodeStanding
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, report, report_all, role, role_gang, submit, tell

J, K, E = JobState, FactKind, Effect
LIVE = (J.BOUND, J.RUNNING, J.RECOVERING)
UNFINISHED = [state for state in JobState if state not in FINAL]


def in_state(state: JobState) -> tuple[World, JobId]:
    """A gang of two nodes in a state, on a cluster of two."""
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    if state is J.RESERVED:
        low = submit(world, gang(8, 1, 2), "low", age=9)
        cycle(world)
        report_all(world, low, PodState.RUNNING)
        cycle(world)
    uid = submit(world, gang(8, 1, 2), "a", age=1, priority=5)
    if state is J.PENDING:
        for name in ("n001", "n002"):
            world.set_node(name, aside="cordoned")
    cycle(world)
    if state in {J.RUNNING, J.EVICTING, J.SUSPENDED, J.RECOVERING}:
        report_all(world, uid, PodState.RUNNING)
        cycle(world)
    if state in {J.EVICTING, J.SUSPENDED}:
        tell(world, K.SUSPEND, uid)
        cycle(world)
    if state is J.SUSPENDED:
        report_all(world, uid, PodState.STOPPED)
        cycle(world)
    if state is J.RECOVERING:
        world.put_node("n001", NodeStanding(Health.LOST, fenced=True))
        cycle(world)
    assert world.jobs[uid].state is state
    return world, uid


def stop_all(world: World, uid: JobId) -> Plan:
    report_all(world, uid, PodState.STOPPED)
    return cycle(world)


@pytest.mark.parametrize("kind", sorted(set(FactKind) - HANDSHAKE - {K.REPORT, K.FAULT}))
def test_every_fact_has_an_effect_in_every_state(kind: FactKind) -> None:
    assert set(CONTROL[kind]) == set(JobState)
    assert all(effect_of(kind, state) is E.NOTHING for state in FINAL)


AFTER: Mapping[Effect, Callable[[JobState], JobState | None]] = {
    E.END: lambda _: None,
    E.MARK_HELD: lambda state: J.PENDING if state is J.RESERVED else state,
    E.MARK_FREE: lambda state: state,
    E.SUSPEND: lambda _: J.SUSPENDED,
    E.LEAVE_SUSPENDED: lambda _: J.EVICTING,
    E.LEAVE_PENDING: lambda _: J.EVICTING,
    E.LINE_UP: lambda _: J.BOUND,
    E.STOP_SURPLUS: lambda state: state,
    E.PLAN_ANEW: lambda state: state,
    E.NOTHING: lambda state: state,
}
"""Where a gang of the cluster's size is after one cycle; None = it has ended."""


@pytest.mark.parametrize("state", UNFINISHED)
@pytest.mark.parametrize("kind", sorted(CONTROL))
def test_each_fact_does_in_each_state_what_the_table_says(kind: FactKind, state: JobState) -> None:
    world, uid = in_state(state)
    tell(world, kind, uid)
    cycle(world)
    expected = AFTER[effect_of(kind, state)](state)
    job = world.jobs.get(uid)
    assert (None if job is None else job.state) == expected
    if job is not None:
        assert job.held == (kind is K.HOLD)
        live = {p.state for p in world.live_pods(uid)}
        assert (live == {PodState.TERMINATING}) == (job.state is J.EVICTING)
        assert bool(world.claims) == (job.state is J.RESERVED)


@pytest.mark.parametrize("state", UNFINISHED)
def test_a_held_gang_does_not_start_until_it_is_released(state: JobState) -> None:
    world, uid = in_state(state)
    tell(world, K.HOLD, uid)
    cycle(world)
    if state in LIVE or state is J.EVICTING:
        tell(world, K.REQUEUE, uid)
        cycle(world)
        stop_all(world, uid)
    elif state is J.SUSPENDED:
        tell(world, K.RESUME, uid)
        cycle(world)
    for name in ("n001", "n002"):
        world.set_node(name, aside=None)
    cycle(world)
    job = world.jobs[uid]
    assert (job.state, job.reason, job.held) == (J.PENDING, Reason.PAUSED, True)
    assert job.message == "held until it is released"
    assert cycle(world).is_empty()
    tell(world, K.RELEASE, uid)
    cycle(world)
    assert world.jobs[uid].state in {J.BOUND, J.RESERVED}
    assert not world.jobs[uid].held


@pytest.mark.parametrize("state", [J.BOUND, J.RUNNING])
def test_a_suspended_gang_comes_back_with_its_age_when_it_is_resumed(state: JobState) -> None:
    world, uid = in_state(state)
    tell(world, K.SUSPEND, uid)
    cycle(world)
    assert world.jobs[uid].evict == Eviction(
        J.SUSPENDED, EvictStep.TERMINATING, None, "suspended by its owner"
    )
    stop_all(world, uid)
    assert world.jobs[uid].state is J.SUSPENDED
    assert world.jobs[uid].evict is None
    assert not world.live_pods(uid)
    assert cycle(world).is_empty()
    tell(world, K.RESUME, uid)
    cycle(world)
    assert (world.jobs[uid].state, world.jobs[uid].age) == (J.BOUND, 1)
    assert world.jobs[uid].attempt == 2


def test_a_gang_sent_back_in_line_starts_anew_in_its_turn() -> None:
    world, uid = in_state(J.RUNNING)
    tell(world, K.REQUEUE, uid)
    other = submit(world, gang(8, 1, 2), "urgent", priority=9)
    cycle(world)
    stop_all(world, uid)
    assert world.jobs[other].state is J.BOUND
    assert world.jobs[uid].state is J.PENDING


def test_the_last_wish_of_the_owner_of_a_leaving_gang_counts() -> None:
    world, uid = in_state(J.EVICTING)
    tell(world, K.RESUME, uid)
    tell(world, K.SUSPEND, uid)
    tell(world, K.REQUEUE, uid)
    cycle(world)
    evict = world.jobs[uid].evict
    assert evict is not None
    assert evict.then is J.PENDING


def test_a_gang_whose_time_is_up_fails_whatever_is_asked_of_it_meanwhile() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = submit(world, gang(8, 1, 2, time_limit_s=100.0), "a")
    cycle(world, now_s=0.0)
    report_all(world, uid, PodState.RUNNING)
    plan = cycle(world, now_s=50.0)
    assert plan.wake_at_s == 150.0
    cycle(world, now_s=149.0)
    assert world.jobs[uid].state is J.RUNNING
    cycle(world, now_s=150.0)
    job = world.jobs[uid]
    assert job.evict is not None
    assert (job.state, job.evict.then) == (J.EVICTING, J.FAILED)
    assert job.message == "ran for its time limit of 100 s"
    tell(world, K.SUSPEND, uid)
    cycle(world, now_s=151.0)
    report_all(world, uid, PodState.STOPPED)
    plan = cycle(world, now_s=152.0)
    (move,) = plan.job_moves
    assert (move.state, move.message) == (J.FAILED, "ran for its time limit of 100 s")


def test_the_time_limit_of_a_gang_that_never_ran_counts_from_its_binding() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = submit(world, gang(8, 1, 2, time_limit_s=100.0), "a")
    cycle(world, now_s=10.0)
    cycle(world, now_s=110.0)
    assert world.jobs[uid].state is J.EVICTING


def test_a_step_whose_deadline_has_passed_is_followed_by_the_end() -> None:
    world, uid = in_state(J.RUNNING)
    evict = Eviction(J.PENDING, EvictStep.ASKED, 60.0, "drained")
    world.put_job(replace(world.jobs[uid], state=J.EVICTING, evict=evict))
    assert cycle(world, now_s=30.0).wake_at_s == 60.0
    assert {p.state for p in world.live_pods(uid)} == {PodState.RUNNING}
    cycle(world, now_s=60.0)
    assert {p.state for p in world.live_pods(uid)} == {PodState.TERMINATING}
    assert world.jobs[uid].evict == replace(evict, step=EvictStep.TERMINATING, deadline_s=None)


def test_a_gang_that_crashes_before_it_is_told_to_stop_ends_as_crashes_do() -> None:
    world, uid = in_state(J.RUNNING)
    evict = Eviction(J.SUSPENDED, EvictStep.SAVING, 60.0, "suspended by its owner")
    world.put_job(replace(world.jobs[uid], state=J.EVICTING, evict=evict))
    report(world, world.live_pods(uid)[0], PodState.FAILED, 1)
    (move,) = cycle(world).job_moves
    assert move.state is J.FAILED
    world, uid = in_state(J.RUNNING)
    world.put_job(replace(world.jobs[uid], state=J.EVICTING, evict=evict))
    report(world, world.live_pods(uid)[0], PodState.STOPPED)
    (move,) = cycle(world).job_moves
    assert move.state is J.SUSPENDED


def test_members_told_to_leave_are_not_counted_when_others_stop_as_surplus() -> None:
    """4 members, 2 must run together; one is on its way out, so that only one more may stop."""
    world = World(make_cluster(racks=1, nodes_per_rack=4))
    uid = submit(world, role_gang(role("m", 4, min=2)), "a", age=1)
    cycle(world)
    report_all(world, uid, PodState.RUNNING)
    submit(world, gang(8), "high", priority=5, age=2)
    cycle(world)
    assert sum(p.state is PodState.TERMINATING for p in world.live_pods(uid)) == 1
    smaller = replace(world.jobs[uid].spec, roles=(role("m", 2, min=2),))
    world.put_job(replace(world.jobs[uid], spec=smaller))
    tell(world, K.RESIZE, uid)
    cycle(world)
    staying = [p for p in world.live_pods(uid) if p.state is not PodState.TERMINATING]
    assert len(staying) == 2


def test_a_member_told_to_leave_does_not_keep_a_finished_job_waiting() -> None:
    world = World(make_cluster(racks=1, nodes_per_rack=2))
    uid = submit(world, role_gang(role("m", 2, min=1)), "a", age=1)
    cycle(world)
    report_all(world, uid, PodState.RUNNING)
    submit(world, gang(8), "high", priority=5, age=2)
    cycle(world)
    for pod in world.live_pods(uid):
        if pod.state is not PodState.TERMINATING:
            report(world, pod, PodState.SUCCEEDED, 0)
    cycle(world)
    assert world.jobs[uid].state is J.RUNNING
    stop_all(world, uid)
    assert uid not in world.jobs


@pytest.mark.parametrize("state", UNFINISHED)
def test_every_unfinished_state_can_be_cancelled_and_can_fail(state: JobState) -> None:
    assert {J.CANCELLED, J.FAILED} <= JOB_MOVES[state]
