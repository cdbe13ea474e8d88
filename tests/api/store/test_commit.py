"""Writing plans: whole, on the newest facts, only by the leader, nothing when nothing changes."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from api.store.commit import commit
from api.store.engine import Database
from api.store.epoch import take_epoch
from api.store.errors import Deposed, LedgerRefused
from api.store.events import current_revision, list_events
from api.store.jobs import cancel_job, get_job, get_job_by_uid
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node, get_node, import_inventory
from api.store.pods import pods_of, report_pod
from api.store.snapshot import load_world
from api.store.tables import facts
from scheduler.errors import InvariantError
from scheduler.model.ids import JobId, PodId
from scheduler.model.job import JobSpec, ParallelSizes, Rule
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.placement import NoFit
from scheduler.model.plan import JobMove, Plan, PodMove
from tests.api.store.build import (
    NOW_S,
    bind,
    binding,
    job_move,
    load_cluster,
    make_pod,
    make_pods,
    make_spec,
    pod_moves,
    submit,
)
from tests.builders import make_inventory


def now(database: Database) -> int:
    return current_revision(database)


def merged(*plans: Plan) -> Plan:
    return Plan(
        max(plan.revision for plan in plans),
        facts_done=tuple(f for plan in plans for f in plan.facts_done),
        job_moves=tuple(m for plan in plans for m in plan.job_moves),
        pods=tuple(p for plan in plans for p in plan.pods),
        pod_moves=tuple(m for plan in plans for m in plan.pod_moves),
    )


def test_binding_is_written_whole(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    done = commit(database, binding(database, job, ["n001", "n003"]), 0, NOW_S + 5)
    assert done.events == {"job.bound": 1}
    assert (done.dropped, done.changed, done.revision) == ((), True, now(database))
    view = get_job(database, "default", "a")
    assert (view.state, view.attempt, view.live, view.running) == (JobState.BOUND, 1, 2, 0)
    assert (view.bound_at, view.started_at, view.finished_at) == (NOW_S + 5, None, None)
    assert (view.node_type, view.revision) == ("h100-8", done.revision)
    assert [pod.node for pod in pods_of(database, job.uid)] == ["n001", "n003"]
    assert {pod.revision for pod in pods_of(database, job.uid)} == {done.revision}
    assert (get_node(database, "n001").gpus_free, get_node(database, "n002").gpus_free) == (0, 8)
    event = list_events(database, done.revision - 1).items[0]
    assert (event.kind, event.message) == ("job.bound", "2 pods on 2 nodes")
    assert event.body["nodes"] == ["n001", "n003"]


def test_pod_of_the_first_attempt_may_be_told_again(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n003"])
    again = binding(database, job, ["n001", "n003"])
    running = tuple(replace(pod, state=PodState.RUNNING) for pod in again.pods)
    commit(database, Plan(now(database), job_moves=again.job_moves, pods=running), 0, NOW_S)
    assert [pod.state for pod in pods_of(database, job.uid)] == [PodState.RUNNING] * 2
    assert audit_ledger(database).is_clean


def test_pod_that_is_older_than_the_attempts_of_its_job_starts_anew(database: Database) -> None:
    """As `doctor --fix` may leave it, in a database that was restored."""
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n003"])
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE jobs SET attempt = 0, state = 'pending'"))
    plan = binding(database, job, ["n003", "n002"])
    again = tuple(replace(pod, attempt=2) for pod in plan.pods)
    commit(database, replace(plan, pods=again), 0, NOW_S)
    assert [pod.node for pod in pods_of(database, job.uid)] == ["n003", "n002"]
    assert audit_ledger(database).is_clean


def test_times_follow_the_states(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")

    def move(state: JobState, at: float, *, attempt: int = 1) -> tuple[float | None, ...]:
        plan = Plan(now(database), job_moves=(job_move(job, state, attempt=attempt),))
        commit(database, plan, 0, at)
        view = get_job_by_uid(database, job.uid)
        return (view.bound_at, view.started_at, view.finished_at)

    assert move(JobState.BOUND, 10.0) == (10.0, None, None)
    assert move(JobState.RUNNING, 20.0) == (10.0, 20.0, None)
    assert move(JobState.PENDING, 30.0) == (None, None, None)
    assert move(JobState.BOUND, 40.0, attempt=2) == (40.0, None, None)
    assert move(JobState.RUNNING, 50.0, attempt=2) == (40.0, 50.0, None)
    assert move(JobState.BOUND, 60.0, attempt=3) == (60.0, None, None)
    assert move(JobState.SUCCEEDED, 70.0, attempt=3) == (60.0, None, 70.0)


def test_deposed_leader_writes_nothing(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    assert take_epoch(database, 0, "other", now_s=NOW_S) == 1
    revision = now(database)
    with pytest.raises(Deposed) as caught:
        commit(database, binding(database, job, ["n001", "n002"]), 0, NOW_S)
    assert (caught.value.epoch, caught.value.current) == (0, 1)
    assert now(database) == revision
    assert pods_of(database, job.uid) == ()
    assert commit(database, binding(database, job, ["n001", "n002"]), 1, NOW_S).changed


def test_plan_without_effect_takes_no_revision(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    revision = now(database)
    same = job_move(job, JobState.BOUND)
    plan = Plan(revision, job_moves=(same,), pod_moves=pod_moves(job, 2, PodState.BOUND))
    done = commit(database, plan, 0, NOW_S)
    assert (done.changed, done.events, done.revision) == (False, {}, revision)
    assert now(database) == revision


def test_pending_job_tells_of_another_reason_or_message_only(database: Database) -> None:
    job = submit(database, "a")

    def wait(reason: Reason, message: str, lacks: int) -> int:
        verdict = NoFit(never=False, code=reason, message=message, wanted=lacks)
        move = replace(
            job_move(job, JobState.PENDING, attempt=0, reason=reason, message=message),
            verdict=verdict,
        )
        commit(database, Plan(now(database), job_moves=(move,)), 0, NOW_S)
        return now(database)

    assert wait(Reason.ROOM, "no room", 3) == 2
    assert wait(Reason.ROOM, "no room", 3) == 2
    assert wait(Reason.ROOM, "no room", 4) == 2
    view = get_job(database, "default", "a")
    assert view.verdict is not None
    assert (view.verdict["wanted"], view.revision) == (4, 2)
    assert wait(Reason.ROOM, "less room", 4) == 3
    assert wait(Reason.RULE, "less room", 4) == 4
    event = list_events(database, 3).items[0]
    assert (event.kind, event.message) == ("job.pending", "less room")
    assert event.body["reason"] == "rule"


def test_verdict_is_forgotten_when_the_job_is_bound(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    verdict = NoFit(never=False, code=Reason.ROOM, message="x", set_aside={"cordoned": 2})
    waiting = job_move(job, JobState.PENDING, attempt=0, reason=Reason.ROOM, message="x")
    commit(database, Plan(now(database), job_moves=(replace(waiting, verdict=verdict),)), 0, NOW_S)
    found = get_job(database, "default", "a").verdict
    assert found is not None
    assert (found["code"], found["set_aside"], found["never"]) == ("room", {"cordoned": 2}, False)
    bind(database, job, ["n001", "n002"])
    assert get_job(database, "default", "a").verdict is None


def test_rules_that_are_not_kept_are_shown(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    rules = (Rule("job", "rack"), Rule("", "leaf"))
    move = replace(job_move(job, JobState.BOUND), broken=rules)
    done = commit(database, Plan(now(database), job_moves=(move,)), 0, NOW_S)
    assert done.events == {"job.rules": 1}
    assert get_job(database, "default", "a").broken == rules
    assert load_world(database).jobs[JobId(job.uid)].broken == rules
    message = list_events(database, done.revision - 1).items[0].message
    assert message == "not kept: job within rack, part within leaf"


def test_members_of_a_parallel_job_are_those_of_its_placement(database: Database) -> None:
    load_cluster(database)
    job = submit(database, JobSpec(name="a", parallelism=ParallelSizes(tp=4, dp=4)))
    assert job.members == 2
    move = JobMove(JobId(job.uid), JobState.BOUND, None, "", 1, gpus_per_pod=4, search="bounded")
    commit(database, Plan(now(database), job_moves=(move,)), 0, NOW_S)
    view = get_job(database, "default", "a")
    assert (view.minimum, view.members, view.gpus_per_pod, view.search) == (4, 4, 4, "bounded")
    running = replace(move, state=JobState.RUNNING, search="exact")
    commit(database, Plan(now(database), job_moves=(running,)), 0, NOW_S)
    assert get_job(database, "default", "a").search == "bounded"


def test_pods_that_change_by_themselves_are_one_event_of_their_job(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=3))
    bind(database, job, ["n001", "n002", "n003"])
    moves = (
        *pod_moves(job, 2, PodState.RUNNING),
        PodMove(PodId(f"{job.uid}-member-2"), PodState.FAILED, 9),
    )
    done = commit(database, Plan(now(database), pod_moves=moves), 0, NOW_S)
    assert done.events == {"job.pods": 1}
    assert list_events(database, done.revision - 1).items[0].message == "1 failed, 2 running"
    view = get_job(database, "default", "a")
    assert (view.live, view.running, view.revision) == (2, 2, done.revision)
    assert pods_of(database, job.uid)[2].exit_code == 9


@pytest.mark.parametrize("touch", ["fact", "job", "node", "node gone", "map", "deleted"])
def test_job_that_something_newer_touched_is_dropped_and_the_others_stay(
    database: Database, touch: str
) -> None:
    load_cluster(database, 8)
    touched, other = submit(database, "a"), submit(database, "b")
    plan = merged(
        binding(database, touched, ["n001", "n002"]), binding(database, other, ["n003", "n004"])
    )
    _touch(database, touch)
    done = commit(database, plan, 0, NOW_S)
    dropped = {touched.uid, other.uid} if touch in {"map", "node gone"} else {touched.uid}
    assert set(done.dropped) == dropped
    assert len(pods_of(database, touched.uid)) == 0
    assert len(pods_of(database, other.uid)) == (0 if other.uid in dropped else 2)
    assert audit_ledger(database).is_clean


def _touch(database: Database, what: str) -> None:
    now_s = NOW_S
    if what == "fact":
        # The job is bound by nobody yet, so a fact about it is written by hand.
        with database.write(now_s) as tx:
            uid = get_job(database, "default", "a").uid
            id_ = tx.emit("job.cancel_asked", subject_kind="job", uid=uid)
            row = {"id": id_, "kind": "cancel", "job_uid": uid, "at": now_s}
            tx.connection.execute(sa.insert(facts), row)
    elif what == "job":
        cancel_job(database, "default", "a", now_s=now_s)
    elif what == "deleted":
        cancel_job(database, "default", "a", now_s=now_s)
        cancel_job(database, "default", "a", now_s=now_s)
    elif what == "node":
        cordon_node(database, "n002", reason="", by="", now_s=now_s)
    else:
        nodes = 2 if what == "node gone" else 10
        inventory = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": nodes})
        import_inventory(database, inventory, prune=what == "node gone", dry_run=False, now_s=now_s)


def test_facts_of_a_dropped_job_stay_and_those_of_others_are_done(database: Database) -> None:
    load_cluster(database, 8)
    first, second = submit(database, "a"), submit(database, "b")
    bind(database, first, ["n001", "n002"])
    bind(database, second, ["n003", "n004"])
    for name in ("a-member-0", "b-member-0"):
        _report(database, name, PodState.RUNNING)
    world = load_world(database)
    moves = tuple(PodMove(f.pod, PodState.RUNNING) for f in world.facts if f.pod)
    plan = Plan(world.revision, facts_done=tuple(f.id for f in world.facts), pod_moves=moves)
    _report(database, "a-member-1", PodState.RUNNING)
    done = commit(database, plan, 0, NOW_S)
    assert done.dropped == (first.uid,)
    assert [pod.state for pod in pods_of(database, second.uid)] == ["running", "bound"]
    assert [pod.state for pod in pods_of(database, first.uid)] == ["bound", "bound"]
    assert {fact.job for fact in load_world(database).facts} == {first.uid}
    assert len(load_world(database).facts) == 2


def test_job_that_counts_on_the_place_of_a_dropped_one_is_dropped_too(database: Database) -> None:
    """c takes what b leaves, b moves to what a leaves; a is touched, so all three wait."""
    load_cluster(database, 8)
    a, b, c, d = (submit(database, make_spec(name, replicas=1)) for name in "abcd")
    bind(database, a, ["n001"])
    bind(database, b, ["n002"])
    ended = Plan(
        now(database),
        job_moves=(job_move(a, JobState.SUCCEEDED),),
        pod_moves=pod_moves(a, 1, PodState.SUCCEEDED),
    )
    moved = Plan(
        now(database),
        job_moves=(job_move(b, JobState.BOUND, attempt=2),),
        pods=make_pods(b, ["n001"], attempt=2),
    )
    plan = merged(ended, moved, binding(database, c, ["n002"]), binding(database, d, ["n005"]))
    _report(database, "a-member-0", PodState.RUNNING)
    done = commit(database, plan, 0, NOW_S)
    assert set(done.dropped) == {a.uid, b.uid, c.uid}
    assert [pod.node for pod in pods_of(database, d.uid)] == ["n005"]
    assert audit_ledger(database).is_clean


def test_pods_may_take_what_others_leave_in_the_same_plan(database: Database) -> None:
    load_cluster(database)
    old, new = submit(database, "a"), submit(database, "b")
    bind(database, old, ["n001", "n002"])
    ended = Plan(
        now(database),
        job_moves=(job_move(old, JobState.SUCCEEDED),),
        pod_moves=pod_moves(old, 2, PodState.SUCCEEDED),
    )
    done = commit(database, merged(binding(database, new, ["n002", "n001"]), ended), 0, NOW_S)
    assert done.events == {"job.bound": 1, "job.succeeded": 1}
    assert audit_ledger(database).is_clean


def test_pods_that_start_anew_may_swap_their_nodes(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    plan = Plan(
        now(database),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=make_pods(job, ["n002", "n001"], attempt=2),
    )
    assert commit(database, plan, 0, NOW_S).events == {"job.bound": 1}
    found = [(pod.node, pod.attempt, pod.state) for pod in pods_of(database, job.uid)]
    assert found == [("n002", 2, "bound"), ("n001", 2, "bound")]
    assert audit_ledger(database).is_clean


def test_pod_placed_again_keeps_its_uid_and_forgets_its_exit_code(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    bind(database, job, ["n001"])
    failed = PodMove(PodId(f"{job.uid}-member-0"), PodState.FAILED, 1)
    pending = job_move(job, JobState.PENDING, reason=Reason.ROOM)
    commit(database, Plan(now(database), job_moves=(pending,), pod_moves=(failed,)), 0, NOW_S)
    assert pods_of(database, job.uid)[0].exit_code == 1
    again = Plan(
        now(database),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=make_pods(job, ["n003"], attempt=2),
    )
    commit(database, again, 0, NOW_S)
    pod = pods_of(database, job.uid)[0]
    assert (pod.node, pod.attempt, pod.exit_code) == ("n003", 2, None)


def test_plan_that_gives_a_gpu_twice_is_refused_whole(database: Database) -> None:
    load_cluster(database)
    first, second, third = (submit(database, make_spec(n, replicas=1)) for n in "abc")
    bind(database, first, ["n001"], mask=0b11)
    revision = now(database)
    plan = merged(
        binding(database, third, ["n002"]), binding(database, second, ["n001"], mask=0b10)
    )
    with pytest.raises(LedgerRefused, match="held already"):
        commit(database, plan, 0, NOW_S)
    assert now(database) == revision
    assert pods_of(database, third.uid) == ()


def test_move_that_the_table_does_not_have_is_our_bug(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    plan = Plan(now(database), job_moves=(job_move(job, JobState.RUNNING),))
    with pytest.raises(InvariantError, match="'a' is pending and cannot become running"):
        commit(database, plan, 0, NOW_S)


def test_facts_about_jobs_that_are_gone_are_done(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "a")
    bind(database, job, ["n001", "n002"])
    _report(database, "a-member-0", PodState.RUNNING)
    world = load_world(database)
    with database.write_quietly() as connection:
        connection.execute(sa.text("DELETE FROM jobs"))
    done = commit(database, Plan(world.revision, facts_done=(world.facts[0].id,)), 0, NOW_S)
    assert (done.changed, done.dropped, done.events) == (True, (), {})
    assert load_world(database).facts == []


def test_growth_of_a_gang_is_told(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=2))
    bind(database, job, ["n001"])
    pod = make_pod(job, 1, "n002")
    done = commit(database, Plan(now(database), pods=(pod,)), 0, NOW_S)
    assert done.events == {"job.grown": 1}
    assert get_job(database, "default", "a").live == 2


def _report(database: Database, name: str, state: PodState) -> None:
    report_pod(database, "default", name, attempt=1, state=state, exit_code=None, now_s=NOW_S)


def test_plan_of_thousands_of_pods_is_written(database: Database) -> None:
    load_cluster(database, 64, racks=4)
    job = submit(database, make_spec("a", replicas=512, gpus=1))
    pods = tuple(
        make_pod(job, index, f"n{index // 8 + 1:03}", mask=1 << index % 8) for index in range(512)
    )
    plan = Plan(now(database), job_moves=(job_move(job, JobState.BOUND),), pods=pods)
    assert commit(database, plan, 0, NOW_S).events == {"job.bound": 1}
    assert get_job(database, "default", "a").live == 512
    assert audit_ledger(database).is_clean
