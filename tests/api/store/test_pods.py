"""Listing pods, and reports of their nodes."""

import pytest
import sqlalchemy as sa

from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import BadCursor, Conflict, NotFound
from api.store.events import current_revision, list_events
from api.store.fault_reports import Report, report_fault
from api.store.jobs import cancel_job, get_job_by_uid
from api.store.pods import get_pod, list_pods, pods_of, report_pod
from api.store.snapshot import load_world
from api.store.tables import facts
from api.store.views import PodView
from scheduler.errors import StateError
from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Plan, PodMove
from scheduler.model.resources import Resources
from scheduler.recover.codes import code_of_xid
from tests.api.store.build import (
    NOW_S,
    bind,
    job_move,
    load_cluster,
    make_pod,
    make_spec,
    pod_moves,
    submit,
)


def report(
    database: Database,
    name: str,
    state: PodState,
    *,
    attempt: int = 1,
    exit_code: int | None = None,
    namespace: str = "default",
) -> PodView:
    return report_pod(
        database, namespace, name, attempt=attempt, state=state, exit_code=exit_code, now_s=NOW_S
    )


@pytest.fixture
def bound(database: Database) -> Database:
    """Job `a` bound to n001 and n002."""
    load_cluster(database)
    bind(database, submit(database, "a"), ["n001", "n002"])
    return database


def test_pods_are_listed_by_job_age_role_order_and_index(database: Database) -> None:
    load_cluster(database, 8)
    roles = (Role("zeta", 2, 2, gpus=1), Role("alpha", 11, 11, gpus=1))
    first = submit(database, JobSpec(name="b", roles=roles))
    second = submit(database, make_spec("a", replicas=2))
    pods = [
        make_pod(first, n, f"n00{1 + n % 8}", role="alpha", mask=1 << n // 8)
        for n in reversed(range(11))
    ]
    pods += [make_pod(first, n, "n001", role="zeta", mask=16 << n) for n in range(2)]
    plan = Plan(
        current_revision(database), job_moves=(job_move(first, JobState.BOUND),), pods=tuple(pods)
    )
    commit(database, plan, 0, NOW_S)
    bind(database, second, ["n007", "n008"], mask=0xC0)

    found, cursor, done = [], None, False
    while not done:
        page = list_pods(database, limit=4, cursor=cursor)
        found += [pod.name for pod in page.items]
        cursor, done = page.next, page.next is None
    alphas = [f"b-alpha-{n}" for n in range(11)]
    assert found == ["b-zeta-0", "b-zeta-1", *alphas, "a-member-0", "a-member-1"]
    assert [pod.name for pod in list_pods(database, job="a").items] == found[-2:]
    assert [pod.name for pod in list_pods(database, node="n007").items] == [
        "b-alpha-6",
        "a-member-0",
    ]
    assert list_pods(database, namespace="none").items == ()
    assert [pod.name for pod in pods_of(database, first.uid)] == found[:-2]


def test_pod_is_read_back_as_it_was_bound(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    resources = Resources(1_500, 2_048, (("disk", 3), ("nic", 1)))
    pods = (make_pod(job, 0, "n002", mask=0b1100, resources=resources),)
    plan = Plan(current_revision(database), job_moves=(job_move(job, JobState.BOUND),), pods=pods)
    commit(database, plan, 0, NOW_S)
    pod = get_pod(database, "default", "a-member-0")
    assert pod.resources == resources
    assert (pod.node, pod.gpu_mask, pod.first_rank, pod.job) == ("n002", 0b1100, 0, "a")
    assert (pod.state, pod.attempt, pod.exit_code) == (PodState.BOUND, 1, None)
    assert load_world(database).pods[pods[0].job][pods[0].uid] == pods[0]


def test_cursor_of_another_list_is_refused(database: Database) -> None:
    with pytest.raises(BadCursor):
        list_pods(database, cursor="WzFd")


def test_report_is_a_fact_with_an_event_of_its_own(bound: Database) -> None:
    before = current_revision(bound)
    pod = report(bound, "a-member-0", PodState.SUCCEEDED, exit_code=0)
    assert pod.state is PodState.BOUND
    fact = load_world(bound).facts[0]
    assert (fact.id, fact.revision) == (before + 1, before + 1)
    assert (fact.pod, fact.attempt, fact.pod_state, fact.exit_code) == (
        pod.uid,
        1,
        PodState.SUCCEEDED,
        0,
    )
    event = list_events(bound, before).items[0]
    assert (event.kind, event.name) == ("pod.reported", "a-member-0")
    assert event.message == "node 'n001' reports succeeded with exit code 0"


def test_same_report_again_does_nothing(bound: Database) -> None:
    report(bound, "a-member-0", PodState.RUNNING)
    report(bound, "a-member-1", PodState.FAILED, exit_code=1)
    revision = current_revision(bound)
    report(bound, "a-member-0", PodState.RUNNING)
    report(bound, "a-member-1", PodState.FAILED, exit_code=1)
    assert current_revision(bound) == revision


def test_report_is_taken_while_a_fault_of_its_gpus_has_yet_to_be_acted_on(bound: Database) -> None:
    report(bound, "a-member-0", PodState.RUNNING)
    report_fault(bound, "n001", Report(code_of_xid(31)), now_s=NOW_S)
    revision = current_revision(bound)
    report(bound, "a-member-0", PodState.RUNNING)
    assert current_revision(bound) == revision
    report(bound, "a-member-0", PodState.FAILED, exit_code=1)
    assert load_world(bound).facts[-1].pod_state is PodState.FAILED


def test_same_report_again_does_nothing_after_it_was_acted_on(bound: Database) -> None:
    job = list_pods(bound).items[0]
    report(bound, "a-member-0", PodState.SUCCEEDED, exit_code=0)
    _apply_reports(bound)
    revision = current_revision(bound)
    report(bound, "a-member-0", PodState.SUCCEEDED, exit_code=0)
    assert current_revision(bound) == revision
    assert get_pod(bound, "default", job.name).state is PodState.SUCCEEDED


@pytest.mark.parametrize("acted_on", [False, True])
@pytest.mark.parametrize(
    ("state", "exit_code"),
    [
        (PodState.FAILED, 1),
        (PodState.RUNNING, None),
        (PodState.STOPPED, None),
        (PodState.SUCCEEDED, 3),
    ],
)
def test_report_that_contradicts_the_end_of_a_pod_is_refused(
    bound: Database, state: PodState, exit_code: int | None, *, acted_on: bool
) -> None:
    report(bound, "a-member-0", PodState.SUCCEEDED, exit_code=0)
    if acted_on:
        _apply_reports(bound)
    with pytest.raises(Conflict, match=f"is succeeded with exit code 0 in attempt 1, not {state}"):
        report(bound, "a-member-0", state, exit_code=exit_code)


@pytest.mark.parametrize(("attempt", "said"), [(0, "over"), (2, "yet to come"), (-1, "over")])
def test_report_of_another_attempt_is_refused(bound: Database, attempt: int, said: str) -> None:
    with pytest.raises(
        Conflict, match=f"attempt {attempt} of pod 'a-member-0' is {said}"
    ) as caught:
        report(bound, "a-member-0", PodState.RUNNING, attempt=attempt)
    assert caught.value.path == "attempt"


@pytest.mark.parametrize("state", [PodState.BOUND, PodState.LOST, PodState.CANCELLED])
def test_state_that_no_node_can_know_is_refused(bound: Database, state: PodState) -> None:
    with pytest.raises(StateError, match=f"cannot report '{state}'"):
        report(bound, "a-member-0", state)


def test_report_for_an_unknown_pod_is_not_found(bound: Database) -> None:
    for name, namespace in (("a-member-2", "default"), ("a-member-0", "other")):
        with pytest.raises(NotFound):
            report(bound, name, PodState.RUNNING, namespace=namespace)


def test_report_is_about_the_newest_job_of_a_name(bound: Database) -> None:
    cancel_job(bound, "default", "a", now_s=NOW_S)
    old = pods_of(bound, list_pods(bound).items[0].job_uid)
    job = next(iter(load_world(bound).jobs.values()))
    view = get_job_by_uid(bound, job.uid)
    plan = Plan(
        current_revision(bound),
        job_moves=(job_move(view, JobState.CANCELLED),),
        pod_moves=pod_moves(view, 2, PodState.CANCELLED),
    )
    commit(bound, plan, 0, NOW_S)
    bind(bound, submit(bound, "a"), ["n003", "n004"])
    assert report(bound, "a-member-0", PodState.RUNNING).node == "n003"
    assert [pod.node for pod in old] == ["n001", "n002"]


def _apply_reports(database: Database) -> None:
    """What the leader does with reports, without deciding anything else."""
    world = load_world(database)
    moves = tuple(
        PodMove(f.pod, f.pod_state, f.exit_code) for f in world.facts if f.pod and f.pod_state
    )
    done = tuple(fact.id for fact in world.facts)
    commit(database, Plan(world.revision, facts_done=done, pod_moves=moves), 0, NOW_S)
    with database.read() as connection:
        left = connection.execute(sa.select(facts.c.id).where(facts.c.applied_at.is_(None))).all()
    assert left == []
