"""What happens between the decision of a cycle and its commit, and what becomes of names."""

from collections.abc import Callable

import pytest

from api.loop import runner as module
from api.loop.runner import Runner
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.jobs import cancel_job, get_job, get_job_by_uid
from api.store.ledger import audit_ledger
from api.store.nodes import get_node
from api.store.pods import pods_of, report_pod
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.job import Failure, Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Plan
from scheduler.policy import Policy
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.api.store.raw import execute


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once after the next cycle has decided and before it commits."""
    left = [act]

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        plan = run_cycle(world, policy, now_s)
        if left:
            left.pop()()
        return plan

    monkeypatch.setattr(module, "run_cycle", decide)


def free(database: Database) -> list[int]:
    return [get_node(database, f"n00{number}").gpus_free for number in range(1, 5)]


def test_gang_that_is_cancelled_while_it_is_placed_gets_no_place(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    job = submit(database, "a")
    other = submit(database, "b")
    between(monkeypatch, lambda: cancel_job(database, "default", "a", now_s=NOW_S))
    assert runner.turn()
    assert runner.stats.dropped == 1
    assert get_job_by_uid(database, job.uid).state is JobState.CANCELLED
    assert pods_of(database, job.uid) == ()
    assert get_job_by_uid(database, other.uid).state is JobState.BOUND
    settle(runner)
    assert sum(free(database)) == 16


def test_bound_gang_that_is_cancelled_while_its_report_is_acted_on_ends_cancelled(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fact of the cancel is newer than the plan: what the plan says of the gang is dropped."""
    load_cluster(database)
    job = submit(database, "a")
    settle(runner)
    for pod in pods_of(database, job.uid):
        report(database, pod.name, 1, PodState.SUCCEEDED)
    between(monkeypatch, lambda: cancel_job(database, "default", "a", now_s=NOW_S))
    runner.turn()
    assert runner.stats.dropped == 1
    assert get_job(database, "default", "a").state is JobState.BOUND
    settle(runner)
    # Its pods had ended well before the cancel was asked for, and facts count in their order.
    assert get_job(database, "default", "a").state is JobState.SUCCEEDED
    assert free(database) == [8] * 4


def test_growing_gang_that_is_cancelled_meanwhile_does_not_grow(
    database: Database, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_cluster(database)
    submit(database, make_spec("blocker", replicas=2))
    settle(runner)
    job = submit(database, make_spec("a", roles=(Role("member", 4, 2, gpus=8),)))
    settle(runner)
    assert len(pods_of(database, job.uid)) == 2
    cancel_job(database, "default", "blocker", now_s=NOW_S)
    between(monkeypatch, lambda: cancel_job(database, "default", "a", now_s=NOW_S))
    runner.turn()
    assert len(pods_of(database, job.uid)) == 2
    settle(runner)
    assert get_job_by_uid(database, job.uid).state is JobState.CANCELLED
    assert free(database) == [8] * 4
    assert audit_ledger(database).is_clean


def test_cancelled_gang_leaves_its_room_to_the_next_in_the_same_turn_of_the_runner(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, make_spec("a", replicas=4))
    settle(runner)
    waiting = submit(database, make_spec("b", replicas=4))
    settle(runner)
    cancel_job(database, "default", "a", now_s=NOW_S)
    assert runner.turn()
    assert get_job_by_uid(database, waiting.uid).state is JobState.BOUND


def test_name_is_in_use_until_the_cancel_is_acted_on(database: Database, runner: Runner) -> None:
    load_cluster(database)
    first = submit(database, "a")
    settle(runner)
    cancel_job(database, "default", "a", now_s=NOW_S)
    with pytest.raises(Conflict, match="is bound and has 2 live pods"):
        submit(database, "a")
    settle(runner)
    second = submit(database, "a")
    settle(runner)
    assert get_job(database, "default", "a").uid == second.uid
    assert get_job_by_uid(database, first.uid).state is JobState.CANCELLED


def test_name_is_free_when_the_last_pod_is_gone(database: Database, runner: Runner) -> None:
    """A pod on a silent node stays: it may still run, whatever became of its job."""
    load_cluster(database)
    first = submit(database, "a")
    settle(runner)
    lost = pods_of(database, first.uid)[1]
    execute(database, f"UPDATE pods SET state = 'lost' WHERE uid = '{lost.uid}'")
    execute(database, f"UPDATE jobs SET state = 'cancelled' WHERE uid = '{first.uid}'")
    execute(
        database,
        f"UPDATE pods SET state = 'cancelled' WHERE job_uid = '{first.uid}' AND state = 'bound'",
    )
    with pytest.raises(Conflict, match="is cancelled and has 1 live pods"):
        submit(database, "a")
    with pytest.raises(Conflict, match="1 of its pods may still run"):
        cancel_job(database, "default", "a", now_s=NOW_S)
    execute(database, f"UPDATE pods SET state = 'stopped' WHERE uid = '{lost.uid}'")
    submit(database, "a")


def report(
    database: Database, name: str, attempt: int, state: PodState, uid: str | None = None
) -> None:
    code = 0 if state is PodState.SUCCEEDED else None
    report_pod(
        database,
        "default",
        name,
        attempt=attempt,
        state=state,
        exit_code=code,
        now_s=NOW_S,
        uid=uid,
    )


def test_late_report_is_not_taken_for_one_of_the_next_job_of_the_name(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    first = submit(database, "a")
    settle(runner)
    pod = pods_of(database, first.uid)[0]
    cancel_job(database, "default", "a", now_s=NOW_S)
    settle(runner)
    second = submit(database, "a")
    settle(runner)
    with pytest.raises(Conflict, match="not '") as caught:
        report(database, pod.name, 1, PodState.SUCCEEDED, pod.uid)
    assert caught.value.path == "uid"
    own = pods_of(database, second.uid)[0]
    assert own.name == pod.name
    report(database, own.name, 1, PodState.RUNNING, own.uid)


def test_report_of_an_older_attempt_is_refused_after_a_restart(
    database: Database, runner: Runner
) -> None:
    """A report of the first life of a pod, sent late, must not end its second."""
    load_cluster(database)
    job = submit(database, make_spec("a", failure=Failure(max_restarts=1)))
    settle(runner)
    name = pods_of(database, job.uid)[0].name
    report(database, name, 1, PodState.FAILED)
    settle(runner)
    assert [pod.attempt for pod in pods_of(database, job.uid)] == [2, 2]
    with pytest.raises(Conflict, match="attempt 1 of pod 'a-member-0' is over"):
        report(database, name, 1, PodState.SUCCEEDED)
    with pytest.raises(Conflict, match="attempt 3 of pod 'a-member-0' is yet to come"):
        report(database, name, 3, PodState.RUNNING)
    report(database, name, 2, PodState.RUNNING)


def test_reports_out_of_order_are_refused(database: Database, runner: Runner) -> None:
    """Whether or not the leader has acted on the one that came first."""
    load_cluster(database)
    job = submit(database, "a")
    settle(runner)
    first, second = (pod.name for pod in pods_of(database, job.uid))
    report(database, first, 1, PodState.SUCCEEDED)
    for late in (PodState.RUNNING, PodState.FAILED, PodState.STOPPED):
        with pytest.raises(Conflict, match="is succeeded with exit code 0 in attempt 1"):
            report(database, first, 1, late)
    settle(runner)
    with pytest.raises(Conflict, match="is succeeded"):
        report(database, first, 1, PodState.RUNNING)
    report(database, second, 1, PodState.SUCCEEDED)
    settle(runner)
    assert get_job(database, "default", "a").state is JobState.SUCCEEDED
    with pytest.raises(Conflict, match="is succeeded"):
        report(database, second, 1, PodState.FAILED)


def test_report_of_a_pod_of_another_namespace_or_job_is_not_found(
    database: Database, runner: Runner
) -> None:
    load_cluster(database)
    submit(database, make_spec("a", namespace="other"))
    settle(runner)
    with pytest.raises(NotFound, match="pod 'default/a-member-0'"):
        report(database, "a-member-0", 1, PodState.RUNNING)
