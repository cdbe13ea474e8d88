"""What an agent is asked of that it does not name: given up before it knew of it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from api.store.commit import commit
from api.store.engine import Database
from api.store.events import current_revision
from api.store.hearing import Agent, Said, hear
from api.store.leases import Leases
from scheduler.model.ids import PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Plan, PodMove
from tests.api.store.build import NOW_S, bind, job_move, load_cluster, make_pods, make_spec, submit

AGENT = Agent("n001", "s", "b")


@pytest.fixture
def book(database: Database) -> Iterator[Leases]:
    """What was heard; it writes by itself until it is closed."""
    with closing(Leases(database)) as found:
        yield found


def test_agent_is_asked_of_an_attempt_once_the_one_before_it_has_ended(
    database: Database, book: Leases
) -> None:
    """It never knew of the second; the first holds their GPUs, and would be taken for gone."""
    load_cluster(database)
    job = submit(database, make_spec("j", replicas=1))
    bind(database, job, ["n001"])
    uid = f"{job.uid}-member-0"

    def stopping(*said: Said) -> tuple[tuple[str, int], ...]:
        return hear(book, AGENT, said, now_s=NOW_S).stopping

    assert stopping(Said(uid, 1, PodState.RUNNING)) == ()
    anew = Plan(
        current_revision(database),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=make_pods(job, ["n001"], attempt=2),
    )
    assert commit(database, anew, 0, NOW_S).dropped == ()
    told = Plan(current_revision(database), pod_moves=(PodMove(PodId(uid), PodState.TERMINATING),))
    commit(database, told, 0, NOW_S)
    for state in (PodState.RUNNING, PodState.TERMINATING):
        assert stopping(Said(uid, 1, state)) == ()
    assert stopping(Said(uid, 1, PodState.STOPPED)) == ((uid, 2),)
    assert stopping() == ((uid, 2),)
    assert stopping(Said(uid, 2, PodState.STOPPED)) == ()
