"""The journal tells of claims, windows and the new standing of jobs, and reads older ones."""

import json
from dataclasses import fields, replace

from api.schemas import decision as text
from api.store.commit import commit
from api.store.engine import Database
from api.store.events import current_revision
from api.store.jobs import cancel_job
from api.store.journal import JournalWorld, Reader
from api.store.snapshot import follow, load_snapshot
from api.store.windows import create_window, delete_window
from scheduler.model.claim import ClaimWhy, Window
from scheduler.model.ids import ClaimId, JobId, NodeId, PodId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Eviction, EvictStep, JobMove, JobRecord, Plan, PodMove
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, pod_moves, submit
from tests.api.store.claiming import claimed, claims_of, preemption
from tests.api.store.test_snapshot import same

NEW_OF_JOBS = {
    "submitted_s",
    "bound_s",
    "started_s",
    "saved_s",
    "could_start_s",
    "expected_start_s",
    "held",
    "evict",
    "evicted_s",
}


def test_world_of_the_journal_has_the_claims_and_windows_of_the_real_one(
    database: Database,
) -> None:
    load_cluster(database)
    victim, claimant = submit(database, "v"), submit(database, "first")
    bind(database, victim, ["n001", "n002"])
    world = load_snapshot(database, JournalWorld).world
    assert isinstance(world, JournalWorld)
    reader = Reader()
    for line in world.freeze().lines():
        reader.read(line)
    steps = (
        lambda: commit(database, preemption(database, claimant, victim), 0, NOW_S),
        lambda: create_window(
            database, Window("w", (NodeId("n003"),), NOW_S, NOW_S + 9), now_s=NOW_S
        ),
        lambda: commit(
            database,
            Plan(
                current_revision(database),
                pod_moves=pod_moves(victim, 2, PodState.STOPPED),
                job_moves=(JobMove(JobId(victim.uid), JobState.PENDING, None, "", 1),),
                claims=claims_of(claimant, ["n003", "n004"], why=ClaimWhy.PREEMPTION),
            ),
            0,
            NOW_S,
        ),
        lambda: commit(
            database,
            Plan(
                current_revision(database),
                job_moves=(JobMove(JobId(claimant.uid), JobState.PENDING, None, "", 0),),
                claims_gone=tuple(map(ClaimId, claimed(database))),
            ),
            0,
            NOW_S,
        ),
        lambda: delete_window(database, "w", now_s=NOW_S),
        lambda: cancel_job(database, "default", "first", now_s=NOW_S),
    )
    for step in steps:
        step()
        assert follow(database, world)
        for line in world.take():
            reader.read(line)
        reader.world.revision, reader.world.facts = world.revision, world.facts
        assert same(reader.world, world)
    assert (world.claims, world.windows) == ({}, {})


def test_records_that_an_earlier_program_wrote_are_read() -> None:
    eviction = Eviction(JobState.PENDING, EvictStep.SAVING, 1.0, "x", JobId("k"))
    job = JobRecord(JobId("j"), make_spec(), JobState.BOUND, 7, held=True, evict=eviction)
    (item,) = json.loads(text.dump_jobs((job,)))
    assert {f.name for f in fields(JobRecord)} >= NEW_OF_JOBS
    old = {name: value for name, value in item.items() if name not in NEW_OF_JOBS}
    (read,) = text.load_jobs(json.dumps([old]).encode())
    assert read == replace(job, held=False, evict=None)
    plan = Plan(5, pod_moves=(PodMove(PodId("p"), PodState.STOPPED),))
    item = json.loads(text.dump_plan(plan))
    for name in ("claims", "claims_gone", "wake_at_s"):
        del item[name]
    assert text.load_plan(json.dumps(item).encode()) == plan
