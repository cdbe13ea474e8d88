"""What must hold after every cycle of random lives, with everybody asking for everything."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import cycle as module
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.claim import ClaimWhy, Window
from scheduler.model.ids import JobId, NodeId
from scheduler.model.job import Failure, JobSpec, Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.node import Health
from scheduler.model.plan import FactKind, Plan
from scheduler.model.queue import QueueRecord
from scheduler.model.standing import PLAIN, Drain, NodeStanding
from scheduler.policy import Policy
from scheduler.sim.apply import apply
from scheduler.sim.rules import broken_required
from tests.builders import make_cluster
from tests.core.gangs import gang, parts, report, report_all, required, role, role_gang, tell
from tests.core.gangs import submit as submit_at_0

SPECS = st.sampled_from(
    [
        gang(8),
        gang(4),
        gang(8, 1, 2, patience_s=60.0),
        gang(8, 2, 2, required("pp", "rack")),
        gang(8, 1, 2, required("job", "rack"), duration_s=100.0),
        gang(8, 1, 2, grace_s=30.0),
        gang(4, 1, 2, duration_s=40.0, patience_s=0.0),
        role_gang(role("m", 3, min=1)),
        role_gang(role("a", 1, gpus=4), role("b", 2, gpus=2)),
        role_gang(role("m", 4, min=2, gpus=4, parts=parts(2, 2, 1, required("", "rack")))),
        gang(8, 1, 2, required("job", "rack"), failure=Failure(Scope.POD_ELSE_GANG, 3)),
        gang(4, 2, 2, required("pp", "rack"), failure=Failure(Scope.GANG, 5, hold_s=30.0)),
        role_gang(role("m", 3, min=2, one_per_node=True), failure=Failure(Scope.POD, 9, 20.0)),
        role_gang(
            role("m", 4, gpus=4, parts=parts(2, 2, 2, required("", "rack"))),
            failure=Failure(Scope.POD_ELSE_GANG, 2, hold_s=20.0),
        ),
    ]
)
FACTS = {kind.value: kind for kind in FactKind if kind not in {FactKind.REPORT, FactKind.RESIZE}}
VERBS = st.sampled_from(
    ["submit"] * 8
    + ["run", "finish", "stop", "cordon", "wait", "window", "fail", "quit", *FACTS]
    + ["lose", "silence", "drain"] * 2
)
STEPS = st.lists(st.tuples(VERBS, SPECS, st.integers(0, 11)), max_size=30)
POLICIES = st.sampled_from(
    [
        Policy(breaker_share=1.0),
        Policy(reserve_after_s=20.0, spare_evicted_s=30.0, breaker_share=0.25),
        Policy(order="shortest_first", breaker_share=1.0),
    ]
)


class Life:
    """A small cluster and what happens to it."""

    def __init__(self) -> None:
        self.world = World(make_cluster(racks=2, nodes_per_rack=2))
        self.world.set_queues(
            [QueueRecord("q", quota_gpus=16), QueueRecord("r", quota_gpus=8, limit_gpus=24)]
        )
        self.now_s = 0.0
        self._number = count(1)

    def step(self, verb: str, spec: JobSpec, pick: int) -> None:
        """One thing that happens."""
        world, jobs = self.world, sorted(self.world.jobs)
        if verb == "submit":
            self._submit(spec, pick)
        elif verb == "cordon":
            name = f"n00{pick % 4 + 1}"
            is_aside = world.table.aside[world.topology.node_index[name]] is not None
            stands = world.standing.get(NodeId(name), PLAIN)
            world.put_node(name, replace(stands, cordoned=not is_aside))
        elif verb in {"lose", "silence", "drain"}:
            self._trouble(verb, NodeId(f"n00{pick % 4 + 1}"), pick)
        elif verb == "wait":
            self.now_s += 5.0 * (pick + 1)
        elif verb == "window":
            starts_s = self.now_s + 10.0 * pick
            node = NodeId(f"n00{pick % 4 + 1}")
            window = Window("w", (node,), starts_s, starts_s + 50.0)
            world.set_windows([] if world.windows else [window])
        elif jobs:
            self._happen(verb, JobId(jobs[pick % len(jobs)]))

    def _trouble(self, verb: str, node: NodeId, pick: int) -> None:
        """A node is gone, silent or to be emptied; or it is well again if it was not."""
        if self.world.standing.get(node, PLAIN) != PLAIN:
            for pod in self.world.on_node.get(node, {}).values():
                if pod.state is PodState.LOST:
                    report(self.world, pod, (PodState.RUNNING, PodState.STOPPED)[pick % 2])
            self.world.put_node(node, PLAIN)
        elif verb == "drain":
            deadline_s = (None, self.now_s, self.now_s + 30.0)[pick % 3]
            self.world.put_node(node, NodeStanding(drain=Drain(deadline_s)))
        else:
            silent = verb == "silence"
            standing = NodeStanding(
                Health.LOST, self.now_s, verb, has_agent=silent, fenced=not silent
            )
            self.world.put_node(node, standing)

    def _submit(self, spec: JobSpec, pick: int) -> None:
        number = next(self._number)
        queue = ("default", "q", "r")[pick % 3]
        uid = submit_at_0(
            self.world, replace(spec, queue=queue), f"j{number:02d}", number, (0, 5, 9, 0)[pick % 4]
        )
        self.world.put_job(replace(self.world.jobs[uid], submitted_s=self.now_s))

    def _happen(self, verb: str, uid: JobId) -> None:
        world = self.world
        live = world.live_pods(uid)
        if verb in FACTS:
            leaving = world.jobs[uid].evict
            tell(world, FACTS[verb], uid, leaving.request_id if leaving else "")
        elif verb == "stop":
            for pod in live:
                if pod.state is PodState.TERMINATING:
                    report(world, pod, PodState.STOPPED)
        elif verb == "fail":
            for pod in live[:1]:
                report(world, pod, PodState.FAILED, 1)
        elif verb == "quit":
            for pod in live[-1:]:
                report(world, pod, PodState.STOPPED)
        elif verb == "finish":
            report_all(world, uid, PodState.SUCCEEDED, 0)
        else:
            report_all(world, uid, PodState.RUNNING)

    def decide(self, policy: Policy) -> Plan:
        return run_cycle(self.world, policy, self.now_s)

    def rebuilt(self) -> World:
        """The same world, learnt in the opposite order."""
        old, new = self.world, World(self.world.topology)
        new.revision, new.map_changed = old.revision, old.map_changed
        new.set_queues(old.queues.values())
        new.set_windows(old.windows.values())
        for node in sorted(old.standing, reverse=True):
            new.put_node(node, old.standing[node])
        for uid in sorted(old.jobs, reverse=True):
            new.put_job(old.jobs[uid])
            new.put_pods(sorted(old.pods.get(uid, {}).values(), key=lambda p: p.uid, reverse=True))
        new.put_claims(sorted(old.claims.values(), key=lambda c: c.uid, reverse=True))
        new.facts = list(old.facts)
        return new


def check(before: World, plan: Plan) -> None:
    """Claims lie apart, gangs are whole or absent, evictions come with a place."""
    masks: dict[str, int] = {}
    for claim in before.claims.values():
        assert not masks.get(claim.node, 0) & claim.gpu_mask
        masks[claim.node] = masks.get(claim.node, 0) | claim.gpu_mask
    for uid, job in before.jobs.items():
        live = before.live_pods(uid)
        waits = {c.why for c in before.claims_of(uid)}
        for_start = waits & {ClaimWhy.RESERVATION, ClaimWhy.PREEMPTION}
        assert bool(for_start) == (job.state is JobState.RESERVED)
        assert waits - for_start <= {ClaimWhy.RECOVERY}
        if ClaimWhy.RECOVERY in waits:
            is_moving = job.state in {JobState.BOUND, JobState.RUNNING} and job.evict is not None
            assert is_moving or job.state is JobState.RECOVERING or job.reason is Reason.BACKOFF
        assert (job.state is JobState.RECOVERING) or job.hold_until_s is None
        if job.state in {JobState.PENDING, JobState.RESERVED, JobState.SUSPENDED}:
            assert not live
            assert job.evict is None
        if job.state in {JobState.BOUND, JobState.RUNNING}:
            for wanted in job.spec.roles:
                here = [p for p in before.pods[uid].values() if p.role == wanted.name]
                staying = [
                    p
                    for p in here
                    if p.state in {PodState.BOUND, PodState.RUNNING, PodState.SUCCEEDED}
                ]
                assert len(staying) >= wanted.min
            if uid in {pod.job for pod in plan.pods}:
                there = [p for p in live if p.state is not PodState.LOST]
                assert not list(broken_required(job.spec, there, before.topology))
    placed = {c.job for c in plan.claims if c.why is not ClaimWhy.RESERVATION}
    for move in plan.job_moves:
        if move.evict is not None and move.evict.for_job is not None:
            was = before.jobs.get(move.uid)
            is_new = was is None or was.evict != move.evict
            assert not is_new or move.evict.for_job in placed or move.evict.for_job in before.jobs


def starts_where_it_may(world: World, plan: Plan) -> None:
    """Nothing of a node that takes no pods is given out, but to a member that starts anew there."""
    for pod in plan.pods:
        before = world.pods.get(pod.job, {}).get(pod.uid)
        is_there = before is not None and (before.node, before.gpu_mask) == (
            pod.node,
            pod.gpu_mask,
        )
        aside = world.table.aside[world.topology.node_index[pod.node]]
        assert aside is None or (is_there and pod.node not in world.gone)


@settings(max_examples=150, deadline=None)
@given(STEPS, POLICIES)
def test_promises_hold_whatever_happens(
    steps: list[tuple[str, JobSpec, int]], policy: Policy
) -> None:
    """Promises 1, 2, 9 and 10; the store's own checks refuse any plan that breaks 1 and 3."""
    life = Life()
    for verb, spec, pick in steps:
        life.step(verb, spec, pick)
        plan = life.decide(policy)
        assert life.decide(policy) == plan
        assert run_cycle(life.rebuilt(), policy, life.now_s) == plan
        evicted = {m.uid: m.evict for m in plan.job_moves if m.evict and m.evict.for_job}
        for uid, evict in evicted.items():
            if life.world.jobs[uid].evict is None:
                assert any(c.job == evict.for_job for c in plan.claims)
        starts_where_it_may(life.world, plan)
        apply(life.world, plan, life.now_s)
        check(life.world, plan)


@settings(max_examples=60, deadline=None)
@given(STEPS, POLICIES)
def test_skipping_those_who_are_alike_changes_no_decision(
    steps: list[tuple[str, JobSpec, int]], policy: Policy
) -> None:
    life = Life()
    fresh = module.FRESH_VERDICTS
    for verb, spec, pick in steps:
        life.step(verb, spec, pick)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "FRESH_VERDICTS", 0)
            quick = life.decide(policy)
            patch.setattr(module._Rest, "settle", lambda *_: None)
            patch.setattr(module._Rest, "is_settled", False)
            thorough = life.decide(policy)
        assert quick == thorough
        apply(life.world, quick, life.now_s)
    assert fresh == module.FRESH_VERDICTS


@settings(max_examples=60, deadline=None)
@given(STEPS, POLICIES)
def test_a_cluster_left_alone_comes_to_rest(
    steps: list[tuple[str, JobSpec, int]], policy: Policy
) -> None:
    """When nobody does anything, cycle after cycle must end in one that decides nothing."""
    life = Life()
    for verb, spec, pick in steps:
        life.step(verb, spec, pick)
        apply(life.world, life.decide(policy), life.now_s)
    plan = life.decide(policy)
    for _ in range(12):
        apply(life.world, plan, life.now_s)
        plan = life.decide(policy)
    assert plan.is_empty()
