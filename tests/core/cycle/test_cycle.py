"""Whole cycles: order, gangs whole or absent, reports, cancels, restarts, growth, maps."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.errors import StateError
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import Failure, JobSpec
from scheduler.model.lifecycle import (
    FINAL,
    JOB_MOVES,
    POD_MOVES,
    JobState,
    PodState,
    Reason,
    check_job_move,
    check_pod_move,
)
from scheduler.model.plan import Fact, FactKind
from scheduler.policy import Policy, PolicyError
from tests.builders import make_cluster, make_node, make_topology, make_tree
from tests.core.gangs import (
    cancel,
    cycle,
    free_gpus,
    gang,
    job_nodes,
    parts,
    preferred,
    report,
    report_all,
    required,
    role,
    role_gang,
    submit,
)


def world_of(racks: int = 2, nodes: int = 4) -> World:
    return World(make_cluster(racks=racks, nodes_per_rack=nodes))


def test_two_gangs_that_each_need_all_do_not_share() -> None:
    world = world_of()
    first, second = (submit(world, gang(8, 1, 8), name) for name in "ab")
    cycle(world)
    assert world.jobs[first].state is JobState.BOUND
    assert world.jobs[second].state is JobState.PENDING
    assert job_nodes(world, second) == []


def test_a_waiting_gang_starts_when_another_is_cancelled() -> None:
    """Leaves of 32 with 12 free each: the job of 16 starts without being sent again."""
    world = World(make_tree({"leaf": 2, "node": 32}))
    holders = [submit(world, gang(8, 1, 20, required("job", "leaf")), f"h{i}") for i in range(2)]
    cycle(world)
    waiting = submit(world, gang(8, 4, 4, required("job", "leaf")), "w")
    cycle(world)
    assert world.jobs[waiting].state is JobState.PENDING
    assert world.jobs[waiting].reason is Reason.RULE
    cancel(world, holders[0])
    plan = cycle(world)
    assert world.jobs[waiting].state is JobState.BOUND
    assert {move.uid for move in plan.job_moves} == {holders[0], waiting}


def test_priority_comes_before_age() -> None:
    world = world_of(1, 1)
    submit(world, gang(8), "old", age=1)
    submit(world, gang(8), "urgent", age=2, priority=5)
    cycle(world)
    assert world.jobs[JobId("urgent")].state is JobState.BOUND


def test_age_decides_between_equals_and_small_gangs_use_the_gaps() -> None:
    world = world_of(1, 2)
    submit(world, gang(8, 1, 3), "wide", age=1)
    submit(world, gang(8, 1, 2), "later", age=3)
    submit(world, gang(8), "earlier", age=2)
    cycle(world)
    assert world.jobs[JobId("earlier")].state is JobState.BOUND
    assert world.jobs[JobId("later")].state is JobState.PENDING


def test_a_gang_that_never_fits_is_told_so() -> None:
    world = world_of(1, 2)
    uid = submit(world, gang(8, 1, 3), "wide")
    (move,) = cycle(world).job_moves
    assert move.verdict is not None
    assert move.verdict.never
    assert "never fits" in world.jobs[uid].message


def test_nothing_is_decided_twice_at_rest() -> None:
    world = world_of(1, 2)
    for name in "abc":
        submit(world, gang(8), name)
    cycle(world)
    assert cycle(world).is_empty()


def test_a_cycle_leaves_the_world_as_it_was() -> None:
    world = world_of()
    submit(world, gang(8, 1, 5), "a")
    before = list(world.table.free)
    run_cycle(world, Policy(), 0.0)
    assert world.table.free == before
    assert world.jobs[JobId("a")].state is JobState.PENDING


def test_a_gang_runs_when_all_its_pods_do() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    first, second = world.live_pods(uid)
    report(world, first, PodState.RUNNING)
    cycle(world)
    assert world.jobs[uid].state is JobState.BOUND
    report(world, second, PodState.RUNNING)
    cycle(world)
    assert world.jobs[uid].state is JobState.RUNNING


def test_a_gang_has_succeeded_when_all_exit_well() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 8), "a")
    waiting = submit(world, gang(8, 1, 8), "b")
    cycle(world)
    report_all(world, uid, PodState.SUCCEEDED, 0)
    plan = cycle(world)
    assert uid not in world.jobs
    assert [m.state for m in plan.job_moves if m.uid == uid] == [JobState.SUCCEEDED]
    assert world.jobs[waiting].state is JobState.BOUND


def test_the_role_that_decides_ends_the_job() -> None:
    world = world_of()
    spec = role_gang(role("lead", 1, gpus=1, decides=True), role("work", 2, gpus=4))
    uid = submit(world, spec, "a")
    cycle(world)
    lead = next(p for p in world.live_pods(uid) if p.role == "lead")
    report(world, lead, PodState.SUCCEEDED, 0)
    plan = cycle(world)
    assert {m.state for m in plan.pod_moves} == {PodState.SUCCEEDED, PodState.CANCELLED}
    assert free_gpus(world, ["n001"]) == [8]


def test_a_crash_ends_a_job_without_restarts() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    report(world, world.live_pods(uid)[0], PodState.FAILED, 7)
    (move,) = cycle(world).job_moves
    assert move.state is JobState.FAILED
    assert "exit code 7" in move.message
    assert sum(free_gpus(world, [f"n00{i}" for i in range(1, 9)])) == 64


def test_a_crash_within_the_budget_restarts_the_whole_gang() -> None:
    world = world_of()
    spec = replace(gang(8, 1, 2), failure=Failure(max_restarts=1))
    uid = submit(world, spec, "a")
    cycle(world)
    pods = world.live_pods(uid)
    report(world, pods[0], PodState.FAILED, 1)
    plan = cycle(world)
    assert (world.jobs[uid].state, world.jobs[uid].attempt) == (JobState.BOUND, 2)
    assert {(p.uid, p.attempt) for p in plan.pods} == {(p.uid, 2) for p in pods}
    report(world, world.live_pods(uid)[0], PodState.FAILED, 1)
    (move,) = cycle(world).job_moves
    assert move.state is JobState.FAILED


def test_a_gang_recovers_when_a_node_that_takes_no_more_stops_its_pod() -> None:
    world = world_of(1, 2)
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    world.set_node("n001", aside="cordoned")
    report(world, world.live_pods(uid)[0], PodState.STOPPED)
    cycle(world)
    assert world.jobs[uid].state is JobState.RECOVERING
    assert job_nodes(world, uid) == ["n002"]
    cycle(world, now_s=600.0)
    assert (world.jobs[uid].state, world.jobs[uid].goes_first) == (JobState.PENDING, True)
    assert job_nodes(world, uid) == []


def test_reports_of_an_older_life_change_nothing() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    pod = world.live_pods(uid)[0]
    stale = replace(pod, attempt=pod.attempt + 1)
    report(world, stale, PodState.FAILED, 1)
    report(world, replace(pod, uid=PodId("unknown")), PodState.FAILED, 1)
    world.facts.append(Fact(9, 9, FactKind.CANCEL, JobId("nobody")))
    plan = cycle(world)
    assert (plan.job_moves, len(plan.facts_done)) == ((), 3)


def test_a_report_that_the_table_does_not_have_changes_nothing() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    pod = world.live_pods(uid)[0]
    report(world, pod, PodState.RUNNING)
    report(world, pod, PodState.SUCCEEDED, 0)
    report(world, pod, PodState.RUNNING)
    cycle(world)
    assert world.pods[uid][pod.uid].state is PodState.SUCCEEDED


def test_reports_after_a_cancel_find_nobody() -> None:
    world = world_of()
    uid = submit(world, gang(8, 1, 2), "a")
    cycle(world)
    pod = world.live_pods(uid)[0]
    cancel(world, uid)
    report(world, pod, PodState.FAILED, 1)
    (move,) = cycle(world).job_moves
    assert move.state is JobState.CANCELLED


def test_paused_means_nothing_is_placed() -> None:
    world = world_of()
    uid = submit(world, gang(8), "a")
    cycle(world, Policy(paused=True))
    assert world.jobs[uid].reason is Reason.PAUSED
    cycle(world)
    assert world.jobs[uid].state is JobState.BOUND


def test_members_above_the_minimum_join_later() -> None:
    world = world_of(1, 3)
    blocker = submit(world, gang(8, 1, 2), "x", age=1)
    uid = submit(world, role_gang(role("m", 3, min=1)), "a", age=2)
    cycle(world)
    report_all(world, uid, PodState.RUNNING)
    cycle(world)
    assert (world.jobs[uid].state, len(job_nodes(world, uid))) == (JobState.RUNNING, 1)
    report_all(world, blocker, PodState.SUCCEEDED, 0)
    cycle(world)
    assert len(job_nodes(world, uid)) == 3
    assert world.jobs[uid].state is JobState.RUNNING


def test_waiting_gangs_come_before_growth() -> None:
    world = world_of(1, 3)
    submit(world, gang(8, 1, 2), "x", age=1)
    elastic = submit(world, role_gang(role("m", 3, min=1)), "a", age=2)
    cycle(world)
    waiting = submit(world, gang(8, 1, 2), "w", age=3)
    cancel(world, JobId("x"))
    cycle(world)
    assert world.jobs[waiting].state is JobState.BOUND
    assert len(job_nodes(world, elastic)) == 1


def test_an_elastic_gang_runs_with_its_minimum_and_ends_with_what_ran() -> None:
    world = world_of(1, 2)
    uid = submit(world, role_gang(role("m", 4, min=2, parts=parts(2, 2, 1))), "a")
    cycle(world)
    report_all(world, uid, PodState.RUNNING)
    cycle(world)
    assert world.jobs[uid].state is JobState.RUNNING
    report_all(world, uid, PodState.SUCCEEDED, 0)
    assert [m.state for m in cycle(world).job_moves] == [JobState.SUCCEEDED]


def test_a_new_map_keeps_what_is_used_and_tells_of_broken_rules() -> None:
    nodes = [make_node(f"n{i}", rack="r0") for i in range(2)]
    world = World(make_topology(nodes, levels=("rack", "node")))
    uid = submit(world, gang(8, 2, 1, required("job", "rack")), "a")
    cycle(world)
    world.set_node("n1", aside="cordoned")
    moved = [make_node("n0", rack="r0"), make_node("n1", rack="r9"), make_node("n2", rack="r0")]
    world.set_topology(make_topology(moved, levels=("rack", "node")))
    (move,) = cycle(world).job_moves
    assert [r.within for r in move.broken] == ["rack"]
    assert move.state is JobState.BOUND
    assert free_gpus(world, ["n0", "n1", "n2"]) == [0, 0, 8]
    assert world.table.aside[world.topology.node_index["n1"]] == "cordoned"
    world.set_topology(make_topology(nodes, levels=("rack", "node")))
    (move,) = cycle(world).job_moves
    assert move.broken == ()
    assert uid in world.jobs


def test_broken_preferences_of_roles_parts_and_axes_are_told() -> None:
    world = World(make_tree({"rack": 4, "node": 1}))
    axis = submit(world, gang(8, 2, 1, preferred("pp", "rack")), "axis")
    ruled = role("m", 2, rules=(preferred("m", "rack"),))
    in_parts = role("p", 2, parts=parts(2, 1, None, preferred("", "rack")))
    first, second = submit(world, role_gang(ruled), "r"), submit(world, role_gang(in_parts), "p")
    cycle(world)
    assert world.jobs[axis].broken == (preferred("pp", "rack"),)
    assert world.jobs[first].broken == (preferred("m", "rack"),)
    cancel(world, axis)
    cycle(world)
    assert world.jobs[second].broken == (preferred("p", "rack"),)


def test_pods_of_a_job_that_has_ended_hold_until_they_leave() -> None:
    world = world_of(1, 1)
    uid = submit(world, gang(8), "a")
    cycle(world)
    (pod,) = world.live_pods(uid)
    world.put_job(world.jobs[uid].__class__(uid, gang(8), JobState.CANCELLED, 1))
    assert free_gpus(world, ["n001"]) == [0]
    world.put_pod(replace(pod, state=PodState.STOPPED))
    assert free_gpus(world, ["n001"]) == [8]


def test_pods_that_change_places_in_one_step_do_not_collide() -> None:
    world = world_of(1, 1)
    uid = submit(world, gang(8), "a")
    cycle(world)
    (pod,) = world.live_pods(uid)
    heir = replace(pod, uid=PodId("heir"))
    world.put_pods([heir, replace(pod, state=PodState.STOPPED)])
    assert free_gpus(world, ["n001"]) == [0]


def test_a_pod_known_before_its_node_is_held_when_the_node_comes() -> None:
    world = World(make_topology([make_node("n0", rack="r0")], levels=("rack", "node")))
    uid = submit(world, gang(8), "a")
    cycle(world)
    (pod,) = world.live_pods(uid)
    other = World(make_topology([make_node("n9", rack="r0")], levels=("rack", "node")))
    other.put_pod(pod)
    other.put_pod(pod)
    other.set_topology(world.topology)
    assert free_gpus(other, ["n0"]) == [0]


@pytest.mark.parametrize("state", list(JobState))
def test_every_job_state_has_a_row(state: JobState) -> None:
    assert (not JOB_MOVES[state]) == (state in FINAL)


def test_every_pod_state_has_a_row() -> None:
    assert set(POD_MOVES) == set(PodState)


def test_moves_that_the_table_lacks_are_refused_in_words() -> None:
    check_job_move("a", JobState.PENDING, JobState.BOUND)
    check_pod_move("a", PodState.BOUND, PodState.RUNNING)
    with pytest.raises(StateError, match="from pending it may become"):
        check_job_move("a", JobState.PENDING, JobState.RUNNING)
    with pytest.raises(StateError, match="it has ended"):
        check_job_move("a", JobState.FAILED, JobState.RUNNING)
    with pytest.raises(StateError, match="it has ended"):
        check_pod_move("a", PodState.CANCELLED, PodState.RUNNING)


@pytest.mark.parametrize(
    "field",
    [
        {"suspect_after_s": 0.0},
        {"lost_after_s": float("nan")},
        {"suspect_after_s": 400.0},
        {"breaker_share": 1.5},
        {"order": "lottery"},
    ],
)
def test_a_tunable_outside_its_range_is_named(field: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy(**field)  # type: ignore[arg-type]  # by name
    assert caught.value.problems[0].path in {*field, "lost_after_s"}


SPECS = st.sampled_from(
    [
        gang(8),
        gang(4),
        gang(8, 2, 2, required("pp", "rack")),
        gang(2, 1, 3),
        role_gang(role("m", 3, min=1, gpus=3)),
        role_gang(role("a", 1, gpus=5), role("b", 2, gpus=1)),
        role_gang(role("m", 4, min=2, gpus=8, parts=parts(2, 2, 1, required("", "rack")))),
    ]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "cancel", "run", "finish", "fail", "cordon"]),
        SPECS,
        st.integers(0, 9),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_gpu_twice_and_no_gang_in_part(steps: list[tuple[str, JobSpec, int]]) -> None:
    """Promises 1 and 2 after every step of random lives."""
    world = world_of(2, 2)
    for number, (verb, spec, pick) in enumerate(steps):
        jobs = sorted(world.jobs)
        if verb == "submit":
            submit(world, spec, f"j{number}", age=number)
        elif verb == "cordon":
            name = f"n00{pick % 4 + 1}"
            aside = world.table.aside[world.topology.node_index[name]]
            world.set_node(name, aside=None if aside else "cordoned")
        elif jobs:
            uid = jobs[pick % len(jobs)]
            if verb == "cancel":
                cancel(world, uid)
            elif verb == "fail" and world.live_pods(uid):
                report(world, world.live_pods(uid)[0], PodState.FAILED, 1)
            else:
                done = verb == "finish"
                report_all(
                    world,
                    uid,
                    PodState.SUCCEEDED if done else PodState.RUNNING,
                    0 if done else None,
                )
        cycle(world)
        check_promises(world)


def check_promises(world: World) -> None:
    used: dict[str, int] = {}
    for uid, job in world.jobs.items():
        live = world.live_pods(uid)
        for pod in live:
            assert not used.get(pod.node, 0) & pod.gpu_mask
            used[pod.node] = used.get(pod.node, 0) | pod.gpu_mask
        if job.state is JobState.PENDING:
            assert not live
            continue
        for wanted in job.spec.roles:
            here = [p for p in world.pods[uid].values() if p.role == wanted.name]
            kept = sum(p.is_live or p.state is PodState.SUCCEEDED for p in here)
            assert kept >= wanted.min
    for index, node in enumerate(world.topology.nodes):
        assert world.table.free[index] == 0xFF & ~used.get(node.name, 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(SPECS, max_size=6), st.randoms(use_true_random=False))
def test_shuffled_input_gives_the_same_plan(specs: list[JobSpec], random: object) -> None:
    plans = []
    for turn in range(2):
        world = world_of(2, 2)
        order = list(enumerate(specs))
        if turn:
            random.shuffle(order)  # type: ignore[attr-defined]  # a random.Random
        for number, spec in order:
            submit(world, spec, f"j{number}", age=number)
        plan = run_cycle(world, Policy(), 0.0)
        plans.append((plan.pods, sorted(plan.job_moves, key=lambda m: m.uid)))
    assert plans[0] == plans[1]


def test_far_back_in_line_only_a_new_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three gangs wait; an end that makes room for none is told to the first alone."""
    monkeypatch.setattr("scheduler.cycle.FRESH_VERDICTS", 1)
    world = world_of(1, 4)
    holders = [submit(world, gang(8), f"h{i}", age=i) for i in range(4)]
    waiting = [submit(world, gang(8, 1, 4), f"w{i}", age=10 + i) for i in range(3)]
    assert {m.uid for m in cycle(world).job_moves} == {*holders, *waiting}
    cancel(world, holders[0])
    assert {m.uid for m in cycle(world).job_moves} == {holders[0], waiting[0]}
    assert "1 of 4" in world.jobs[waiting[0]].message
    assert "0 of 4" in world.jobs[waiting[2]].message


def test_counts_of_nodes_set_aside_alone_are_not_told_anew() -> None:
    world = world_of(1, 4)
    submit(world, gang(8, 1, 2, required("job", "node")), "w")
    cycle(world)
    world.set_node("n001", aside="cordoned")
    assert cycle(world).is_empty()
