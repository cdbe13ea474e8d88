"""Each promise is broken on purpose once, and the checks must say so.

Promises 5, 6 and 7 (keys, effects, epochs) are the store's; a cycle can neither keep nor break
them, and `tests/mutation` breaks them there.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.job import Failure, JobSpec
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import Eviction, EvictStep, JobMove, Plan, PodMove
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy
from scheduler.sim.apply import PlanRefused
from scheduler.sim.checks import BrokenPromise, Checks
from scheduler.sim.engine import Decide, Engine
from scheduler.sim.workload import Submission
from tests.core.gangs import gang, required
from tests.simulation.clusters import regular

Sabotage = Callable[[Plan, World], Plan]


def saboteur(harm: Sabotage) -> Decide:
    """The real cycle, its plans harmed."""

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        return harm(run_cycle(world, policy, now_s), world)

    return decide


def simulation(
    decide: Decide, *specs: JobSpec, world: World | None = None, replay_every: int = 0
) -> Engine:
    """Jobs that come one second after the other and run for a minute."""
    checks = Checks(decide, replay_every=replay_every)
    engine = Engine(world or World(regular()), decide=decide, observers=[checks])
    engine.load([Submission(float(i), spec, run_s=60.0) for i, spec in enumerate(specs)])
    return engine


def broken(engine: Engine) -> BrokenPromise:
    with pytest.raises(BrokenPromise) as caught:
        engine.run(max_steps=200)
    return caught.value


def test_the_checks_are_silent_when_nothing_is_broken() -> None:
    engine = simulation(run_cycle, gang(8, 2, 2), gang(4), replay_every=1)
    engine.run()
    assert engine.stats.ended == {JobState.SUCCEEDED: 2}


def test_promise_1_a_gpu_given_twice_is_refused_by_the_store() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        taken = [p for pods in world.pods.values() for p in pods.values() if p.is_live]
        pods = tuple(replace(p, node=taken[0].node) if taken else p for p in plan.pods)
        return replace(plan, pods=pods)

    with pytest.raises(PlanRefused, match="in use"):
        simulation(saboteur(harm), gang(8), gang(8)).run(max_steps=50)


def test_promise_1_a_gpu_given_twice_is_seen_by_the_checks() -> None:
    """Behind the store's back: a record that says another node than the ledger was told."""
    engine = simulation(run_cycle, gang(8), gang(8))

    def move() -> None:
        pods = engine.world.pods
        first, second = (next(iter(pods[JobId(uid)].values())) for uid in ("j000000", "j000001"))
        pods[second.job][second.uid] = replace(second, node=first.node)

    engine.at(engine.now_s + 10.0, move)
    assert broken(engine).promise in {0, 1}


def test_promise_2_a_gang_without_one_of_its_pods_is_seen() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        return replace(plan, pods=plan.pods[:-1])

    assert broken(simulation(saboteur(harm), gang(8, 2, 2))).promise == 2


def test_promise_2_a_pending_gang_that_kept_a_pod_is_seen() -> None:
    """One pod stops and the gang goes back to wait; the others are left where they were."""

    def harm(plan: Plan, world: World) -> Plan:
        if any(move.state is JobState.PENDING for move in plan.job_moves):
            return replace(plan, pod_moves=plan.pod_moves[:1], pods=())
        return plan

    engine = simulation(saboteur(harm), gang(8, 2, 2, failure=Failure(hold_s=10.0)))
    engine.at(engine.now_s + 10.0, lambda: _lose_one_and_cordon_the_rest(engine))
    assert broken(engine).promise == 2


def test_promise_2_a_gang_in_recovery_without_a_limit_is_seen() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        moves = tuple(replace(move, hold_until_s=None) for move in plan.job_moves)
        return replace(plan, job_moves=moves)

    engine = simulation(saboteur(harm), gang(8, 2, 2))
    engine.at(engine.now_s + 10.0, lambda: _lose_one_and_cordon_the_rest(engine))
    found = broken(engine)
    assert found.promise == 2
    assert "without a limit" in str(found)


def test_promise_2_a_gang_in_recovery_beyond_its_limit_is_seen() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        if any(move.goes_first for move in plan.job_moves):
            return replace(plan, job_moves=(), pod_moves=())
        return plan

    engine = simulation(saboteur(harm), gang(8, 2, 2, failure=Failure(hold_s=10.0)))
    engine.at(engine.now_s + 10.0, lambda: _lose_one_and_cordon_the_rest(engine))
    engine.at(engine.now_s + 30.0, lambda: None)
    found = broken(engine)
    assert found.promise == 2
    assert "beyond its limit" in str(found)


def _lose_one_and_cordon_the_rest(engine: Engine) -> None:
    engine.lose_node(engine.world.live_pods(JobId("j000000"))[0].node)
    for node in engine.world.topology.nodes:
        engine.cordon(node.name, on=True)


def test_promise_3_a_job_that_is_lost_is_seen() -> None:
    engine = simulation(run_cycle, gang(8), gang(8))
    engine.at(engine.now_s + 10.0, lambda: engine.world.jobs.pop(JobId("j000001")))
    assert broken(engine).promise in {0, 3}


def test_promise_3_a_job_that_ends_twice_is_seen() -> None:
    engine = simulation(run_cycle, gang(8), gang(8))
    job = {}

    def remember() -> None:
        job["first"] = engine.world.jobs[JobId("j000000")]

    engine.at(engine.now_s + 10.0, remember)
    engine.at(engine.now_s + 90.0, lambda: engine.world.put_job(job["first"]))
    assert broken(engine).promise == 3


def test_promise_4_a_revision_that_goes_back_is_seen() -> None:
    engine = simulation(run_cycle, gang(8))
    checks = Checks(run_cycle)
    world = engine.world
    world.revision = 9
    checks.before(world, Policy(), Plan(9), engine.now_s)
    world.revision = 8
    with pytest.raises(BrokenPromise) as caught:
        checks.after(world, Plan(9), engine.now_s)
    assert caught.value.promise == 4


def test_promise_8_a_new_pod_on_a_lost_node_is_seen() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        return replace(plan, pods=tuple(replace(p, node=NodeId("n032")) for p in plan.pods))

    engine = simulation(saboteur(harm), gang(8))
    engine.lose_node("n032")
    assert broken(engine).promise == 8


def test_promise_8_a_new_pod_on_a_silent_node_is_seen() -> None:
    def harm(plan: Plan, world: World) -> Plan:
        return replace(plan, pods=tuple(replace(p, node=NodeId("n032")) for p in plan.pods))

    engine = simulation(saboteur(harm), gang(8))
    engine.silence("n032")
    assert broken(engine).promise == 8


def test_promise_8_a_pod_that_moves_while_it_runs_is_seen() -> None:
    """One is lost, and another is put elsewhere though it runs on where it is."""

    def harm(plan: Plan, world: World) -> Plan:
        if not world.gone or len(plan.pods) < 2:
            return plan
        moved = replace(plan.pods[-1], node=NodeId("n031"))
        return replace(plan, pods=(*plan.pods[:-1], moved))

    engine = simulation(saboteur(harm), gang(8, 2, 2))
    job = JobId("j000000")
    engine.at(engine.now_s + 10.0, lambda: engine.lose_node(engine.world.live_pods(job)[0].node))
    found = broken(engine)
    assert found.promise == 8
    assert "where it still runs" in str(found)


def test_promise_8_a_node_that_is_heard_again_is_used_again() -> None:
    """What the checks forbid ends when the cause does."""
    engine = simulation(run_cycle, gang(8, 2, 2))
    job = JobId("j000000")
    node = {}

    def silence() -> None:
        node["name"] = engine.world.live_pods(job)[0].node
        engine.silence(node["name"])

    engine.at(engine.now_s + 10.0, silence)
    engine.at(engine.now_s + 20.0, lambda: engine.speak(node["name"]))
    engine.run()
    assert engine.stats.ended == {JobState.SUCCEEDED: 1}


def evicting(plan: Plan, world: World, claims: tuple[Claim, ...]) -> Plan:
    """The first job is told to leave for the second, once both are there."""
    first, second = JobId("j000000"), JobId("j000001")
    job = world.jobs.get(first)
    if job is None or second not in world.jobs or job.state is not JobState.RUNNING:
        return plan
    eviction = Eviction(JobState.PENDING, EvictStep.TERMINATING, for_job=second)
    move = JobMove(
        first, JobState.EVICTING, None, "", job.attempt, job.gpus_per_pod, job.node_type,
        evict=eviction,
    )  # fmt: skip
    told = tuple(PodMove(p.uid, PodState.TERMINATING) for p in world.live_pods(first))
    return replace(plan, job_moves=(move,), pod_moves=told, pods=(), claims=claims)


def test_promise_9_an_eviction_without_a_place_for_the_claimant_is_seen() -> None:
    engine = simulation(saboteur(lambda p, w: evicting(p, w, ())), gang(8), gang(8))
    found = broken(engine)
    assert (found.promise, "gets no place" in str(found)) == (9, True)


def test_promise_9_an_eviction_for_a_place_elsewhere_is_seen() -> None:
    elsewhere = Claim(ClaimId("c"), ClaimWhy.PREEMPTION, NodeId("n032"), 0xFF, job=JobId("j000001"))
    engine = simulation(saboteur(lambda p, w: evicting(p, w, (elsewhere,))), gang(8), gang(8))
    found = broken(engine)
    assert (found.promise, "goes elsewhere" in str(found)) == (9, True)


def test_promise_9_a_claim_of_a_job_that_has_ended_is_seen() -> None:
    claim = Claim(ClaimId("c"), ClaimWhy.RESERVATION, NodeId("n032"), 0xFF, job=JobId("gone"))
    checks = Checks(run_cycle)
    world = World(regular())
    world.put_claims((claim,))
    checks.before(world, Policy(), Plan(0), 0.0)
    with pytest.raises(BrokenPromise) as caught:
        checks.after(world, Plan(0), 0.0)
    assert caught.value.promise == 9


def test_promise_9_a_start_on_gpus_kept_for_another_is_seen() -> None:
    """A job of an hour starts where a window begins in a minute."""
    engine = simulation(run_cycle, gang(8, duration_s=3_600.0))
    engine.step()
    world = engine.world
    pod = world.live_pods(JobId("j000000"))[0]
    plan = Plan(world.revision, pods=(pod,))
    keeps = Claim(
        ClaimId("w"), ClaimWhy.MAINTENANCE, pod.node, 0x0F, window="w",
        starts_s=engine.now_s + 60.0,
    )  # fmt: skip
    checks = Checks(run_cycle)
    checks.submitted(world.jobs[pod.job], Submission(0.0, gang(8), 60.0), engine.now_s)
    world.put_claims((keeps,))
    checks.before(world, Policy(), Plan(world.revision), engine.now_s)
    world.revision += 1
    with pytest.raises(BrokenPromise, match="kept by 'w'") as caught:
        checks.after(world, plan, engine.now_s)
    assert caught.value.promise == 9


def test_promise_10_a_plan_that_depends_on_more_than_its_input_is_seen() -> None:
    calls: list[int] = []

    def harm(plan: Plan, world: World) -> Plan:
        calls.append(1)
        moves = tuple(replace(m, message=f"call {len(calls)}") for m in plan.job_moves)
        return replace(plan, job_moves=moves)

    assert broken(simulation(saboteur(harm), gang(8), replay_every=1)).promise == 10


def test_a_placement_that_breaks_a_required_rule_is_seen() -> None:
    """Two pods in one rack, says the rule; the second is sent to the other end of the cluster."""

    def harm(plan: Plan, world: World) -> Plan:
        pods = [replace(p, node=NodeId("n032")) if p.index == 1 else p for p in plan.pods]
        return replace(plan, pods=tuple(pods))

    engine = simulation(saboteur(harm), gang(8, 2, 1, required("pp", "rack")))
    assert "'pp' is not within 'rack'" in str(broken(engine))


def test_a_queue_that_goes_over_its_limit_is_seen() -> None:
    """The cycle is shown a queue without a limit; the checks know better."""
    limited = QueueRecord("team", limit_gpus=8)

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        world.set_queues([QueueRecord("team")])
        plan = run_cycle(world, policy, now_s)
        world.set_queues([limited])
        return plan

    world = World(regular())
    world.set_queues([limited])
    engine = simulation(decide, gang(8, 2, queue="team"), world=world)
    assert "queue 'team' uses 16 GPUs; its limit is 8" in str(broken(engine))


def test_a_decision_that_leaves_its_trial_edits_behind_is_seen() -> None:
    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        plan = run_cycle(world, policy, now_s)
        world.table.free[0] &= ~1
        return plan

    assert "its pods say otherwise" in str(broken(simulation(decide, gang(8))))
