"""Gangs that start over with fewer members than they had."""

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.control import control_job
from api.store.engine import Database
from api.store.jobs import get_job, submit_job
from api.store.launches import starts_of
from api.store.nodes import cordon_node
from api.store.pods import pods_of, report_pod
from api.store.snapshot import load_world
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec, ParallelSizes, Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster


def test_pods_are_started_with_the_members_of_their_own_attempt(database: Database) -> None:
    """Four members, one of which is done; sent back in line, the gang has room for two."""
    load_cluster(database, 2, racks=1)
    runner = Runner(database, ManualClock(NOW_S))
    spec = JobSpec(name="j", roles=(Role("m", 4, 2, gpus=4),))
    uid = submit_job(database, spec, {"name": "j"}, now_s=NOW_S)[0].uid

    def report(number: int, state: PodState) -> None:
        name, code = f"j-m-{number}", {PodState.SUCCEEDED: 0}.get(state)
        report_pod(database, "default", name, attempt=1, state=state, exit_code=code, now_s=NOW_S)

    settle(runner)
    report(3, PodState.SUCCEEDED)
    settle(runner)
    cordon_node(database, "n002", reason="", by="", now_s=NOW_S)
    control_job(database, "default", "j", FactKind.REQUEUE, now_s=NOW_S)
    settle(runner)
    for number in range(3):
        report(number, PodState.STOPPED)
    settle(runner)
    job = get_job(database, "default", "j")
    assert (job.state, job.attempt) == (JobState.BOUND, 2)
    assert [pod.name for pod in starts_of(database, [uid])[uid].members] == ["j-m-0", "j-m-1"]
    assert {pod.name: pod.state for pod in pods_of(database, uid)} == {
        "j-m-0": PodState.BOUND,
        "j-m-1": PodState.BOUND,
        "j-m-2": PodState.STOPPED,
        "j-m-3": PodState.STOPPED,
    }
    runner.stop()


def test_size_of_an_attempt_is_known_to_whoever_leads_next(database: Database) -> None:
    """Of dp 1, 2 or 4 it has 4, and then 2, as half of its nodes are kept out of use."""
    load_cluster(database, 4, racks=1)
    runner = Runner(database, ManualClock(NOW_S))
    spec = JobSpec(name="j", parallelism=ParallelSizes(tp=8, dp=4), dp_sizes=(1, 2, 4))
    uid = submit_job(database, spec, {"name": "j"}, now_s=NOW_S)[0].uid

    def count() -> tuple[int, int]:
        """As it is shown, and as a leader that begins has it."""
        shown = get_job(database, "default", "j").members
        return shown, load_world(database).jobs[JobId(uid)].pod_count

    settle(runner)
    assert count() == (4, 4)
    for name in ("n003", "n004"):
        cordon_node(database, name, reason="", by="", now_s=NOW_S)
    control_job(database, "default", "j", FactKind.SUSPEND, now_s=NOW_S)
    settle(runner)
    for number in range(4):
        name, state = f"j-{number}", PodState.STOPPED
        report_pod(database, "default", name, attempt=1, state=state, exit_code=None, now_s=NOW_S)
    settle(runner)
    assert count() == (4, 0)
    control_job(database, "default", "j", FactKind.RESUME, now_s=NOW_S)
    settle(runner)
    assert count() == (2, 2)
    runner.stop()
