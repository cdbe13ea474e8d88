"""What recovery promises, under random gangs on random clusters that lose random nodes."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import Failure, JobSpec, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.node import Health
from scheduler.model.plan import PodRecord
from scheduler.model.standing import PLAIN, NodeStanding
from scheduler.policy import Policy
from scheduler.sim.apply import apply, report
from scheduler.sim.rules import broken_required
from tests.builders import make_cluster
from tests.core.gangs import gang, parts, required, role, role_gang, submit

HOLD_S = 50.0
POLICY = Policy(breaker_share=1.0)
SPECS = st.sampled_from(
    [
        gang(8, 1, 2),
        gang(8, 2, 2, required("pp", "rack")),
        gang(8, 2, 2, required("dp", "rack"), required("job", "leaf")),
        gang(4, 1, 3, required("job", "rack"), gpus_per_pod=4),
        gang(8, 1, 3, spares=1),
        role_gang(role("m", 3, one_per_node=True), rules=(required("m", "rack"),)),
        role_gang(
            role("a", 2, gpus=4), role("b", 2, min=1, gpus=4), rules=(required("job", "leaf"),)
        ),
        role_gang(role("m", 4, min=2, gpus=8, parts=parts(2, 2, 1, required("", "rack")))),
    ]
)
GANGS = st.lists(st.tuples(SPECS, st.sampled_from(list(Scope))), min_size=1, max_size=5)
HAPPENS = st.tuples(
    st.sampled_from(["lose", "lose", "silence", "heal", "wait"]), st.integers(0, 11)
)
TIMES = st.lists(st.lists(HAPPENS, min_size=1, max_size=3), min_size=1, max_size=8)


class Cluster:
    """Twelve nodes in four racks of two leaves, and gangs whose pods obey."""

    def __init__(self, gangs: list[tuple[JobSpec, Scope]]) -> None:
        self.world = World(make_cluster(racks=2, nodes_per_rack=3, leaves=2))
        self.now_s = 0.0
        for number, (spec, scope) in enumerate(gangs):
            failure = Failure(scope, max_restarts=10, hold_s=HOLD_S)
            submit(self.world, replace(spec, failure=failure), f"j{number}", number)

    def happens(self, what: str, pick: int) -> None:
        node = NodeId(self.world.topology.nodes[pick].name)
        if what == "wait":
            self.now_s += 10.0 * (pick + 1)
        elif what == "heal":
            back = self.world.standing.get(node, PLAIN)
            self.world.put_node(node, PLAIN)
            for pod in list(self.world.on_node.get(node, {}).values()):
                if pod.state is PodState.LOST and back.has_agent:
                    report(self.world, pod, PodState.RUNNING)
        else:
            standing = NodeStanding(Health.LOST, self.now_s, what, fenced=what == "lose")
            self.world.put_node(node, replace(standing, has_agent=what == "silence"))

    def rest(self) -> None:
        """Cycles until nothing changes, each checked; pods start and stop as they are told."""
        for _ in range(30):
            plan = run_cycle(self.world, POLICY, self.now_s)
            assert run_cycle(self.world, POLICY, self.now_s) == plan
            before = {pod.uid: self._pod(pod) for pod in plan.pods}
            gives_nothing_of_barred_nodes(self.world, list(plan.pods))
            moves_only_lost_ranks(self.world, list(plan.pods), before)
            apply(self.world, plan, self.now_s)
            keeps_required_rules(self.world)
            if not self._obey() and plan.is_empty():
                return
        raise AssertionError("it does not come to rest")

    def _pod(self, pod: PodRecord) -> PodRecord | None:
        return self.world.pods.get(pod.job, {}).get(pod.uid)

    def _obey(self) -> bool:
        said = False
        for pod in [p for mine in self.world.pods.values() for p in mine.values()]:
            if pod.node not in self.world.gone and pod.state in {
                PodState.BOUND,
                PodState.TERMINATING,
            }:
                bound = pod.state is PodState.BOUND
                report(self.world, pod, PodState.RUNNING if bound else PodState.STOPPED)
                said = True
        return said


def gives_nothing_of_barred_nodes(world: World, new: list[PodRecord]) -> None:
    for pod in new:
        assert world.table.aside[world.topology.node_index[pod.node]] is None


def moves_only_lost_ranks(
    world: World, new: list[PodRecord], before: dict[PodId, PodRecord | None]
) -> None:
    """Who runs on a node that is there stays there; it starts anew only with its whole gang."""
    for pod in new:
        old = before[pod.uid]
        if old is None or old.state not in {PodState.BOUND, PodState.RUNNING}:
            continue
        if old.node in world.gone:
            continue
        assert (old.node, old.gpu_mask) == (pod.node, pod.gpu_mask)
        assert world.jobs[pod.job].spec.failure.scope is Scope.GANG


def keeps_required_rules(world: World) -> None:
    """Members that are there are within what the rules allow, before, during and after."""
    for uid, job in world.jobs.items():
        there = [p for p in world.live_pods(uid) if p.state in {PodState.BOUND, PodState.RUNNING}]
        whole = job.state in {JobState.BOUND, JobState.RUNNING}
        if there and (whole or job.spec.roles):
            assert not list(broken_required(job.spec, there, world.topology))


@settings(max_examples=120, deadline=None)
@given(GANGS, TIMES)
def test_recovery_keeps_its_promises(
    gangs: list[tuple[JobSpec, Scope]], times: list[list[tuple[str, int]]]
) -> None:
    cluster = Cluster(gangs)
    cluster.rest()
    for together in times:
        for what, pick in together:
            cluster.happens(what, pick)
        cluster.rest()
        ends_by_its_limit(cluster)
    recovering = {
        uid for uid, job in cluster.world.jobs.items() if job.state is JobState.RECOVERING
    }
    cluster.now_s += HOLD_S + 1.0
    cluster.rest()
    still = {uid for uid in recovering if _is_recovering(cluster.world, uid)}
    assert not still


def ends_by_its_limit(cluster: Cluster) -> None:
    for job in cluster.world.jobs.values():
        if job.state is JobState.RECOVERING:
            assert job.hold_until_s is not None
            assert cluster.now_s < job.hold_until_s <= cluster.now_s + HOLD_S


def _is_recovering(world: World, uid: JobId) -> bool:
    return uid in world.jobs and world.jobs[uid].state is JobState.RECOVERING
