"""The store in memory: what it takes over, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind, JobMove, Plan, PodMove
from scheduler.policy import Policy
from scheduler.sim.apply import PlanRefused, apply, report, submit, tell
from tests.core.gangs import gang
from tests.simulation.clusters import regular

JOB = JobId("j")


def started() -> World:
    """A gang of two nodes that was just bound."""
    world = World(regular())
    submit(world, gang(8, 2), JOB, 10.0)
    apply(world, run_cycle(world, Policy(), 11.0), 11.0)
    return world


def test_a_plan_is_taken_over_with_the_time_of_its_commit() -> None:
    world = started()
    assert (world.jobs[JOB].state, world.jobs[JOB].bound_s) == (JobState.BOUND, 11.0)
    for pod in world.live_pods(JOB):
        report(world, pod, PodState.RUNNING)
    apply(world, run_cycle(world, Policy(), 12.0), 12.0)
    job = world.jobs[JOB]
    assert (job.state, job.bound_s, job.started_s) == (JobState.RUNNING, 11.0, 12.0)
    assert not world.facts
    tell(world, FactKind.CANCEL, JOB)
    for at_s in (13.0, 14.0):
        apply(world, run_cycle(world, Policy(), at_s), at_s)
        for pod in world.live_pods(JOB):
            report(world, pod, PodState.STOPPED)
    assert not world.jobs
    assert all(free == 0xFF for free in world.table.free)


def test_ages_and_revisions_only_grow() -> None:
    world = World(regular())
    ages = [submit(world, gang(8), JobId(f"j{i}"), 0.0).age for i in range(3)]
    assert ages == sorted(set(ages))
    before = world.revision
    apply(world, run_cycle(world, Policy(), 0.0), 0.0)
    assert world.revision > before


def _claim(world: World, mask: int = 0xFF, **fields: object) -> Claim:
    free = next(
        n.name for n, m in zip(world.topology.nodes, world.table.free, strict=True) if m == 0xFF
    )
    claim = Claim(ClaimId("c"), ClaimWhy.RESERVATION, NodeId(free), mask, job=JOB)
    return replace(claim, **fields)  # type: ignore[arg-type]  # by name


def _pending_runs(world: World) -> Plan:
    job = submit(world, gang(8), JobId("later"), 12.0)
    return Plan(0, job_moves=(JobMove(job.uid, JobState.RUNNING, None, "", 1),))


REFUSED: dict[str, tuple[Callable[[World], Plan], str]] = {
    "a fact that is not open": (lambda w: Plan(0, facts_done=(99,)), "fact 99 is not open"),
    "a job that never was": (
        lambda w: Plan(0, job_moves=(JobMove(JobId("x"), JobState.BOUND, None, "", 1),)),
        "never was",
    ),
    "a move that the table does not have": (
        _pending_runs,
        "is pending and cannot become running",
    ),
    "an attempt that goes back": (
        lambda w: Plan(0, job_moves=(JobMove(JOB, JobState.RUNNING, None, "", 0),)),
        "goes back to attempt 0",
    ),
    "a job that moves twice": (
        lambda w: Plan(0, job_moves=(JobMove(JOB, JobState.RUNNING, None, "", 1),) * 2),
        "moves twice",
    ),
    "a pod that never was": (
        lambda w: Plan(0, pod_moves=(PodMove(PodId("x"), PodState.STOPPED),)),
        "pod 'x' never was",
    ),
    "a pod on a node that is not there": (
        lambda w: Plan(
            0,
            pods=(replace(w.live_pods(JOB)[0], node=NodeId("x"), state=PodState.BOUND, attempt=2),),
        ),
        "not there",
    ),
    "a pod that starts the same attempt again": (
        lambda w: Plan(0, pods=(w.live_pods(JOB)[0],)),
        "starts attempt 1",
    ),
    "GPUs that a node does not have": (
        lambda w: Plan(0, pods=(replace(w.live_pods(JOB)[0], gpu_mask=0x1FF, attempt=2),)),
        "that node 'n001' has not",
    ),
    "two claims on one GPU": (
        lambda w: Plan(0, claims=(_claim(w), _claim(w, uid=ClaimId("d")))),
        "that another claim has",
    ),
    "a claim on GPUs that a node does not have": (
        lambda w: Plan(0, claims=(_claim(w, mask=0x100),)),
        "has not",
    ),
    "a pod that starts where another gang has a claim": (
        lambda w: Plan(
            0,
            pods=(replace(w.live_pods(JOB)[0], attempt=2),),
            claims=(
                Claim(
                    ClaimId("o"),
                    ClaimWhy.PREEMPTION,
                    w.live_pods(JOB)[0].node,
                    0b1,
                    job=JobId("other"),
                ),
            ),
        ),
        "that 'o' keeps",
    ),
    "a claim of nobody": (
        lambda w: Plan(0, claims=(_claim(w, job=None),)),
        "one gang or one window",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_schema_refuses(name: str) -> None:
    make, message = REFUSED[name]
    world = started()
    plan = make(world)
    free, jobs = list(world.table.free), dict(world.jobs)
    with pytest.raises(PlanRefused, match=message):
        apply(world, plan, 20.0)
    assert (world.table.free, world.jobs) == (free, jobs)


def test_pods_may_swap_nodes_in_one_plan() -> None:
    """What leaves does so before anything arrives."""
    world = started()
    first, second = world.live_pods(JOB)
    swapped = (
        replace(first, node=second.node, attempt=2),
        replace(second, node=first.node, attempt=2),
    )
    apply(world, Plan(0, pods=swapped), 20.0)
    assert [p.node for p in world.live_pods(JOB)] == [second.node, first.node]


def test_claims_that_end_make_way_for_new_ones() -> None:
    world = started()
    old = _claim(world)
    apply(world, Plan(0, claims=(old,)), 20.0)
    new = replace(old, uid=ClaimId("d"))
    apply(world, Plan(0, claims=(new,), claims_gone=(old.uid,)), 21.0)
    assert set(world.claims) == {new.uid}
