"""The virtual clock: what happens when, and what survives a crash."""

import pytest

from scheduler.cluster.world import World
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState
from scheduler.model.plan import Plan
from scheduler.policy import Policy
from scheduler.sim.engine import EPOCH_S, Engine, Restless, rebuilt
from scheduler.sim.measures import Measures
from scheduler.sim.workload import Submission
from tests.core.gangs import gang
from tests.simulation.clusters import regular

FIRST = JobId("j000000")


def engine(*jobs: Submission, start_s: float = 1.0) -> tuple[Engine, Measures]:
    topology = regular()
    measures = Measures(topology, "leaf")
    out = Engine(World(topology), observers=[measures], start_s=start_s)
    out.load(jobs)
    return out, measures


def test_a_job_runs_for_its_run_time() -> None:
    found, measures = engine(Submission(5.0, gang(8), run_s=60.0))
    found.run()
    told = measures.jobs[FIRST]
    assert (told.started_s, told.ended_s, told.state) == (5.0, 66.0, JobState.SUCCEEDED)


def test_a_job_that_does_not_fit_waits_for_its_turn() -> None:
    whole = gang(8, 1, 32, patience_s=0.0)
    found, measures = engine(
        Submission(0.0, whole, run_s=60.0), Submission(1.0, whole, run_s=60.0), start_s=0.0
    )
    found.run()
    assert [told.wait_s for told in measures.jobs.values()] == [0.0, 59.0]


def test_pods_told_to_stop_take_their_time() -> None:
    found, measures = engine(Submission(0.0, gang(8), run_s=600.0, stop_s=30.0))
    found.at(EPOCH_S + 10.0, lambda: found.cancel(FIRST))
    found.run()
    told = measures.jobs[FIRST]
    assert told.state is JobState.CANCELLED
    assert told.ended_s in {10.0, 40.0}


def test_a_gang_on_a_lost_node_starts_anew_elsewhere() -> None:
    found, measures = engine(Submission(0.0, gang(8), run_s=600.0))
    found.at(EPOCH_S + 100.0, lambda: found.lose_node(found.world.live_pods(FIRST)[0].node))
    found.run()
    told = measures.jobs[FIRST]
    assert told.state is JobState.SUCCEEDED
    assert told.ended_s is not None
    assert told.ended_s >= 700.0
    assert len(found.lost) == 1


def test_a_crash_loses_nothing_that_is_durable() -> None:
    found, measures = engine(Submission(0.0, gang(8, 2), run_s=600.0))
    found.at(EPOCH_S + 100.0, found.crash)
    before = found.world
    found.run()
    assert found.world is not before
    assert found.stats.crashes == 1
    assert measures.jobs[FIRST].ended_s == 601.0


def test_the_records_alone_make_the_same_world() -> None:
    found, _ = engine(Submission(0.0, gang(8, 2), run_s=600.0))
    found.cordon("n020", on=True)
    found.lose_node("n021")
    found.run(max_steps=3)
    for backwards in (False, True):
        copy = rebuilt(found.world, backwards=backwards)
        assert copy.table.free == found.world.table.free
        assert copy.table.aside == found.world.table.aside
        assert copy.jobs == found.world.jobs
        assert copy.pods == found.world.pods


def test_a_plan_that_asks_to_be_woken_is() -> None:
    times: list[float] = []

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        times.append(now_s - EPOCH_S)
        return Plan(world.revision, wake_at_s=EPOCH_S + 50.0 if now_s < EPOCH_S + 50.0 else None)

    found = Engine(World(regular()), decide=decide)
    found.at(EPOCH_S, lambda: None)
    found.run()
    assert times == [0.0, 50.0]


def test_a_wake_up_in_the_past_with_nothing_decided_is_an_error() -> None:
    found = Engine(World(regular()), decide=lambda w, p, n: Plan(w.revision, wake_at_s=n - 1.0))
    found.at(EPOCH_S, lambda: None)
    with pytest.raises(Restless, match="a cycle is due"):
        found.run()


def test_a_service_that_never_rests_is_an_error() -> None:
    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        if not world.facts:
            found.cancel(FIRST)
        return Plan(world.revision, facts_done=tuple(fact.id for fact in world.facts))

    found, _ = engine(Submission(0.0, gang(8), run_s=60.0))
    found.run(max_steps=3)
    found._decide = decide
    found.at(found.now_s, lambda: None)
    with pytest.raises(Restless, match="still not at rest"):
        found.run()
