"""A gang that has crashed and waits in line: it starts again from there, or is cancelled."""

from dataclasses import replace

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.claims import list_claims
from api.store.engine import Database
from api.store.jobs import cancel_job, get_job, submit_job
from api.store.pods import pods_of, report_pod
from scheduler.model.job import JobSpec, Role, Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster


def test_gang_whose_minimum_is_done_is_bound_again_after_the_others_crashed(
    database: Database,
) -> None:
    """Two of four are done, which is all it needs; the others crash, and the gang leaves."""
    load_cluster(database, 2, racks=1)
    clock = ManualClock(NOW_S)
    runner = Runner(database, clock)
    spec = JobSpec(name="j", roles=(Role("m", 4, 2, gpus=4),))
    failure = replace(spec.failure, scope=Scope.POD_ELSE_GANG, max_restarts=10)
    spec = replace(spec, failure=failure)
    uid = submit_job(database, spec, {"name": "j"}, now_s=NOW_S)[0].uid

    def report(name: str, state: PodState) -> None:
        pod = next(pod for pod in pods_of(database, uid) if pod.name == name)
        code = {PodState.SUCCEEDED: 0, PodState.FAILED: 1}[state]
        report_pod(
            database, "default", name, attempt=pod.attempt, state=state, exit_code=code,
            now_s=clock.now_s(),
        )  # fmt: skip

    settle(runner)
    report("j-m-3", PodState.FAILED)
    settle(runner)
    clock.advance(15.0)
    settle(runner)
    report("j-m-0", PodState.SUCCEEDED)
    report("j-m-3", PodState.SUCCEEDED)
    settle(runner)
    report("j-m-2", PodState.FAILED)
    settle(runner)
    report("j-m-1", PodState.FAILED)
    settle(runner)
    assert get_job(database, "default", "j").state is JobState.PENDING
    clock.advance(60.0)
    settle(runner)
    job = get_job(database, "default", "j")
    assert job.state is JobState.BOUND
    assert {pod.state for pod in pods_of(database, uid) if pod.name in {"j-m-1", "j-m-2"}} == {
        PodState.BOUND
    }
    runner.stop()


def test_gang_that_waits_after_a_crash_is_cancelled_with_the_places_that_are_kept_for_it(
    database: Database,
) -> None:
    load_cluster(database, 2, racks=1)
    runner = Runner(database, ManualClock(NOW_S))
    spec = JobSpec(name="j", roles=(Role("m", 2, 2, gpus=4),))
    spec = replace(spec, failure=replace(spec.failure, scope=Scope.GANG, max_restarts=10))
    submit_job(database, spec, {"name": "j"}, now_s=NOW_S)
    settle(runner)
    for name, attempt, state in (
        ("j-m-0", 1, PodState.FAILED),
        ("j-m-0", 2, PodState.FAILED),
        ("j-m-1", 2, PodState.STOPPED),
    ):
        code = 1 if state is PodState.FAILED else None
        report_pod(
            database, "default", name, attempt=attempt, state=state, exit_code=code, now_s=NOW_S
        )
        settle(runner)
    job = get_job(database, "default", "j")
    assert (job.state, job.reason) == (JobState.PENDING, Reason.BACKOFF)
    cancelled = cancel_job(database, "default", "j", now_s=NOW_S)
    assert (cancelled.state, cancelled.cancelling) == (JobState.PENDING, True)
    assert {view.job for view in list_claims(database).items} == {"j"}
    settle(runner)
    assert get_job(database, "default", "j").state is JobState.CANCELLED
    assert list_claims(database).items == ()
    runner.stop()
