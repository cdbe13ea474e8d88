"""Commits of gangs that begin to leave or stay after all, and of claims on what they hold."""

from dataclasses import replace

import pytest

from api.store.commit import commit
from api.store.control import control_job
from api.store.engine import Database
from api.store.events import current_revision
from api.store.jobs import cancel_job, get_job
from api.store.views import JobView
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Eviction, EvictStep, FactKind, JobMove, Plan
from tests.api.store.build import NOW_S, bind, job_move, load_cluster, make_spec, submit
from tests.api.store.claiming import claim_of, claimed, claims_of, evicting, reserved, states

J = JobState
Two = tuple[Database, JobView, JobView, JobView]


@pytest.fixture
def two(database: Database) -> Two:
    """A gang on n001 and n002, and two that wait for a place."""
    load_cluster(database)
    low = submit(database, "low")
    bind(database, low, ["n001", "n002"])
    first, second = (submit(database, make_spec(name, priority=9)) for name in ("first", "second"))
    return database, low, first, second


def asked(low: JobView, claimant: JobView | None) -> JobMove:
    """It is asked to save; its pods are told nothing yet."""
    for_job = None if claimant is None else JobId(claimant.uid)
    step = Eviction(J.PENDING, EvictStep.ASKED, None, "why", for_job, request_id="r")
    return evicting(low, claimant, evict=step)


def asked_for(two: Two, *claims: Claim, claimant: JobView | None = None) -> Plan:
    """It is asked to save, and whoever has one of the claims is promised a place."""
    database, low, *others = two
    owners = {claim.job for claim in claims}
    return Plan(
        current_revision(database),
        job_moves=(asked(low, claimant), *(reserved(o) for o in others if o.uid in owners)),
        claims=claims,
    )


@pytest.mark.parametrize("why", [ClaimWhy.PREEMPTION, ClaimWhy.RECOVERY])
def test_claim_on_the_place_of_a_gang_that_was_to_be_asked_to_leave_goes_with_it(
    two: Two, why: ClaimWhy
) -> None:
    """It was to leave for reasons of its own, so nothing names for whom."""
    database, low, first, _second = two
    plan = asked_for(two, *claims_of(first, ["n001", "n002"], why=why))
    control_job(database, "default", "low", FactKind.HOLD, now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {low.uid, first.uid}
    assert states(database, "low", "first") == [J.BOUND, J.PENDING]
    assert claimed(database) == {}


def test_claim_of_another_than_a_gang_was_to_leave_for_goes_with_it(two: Two) -> None:
    database, low, first, second = two
    both = (claim_of(first, 0, "n001"), claim_of(second, 0, "n002"))
    plan = asked_for(two, *both, claimant=first)
    control_job(database, "default", "low", FactKind.HOLD, now_s=NOW_S)
    assert set(commit(database, plan, 0, NOW_S).dropped) == {low.uid, first.uid, second.uid}
    assert claimed(database) == {}


def test_gang_leaves_for_its_own_reasons_without_whoever_was_to_get_its_place(two: Two) -> None:
    database, _low, first, _second = two
    plan = asked_for(two, *claims_of(first, ["n001", "n002"]))
    cancel_job(database, "default", "first", now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).dropped == (first.uid,)
    assert states(database, "low") == [J.EVICTING]


def test_claim_on_what_no_leaving_gang_holds_stays_when_that_is_left_out(two: Two) -> None:
    database, low, first, _second = two
    plan = asked_for(two, *claims_of(first, ["n003", "n004"]))
    control_job(database, "default", "low", FactKind.HOLD, now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).dropped == (low.uid,)
    assert sorted(claimed(database).values()) == ["n003", "n004"]


def test_gang_stays_only_if_all_lose_their_claims_on_its_place(two: Two) -> None:
    """`second` counted on it as well; something newer of it leaves its claim where it is."""
    database, low, first, second = two
    both = (claim_of(first, 0, "n001"), claim_of(second, 0, "n002"))
    plan = asked_for(two, *both, claimant=first)
    assert commit(database, plan, 0, NOW_S).dropped == ()
    waits = (job_move(job, J.PENDING, attempt=0) for job in (first, second))
    stays = Plan(
        current_revision(database),
        job_moves=(*waits, job_move(low, J.BOUND)),
        claims_gone=tuple(ClaimId(uid) for uid in claimed(database)),
    )
    control_job(database, "default", "second", FactKind.HOLD, now_s=NOW_S)
    assert set(commit(database, stays, 0, NOW_S).dropped) == {low.uid, first.uid, second.uid}
    assert states(database, "low", "second") == [J.EVICTING, J.RESERVED]
    stays = replace(stays, revision=current_revision(database))
    assert commit(database, stays, 0, NOW_S).dropped == ()
    assert get_job(database, "default", "low").evict is None
    assert claimed(database) == {}
