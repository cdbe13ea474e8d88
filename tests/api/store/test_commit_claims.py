"""Commits of claims: with their evictions all or none, by whom they replace, and what is told."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from api.store import commit as commit_module
from api.store.bulk import update_rows
from api.store.commit import commit
from api.store.control import control_job
from api.store.engine import Database
from api.store.errors import Deposed, LedgerRefused
from api.store.events import current_revision, list_events
from api.store.jobs import cancel_job, get_job
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node
from api.store.pods import pods_of
from api.store.snapshot import follow, load_world
from api.store.views import JobView
from scheduler.errors import InvariantError
from scheduler.model.claim import ClaimWhy
from scheduler.model.ids import ClaimId, JobId, PodId
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import Eviction, EvictStep, FactKind, Plan, PodMove
from scheduler.model.resources import Resources
from tests.api.store.build import (
    NOW_S,
    bind,
    job_move,
    load_cluster,
    make_pods,
    make_spec,
    pod_moves,
    submit,
)
from tests.api.store.claiming import (
    claimed,
    claims_of,
    evicting,
    preemption,
    reserved,
    states,
)
from tests.api.store.test_snapshot import same


@pytest.fixture
def three(database: Database) -> tuple[Database, JobView, JobView, JobView]:
    """Victims v and w on n001 to n004, and a claimant that needs four nodes."""
    load_cluster(database)
    victims = submit(database, "v"), submit(database, "w")
    bind(database, victims[0], ["n001", "n002"])
    bind(database, victims[1], ["n003", "n004"])
    claimant = submit(database, make_spec("first", replicas=4, priority=9))
    return database, claimant, *victims


Three = tuple[Database, JobView, JobView, JobView]


def test_claims_and_the_evictions_made_for_them_are_written_together(three: Three) -> None:
    database, claimant, v, w = three
    world = load_world(database)
    done = commit(database, preemption(database, claimant, v, w), 0, NOW_S)
    assert done.dropped == ()
    assert done.events == {"job.reserved": 1, "job.evicting": 2}
    assert sorted(claimed(database).values()) == ["n001", "n002", "n003", "n004"]
    view = get_job(database, "default", "v")
    assert view.state is JobState.EVICTING
    assert view.evict is not None
    assert view.evict.for_job == claimant.uid
    assert follow(database, world)
    assert same(world, load_world(database))
    assert len(world.claims) == 4
    assert world.claims == load_world(database).claims
    assert audit_ledger(database).is_clean


def test_event_of_a_claimant_says_what_is_kept_for_it(three: Three) -> None:
    database, claimant, v, w = three
    since = current_revision(database)
    commit(database, preemption(database, claimant, v, w), 0, NOW_S)
    told = {event.name: event for event in list_events(database, since).items}
    assert told["first"].message == (
        "32 GPUs of 4 nodes are kept for it until those that are there have left"
    )
    assert told["first"].body["claims"] == 4
    assert told["v"].message == "terminating, then pending: for a gang that comes first"
    assert told["v"].body["for_job"] == claimant.uid


def test_stale_victim_takes_the_claimant_and_the_other_victims_out(three: Three) -> None:
    database, claimant, v, w = three
    plan = preemption(database, claimant, v, w)
    cancel_job(database, "default", "v", now_s=NOW_S)
    done = commit(database, plan, 0, NOW_S)
    assert set(done.dropped) == {claimant.uid, v.uid, w.uid}
    assert states(database, "first", "v", "w") == [JobState.PENDING, JobState.BOUND, JobState.BOUND]
    assert claimed(database) == {}


def test_stale_claimant_takes_its_victims_out(three: Three) -> None:
    database, claimant, v, w = three
    plan = preemption(database, claimant, v, w)
    cancel_job(database, "default", "first", now_s=NOW_S)
    done = commit(database, plan, 0, NOW_S)
    assert set(done.dropped) == {claimant.uid, v.uid, w.uid}
    assert states(database, "v", "w") == [JobState.BOUND, JobState.BOUND]


def test_node_that_was_cordoned_takes_claimant_and_victims_out(three: Three) -> None:
    database, claimant, v, w = three
    plan = preemption(database, claimant, v, w)
    cordon_node(database, "n004", reason="", by="", now_s=NOW_S)
    done = commit(database, plan, 0, NOW_S)
    assert set(done.dropped) == {claimant.uid, v.uid, w.uid}
    assert claimed(database) == {}


def test_new_map_takes_claimant_and_victims_out(three: Three) -> None:
    database, claimant, v, w = three
    plan = preemption(database, claimant, v, w)
    load_cluster(database, racks=1)
    assert len(commit(database, plan, 0, NOW_S).dropped) == 3


def test_others_of_the_plan_stay_when_a_preemption_is_left_out(three: Three) -> None:
    database, claimant, v, _w = three
    other = submit(database, make_spec("other", replicas=1))
    plan = preemption(database, claimant, v)
    waits = replace(job_move(other, JobState.PENDING, attempt=0, reason=Reason.ROOM), message="no")
    plan = replace(plan, job_moves=(*plan.job_moves, waits))
    cancel_job(database, "default", "v", now_s=NOW_S)
    done = commit(database, plan, 0, NOW_S)
    assert set(done.dropped) == {claimant.uid, v.uid}
    assert get_job(database, "default", "other").message == "no"
    assert states(database, "w") == [JobState.BOUND]


def test_members_that_are_evicted_alone_go_with_the_claim_on_their_gpus(three: Three) -> None:
    """Nothing but the GPUs says here that one depends on the other."""
    database, claimant, v, _w = three
    plan = Plan(
        revision=current_revision(database),
        job_moves=(reserved(claimant),),
        pod_moves=(PodMove(PodId(f"{v.uid}-member-1"), PodState.TERMINATING),),
        claims=claims_of(claimant, ["n002"]),
    )
    cancel_job(database, "default", "first", now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {claimant.uid, v.uid}


@pytest.mark.parametrize("why", [ClaimWhy.PREEMPTION, ClaimWhy.RECOVERY, ClaimWhy.SPARE])
def test_claim_on_what_another_was_to_free_at_once_goes_with_it(
    three: Three, why: ClaimWhy
) -> None:
    """Its pods end with this very plan, so nothing is told to make way for the claim."""
    database, claimant, v, w = three
    done = job_move(w, JobState.PENDING, attempt=0)
    plan = Plan(
        revision=current_revision(database),
        job_moves=(reserved(claimant), job_move(v, JobState.PENDING), done),
        pod_moves=(*pod_moves(v, 2, PodState.STOPPED), *pod_moves(w, 2, PodState.STOPPED)),
        claims=claims_of(claimant, ["n001", "n002"], why=why),
    )
    cancel_job(database, "default", "v", now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {claimant.uid, v.uid}
    assert states(database, "v", "w") == [JobState.BOUND, JobState.PENDING]
    assert claimed(database) == {}
    assert audit_ledger(database).is_clean


def test_reservation_for_later_does_not_go_with_who_was_to_free_its_place(three: Three) -> None:
    database, claimant, v, _w = three
    plan = Plan(
        revision=current_revision(database),
        job_moves=(reserved(claimant), job_move(v, JobState.PENDING)),
        pod_moves=pod_moves(v, 2, PodState.STOPPED),
        claims=claims_of(claimant, ["n001"], why=ClaimWhy.RESERVATION),
    )
    cancel_job(database, "default", "v", now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).dropped == (v.uid,)


def test_eviction_without_a_claim_for_whom_it_is_made_is_refused(three: Three) -> None:
    database, claimant, v, _w = three
    plan = Plan(current_revision(database), job_moves=(evicting(v, claimant),))
    with pytest.raises(InvariantError, match="for whom no place is kept"):
        commit(database, plan, 0, NOW_S)
    assert states(database, "v") == [JobState.BOUND]


def test_eviction_for_a_claim_that_is_there_already_is_taken(three: Three) -> None:
    database, claimant, v, w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    more = Plan(
        current_revision(database),
        job_moves=(evicting(w, claimant),),
        pod_moves=pod_moves(w, 2, PodState.TERMINATING),
    )
    assert commit(database, more, 0, NOW_S).dropped == ()


def test_eviction_for_nobody_needs_no_claim(three: Three) -> None:
    database, _claimant, v, _w = three
    plan = Plan(
        current_revision(database),
        job_moves=(evicting(v, None),),
        pod_moves=pod_moves(v, 2, PodState.TERMINATING),
    )
    assert commit(database, plan, 0, NOW_S).events == {"job.evicting": 1}


def test_claimant_that_goes_away_and_withdrawn_evictions_go_together(three: Three) -> None:
    database, claimant, v, _w = three
    asked = Eviction(JobState.PENDING, EvictStep.ASKED, NOW_S + 60, "", JobId(claimant.uid))
    plan = preemption(database, claimant, v)
    plan = replace(plan, job_moves=(reserved(claimant), evicting(v, claimant, evict=asked)))
    commit(database, replace(plan, pod_moves=()), 0, NOW_S)
    uids = tuple(ClaimId(uid) for uid in claimed(database))
    withdrawal = Plan(
        current_revision(database),
        job_moves=(job_move(claimant, JobState.PENDING, attempt=0), job_move(v, JobState.BOUND)),
        claims_gone=uids,
    )
    control_job(database, "default", "first", FactKind.HOLD, now_s=NOW_S)
    assert set(commit(database, withdrawal, 0, NOW_S).dropped) == {claimant.uid, v.uid}
    assert len(claimed(database)) == 2
    withdrawal = replace(withdrawal, revision=current_revision(database))
    assert commit(database, withdrawal, 0, NOW_S).dropped == ()
    assert claimed(database) == {}
    assert get_job(database, "default", "v").evict is None


def test_claims_become_pods_in_one_commit(three: Three) -> None:
    database, claimant, v, _w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    gone = Plan(
        current_revision(database),
        job_moves=(job_move(v, JobState.PENDING),),
        pod_moves=pod_moves(v, 2, PodState.STOPPED),
    )
    commit(database, gone, 0, NOW_S)
    world = load_world(database)
    done = commit(database, _starts(database, claimant, ["n001", "n002"]), 0, NOW_S)
    assert done.events == {"job.bound": 1}
    assert claimed(database) == {}
    assert states(database, "first") == [JobState.BOUND]
    assert follow(database, world)
    assert same(world, load_world(database))
    assert world.claims == {}


def test_victims_that_leave_and_the_claimant_that_starts_may_share_a_plan(three: Three) -> None:
    database, claimant, v, _w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    starts = _starts(database, claimant, ["n001", "n002"])
    plan = replace(
        starts,
        job_moves=(*starts.job_moves, job_move(v, JobState.PENDING)),
        pod_moves=pod_moves(v, 2, PodState.STOPPED),
    )
    cancel_job(database, "default", "v", now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {claimant.uid, v.uid}
    plan = replace(plan, revision=current_revision(database))
    assert commit(database, plan, 0, NOW_S).dropped == ()
    assert states(database, "first", "v") == [JobState.BOUND, JobState.PENDING]


def test_pod_on_what_another_gang_has_claimed_is_refused_by_the_schema(three: Three) -> None:
    database, claimant, v, _w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    gone = Plan(
        current_revision(database),
        job_moves=(job_move(v, JobState.PENDING),),
        pod_moves=pod_moves(v, 2, PodState.STOPPED),
    )
    commit(database, gone, 0, NOW_S)
    thief = submit(database, "thief")
    before = current_revision(database)
    plan = Plan(
        before,
        job_moves=(job_move(thief, JobState.BOUND),),
        pods=make_pods(thief, ["n001", "n002"]),
    )
    with pytest.raises(LedgerRefused, match="claimed by another gang"):
        commit(database, plan, 0, NOW_S)
    assert current_revision(database) == before


def test_claim_over_a_claim_is_refused_by_the_schema(three: Three) -> None:
    database, claimant, v, _w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    other = submit(database, make_spec("other", replicas=1))
    before = current_revision(database)
    plan = Plan(before, job_moves=(reserved(other),), claims=claims_of(other, ["n001"], mask=0b1))
    with pytest.raises(LedgerRefused, match="claimed already"):
        commit(database, plan, 0, NOW_S)
    assert current_revision(database) == before
    assert states(database, "other") == [JobState.PENDING]


def test_deposed_leader_writes_no_claim(three: Three) -> None:
    database, claimant, v, w = three
    with pytest.raises(Deposed):
        commit(database, preemption(database, claimant, v, w), 7, NOW_S)
    assert claimed(database) == {}
    assert states(database, "first", "v") == [JobState.PENDING, JobState.BOUND]


def test_process_that_ends_within_a_commit_leaves_nothing_of_it(
    three: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims are written by then, and the victims' pods; the jobs are not."""
    database, claimant, v, w = three
    plan = preemption(database, claimant, v, w)

    def ends(connection: sa.Connection, table: sa.Table, *rest: object) -> None:
        if table.name == "jobs":
            raise KeyboardInterrupt
        update_rows(connection, table, *rest)  # type: ignore[arg-type]  # handed on

    with monkeypatch.context() as patch:
        patch.setattr(commit_module, "update_rows", ends)
        with pytest.raises(KeyboardInterrupt):
            commit(database, plan, 0, NOW_S)
    assert claimed(database) == {}
    assert states(database, "first", "v", "w") == [JobState.PENDING, JobState.BOUND, JobState.BOUND]
    assert {pod.state for pod in pods_of(database, v.uid)} == {PodState.BOUND}
    assert commit(database, plan, 0, NOW_S).dropped == ()


def test_whoever_counts_on_claims_that_stay_after_all_is_dropped(three: Three) -> None:
    database, claimant, v, _w = three
    commit(database, preemption(database, claimant, v), 0, NOW_S)
    other = submit(database, make_spec("other", replicas=1))
    plan = Plan(
        current_revision(database),
        job_moves=(job_move(claimant, JobState.PENDING, attempt=0), reserved(other)),
        claims=claims_of(other, ["n001"]),
        claims_gone=tuple(ClaimId(uid) for uid in claimed(database)),
    )
    cancel_job(database, "default", "first", now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {claimant.uid, other.uid}


def test_claims_that_change_places_with_one_another_are_written(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    plan = Plan(current_revision(database), (), (reserved(job),))
    commit(database, replace(plan, claims=claims_of(job, ["n001", "n002"])), 0, NOW_S)
    world = load_world(database)
    swapped = Plan(current_revision(database), claims=claims_of(job, ["n002", "n001"]))
    assert commit(database, swapped, 0, NOW_S).events == {"job.claims": 1}
    assert sorted(claimed(database).values()) == ["n001", "n002"]
    assert follow(database, world)
    assert world.claims == load_world(database).claims
    assert same(world, load_world(database))
    assert world.claims[swapped.claims[0].uid].node == "n002"


def test_claims_that_are_there_already_make_no_event(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    claims = claims_of(job, ["n001", "n002"], why=ClaimWhy.SPARE)
    commit(database, Plan(current_revision(database), claims=claims), 0, NOW_S)
    before = current_revision(database)
    again = commit(database, Plan(before, claims=claims, claims_gone=(ClaimId("x"),)), 0, NOW_S)
    assert not again.changed
    assert current_revision(database) == before


def test_claim_that_ended_can_be_made_again(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    (claim,) = claims_of(job, ["n001"])
    claim = replace(claim, resources=Resources(2_000, 512, (("disk", 3),)), starts_s=NOW_S)
    world = load_world(database)
    for plan in (
        Plan(0, claims=(claim,)),
        Plan(0, claims_gone=(claim.uid,)),
        Plan(0, claims=(claim,)),
    ):
        commit(database, replace(plan, revision=current_revision(database)), 0, NOW_S)
        assert follow(database, world)
        assert same(world, load_world(database))
    assert world.claims == {claim.uid: claim}
    commit(database, Plan(current_revision(database), claims_gone=(claim.uid,)), 0, NOW_S)
    assert follow(database, world)
    assert world.claims == {}


def test_claims_of_a_job_whose_record_is_deleted_are_forgotten(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    plan = Plan(current_revision(database), claims=claims_of(job, ["n001"], why=ClaimWhy.SPARE))
    commit(database, plan, 0, NOW_S)
    world = load_world(database)
    for _ in range(2):
        cancel_job(database, "default", "j", now_s=NOW_S)
    assert follow(database, world)
    assert world.claims == {}
    assert same(world, load_world(database))


# -- what a move says beside the state ------------------------------------------------------------


def test_new_fields_of_a_job_are_kept_and_followed(database: Database) -> None:
    load_cluster(database)
    job = submit(database, "j")
    world = load_world(database)
    assert world.jobs[JobId(job.uid)].submitted_s == NOW_S
    evict = Eviction(JobState.SUSPENDED, EvictStep.SAVING, NOW_S + 5, "why", None)
    move = job_move(job, JobState.PENDING, attempt=0, reason=Reason.PATIENCE)
    move = replace(
        move, could_start_s=NOW_S + 1, expected_start_s=NOW_S + 2, held=True, evicted_s=NOW_S - 3
    )
    commit(database, Plan(current_revision(database), job_moves=(move,)), 0, NOW_S)
    assert follow(database, world)
    record = world.jobs[JobId(job.uid)]
    assert (record.could_start_s, record.expected_start_s) == (NOW_S + 1, NOW_S + 2)
    assert (record.held, record.evicted_s) == (True, NOW_S - 3)
    assert same(world, load_world(database))
    bind_move = replace(job_move(job, JobState.BOUND), evict=evict)
    plan = Plan(
        current_revision(database), job_moves=(bind_move,), pods=make_pods(job, ["n001", "n002"])
    )
    commit(database, plan, 0, NOW_S + 10)
    assert follow(database, world)
    record = world.jobs[JobId(job.uid)]
    assert (record.evict, record.bound_s, record.held) == (evict, NOW_S + 10, False)
    assert same(world, load_world(database))


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"held": True}, "job.held", "it does not start before it is released"),
        (
            {"expected_start_s": NOW_S},
            "job.forecast",
            "expected to start at 2027-01-15T08:00:00.000Z",
        ),
        ({"could_start_s": NOW_S}, "job.forecast", "it could start, and waits for a better place"),
    ],
)
def test_what_changes_beside_the_state_is_told(
    database: Database, changes: dict[str, object], kind: str, message: str
) -> None:
    load_cluster(database)
    job = submit(database, "j")
    since = current_revision(database)
    move = replace(job_move(job, JobState.PENDING, attempt=0), **changes)  # type: ignore[arg-type]  # fields by name
    commit(database, Plan(since, job_moves=(move,)), 0, NOW_S)
    (event,) = list_events(database, since).items
    assert (event.kind, event.message) == (kind, message)
    assert not commit(database, Plan(since + 1, job_moves=(move,)), 0, NOW_S).changed


def test_steps_of_an_eviction_are_told(three: Three) -> None:
    database, _claimant, v, _w = three
    for step in (EvictStep.ASKED, EvictStep.SAVING, EvictStep.TERMINATING):
        since = current_revision(database)
        evict = Eviction(JobState.SUSPENDED, step, NOW_S + 60, "by its owner")
        move = replace(evicting(v, None), evict=evict)
        commit(database, Plan(since, job_moves=(move,)), 0, NOW_S)
        (event,) = list_events(database, since).items
        assert event.kind == ("job.evicting" if step is EvictStep.ASKED else "job.eviction")
        assert event.body["step"] == step
        assert event.body["deadline"] == "2027-01-15T08:01:00.000Z"


def _starts(database: Database, claimant: JobView, nodes: list[str]) -> Plan:
    """The claimant's first two members take what is claimed for them."""
    return Plan(
        current_revision(database),
        job_moves=(job_move(claimant, JobState.BOUND),),
        pods=make_pods(claimant, nodes),
        claims_gone=tuple(ClaimId(f"{claimant.uid}-member-{index}") for index in range(2)),
    )
