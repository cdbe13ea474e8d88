"""A member that was to start anew and is told to stop in the same cycle holds what it held."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.draft.book import Draft
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.topology.build import build
from tests.builders import make_inventory

JOB = JobRecord(
    JobId("j"), JobSpec(name="j", roles=(Role("m", 1, 1, gpus=8),)), JobState.RUNNING, 1, attempt=1
)
POD = PodRecord(PodId("j-m-0"), JOB.uid, "j-m-0", "m", 0, NodeId("n001"), 0xFF, 0, PodState.RUNNING)


@pytest.fixture
def draft() -> Draft:
    world = World(build(make_inventory({"rack": 1, "node": 2})).topology)
    world.put_job(JOB)
    world.put_pod(POD)
    return Draft(world, 0.0)


def used(draft: Draft) -> list[int]:
    return [0xFF & ~free for free in draft.world.table.free]


def test_one_that_was_to_start_anew_in_its_place_leaves_it_when_it_has_stopped(
    draft: Draft,
) -> None:
    again = replace(POD, state=PodState.BOUND, attempt=2)
    draft.restart(JOB, [again])
    draft.move_pod(again, PodState.TERMINATING)
    assert used(draft) == [0xFF, 0]
    assert draft.freed == []
    assert draft.new_pods == []
    (left,) = draft.live_pods(JOB.uid)
    assert (left.state, left.attempt) == (PodState.TERMINATING, 1)
    draft.move_pod(left, PodState.STOPPED)
    assert used(draft) == [0, 0]


def test_one_that_was_to_start_anew_elsewhere_is_gone_from_both_places(draft: Draft) -> None:
    again = replace(POD, node=NodeId("n002"), state=PodState.BOUND, attempt=2)
    draft.restart(JOB, [again])
    draft.move_pod(again, PodState.TERMINATING)
    assert used(draft) == [0, 0]
    assert list(draft.live_pods(JOB.uid)) == []


@pytest.mark.parametrize("ended", [PodState.FAILED, PodState.STOPPED, PodState.SUCCEEDED])
def test_one_that_had_ended_before_is_as_it_ended(draft: Draft, ended: PodState) -> None:
    before = replace(POD, state=ended, exit_code=3)
    draft.world.put_pod(before)
    again = replace(POD, state=PodState.BOUND, attempt=2)
    draft.restart(JOB, [again])
    draft.move_pod(again, PodState.STOPPED)
    assert used(draft) == [0, 0]
    assert list(draft.pods(JOB.uid).values()) == [before]
    assert draft.plan().pod_moves == ()


def test_one_that_was_done_before_its_gang_started_over_is_so_no_more(draft: Draft) -> None:
    """Else it would stand for a member of a part that does not run."""
    before = replace(POD, state=PodState.SUCCEEDED, exit_code=0)
    draft.world.put_pod(before)
    draft.forget_done(JOB)
    again = replace(POD, state=PodState.BOUND, attempt=2)
    draft.restart(JOB, [again])
    draft.move_pod(again, PodState.TERMINATING)
    assert used(draft) == [0, 0]
    (left,) = draft.pods(JOB.uid).values()
    assert (left.state, left.attempt) == (PodState.STOPPED, 1)
    assert [(move.uid, move.state) for move in draft.plan().pod_moves] == [
        (POD.uid, PodState.STOPPED)
    ]
