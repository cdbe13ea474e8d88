"""A gang whose members above its minimum crashed waits in line, and starts again from there."""

from dataclasses import replace

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from api.store.jobs import get_job, submit_job
from api.store.pods import pods_of, report_pod
from scheduler.model.job import JobSpec, Role, Scope
from scheduler.model.lifecycle import JobState, PodState
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
