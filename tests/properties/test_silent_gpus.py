"""Promise 8: the GPUs of a silent node are given to nobody before it is known what runs there.

Machines, agents and pods are played; the service, its leader and its cycle are the real ones. What
runs is what the machines were told to start, whatever the service believes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from api.clock import ManualClock
from api.loop.runner import Runner
from api.loop.silence import Silence
from api.store.engine import Database
from api.store.errors import Conflict, StoreError
from api.store.hearing import Agent, Said, hear
from api.store.inventory import import_inventory
from api.store.jobs import cancel_job, list_jobs
from api.store.leases import Leases
from api.store.policy import get_policy, put_policy
from api.store.schema import migrate, open_database
from scheduler.importers.podyard_yaml import parse
from scheduler.model.job import Failure, JobSpec, ParallelSizes, Scope
from scheduler.model.lifecycle import PodState
from scheduler.model.resources import indices_of
from tests.api.loop.turns import settle
from tests.api.store.build import submit

NODES = ("n1", "n2", "n3")
MAP = (
    "levels: [node]\nscale_up: node\nnode_types: {t: {gpu: CARD, gpus: 2}}\n"
    'nodes: [{names: "n[1-3]", type: t}]\n'
)
STOP_BEATS = 2
Run = tuple[str, int]


@dataclass
class Machine:
    """A node: what really runs there, and whether its agent reaches the service.

    Attributes:
        runs: Run -> GPU indices.
        stopping: Those of them that were told to stop, and how many heartbeats that still takes.
        ended: What has stopped and is to be told.
        acted_on: What the last answer stood on.
        sent: Every heartbeat.
    """

    name: str
    is_silent: bool = False
    boot: int = 1
    runs: dict[Run, tuple[int, ...]] = field(default_factory=dict)
    stopping: dict[Run, int] = field(default_factory=dict)
    ended: set[Run] = field(default_factory=set)
    acted_on: int = 0
    sent: list[tuple[Agent, list[Said]]] = field(default_factory=list)

    def said(self) -> list[Said]:
        there = [Said(uid, attempt, PodState.RUNNING) for uid, attempt in sorted(self.runs)]
        return there + [Said(uid, n, PodState.STOPPED) for uid, n in sorted(self.ended)]

    def agent(self) -> Agent:
        return Agent(self.name, f"s{self.boot}", f"b{self.boot}", acted_on=self.acted_on)


class Room:
    """Three machines and a service."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = ManualClock()
        self.leases = Leases(database)
        self.runner = Runner(database, self.clock)
        self.runner.silence = Silence(self.leases)
        self.machines = {name: Machine(name) for name in NODES}
        self.jobs = 0
        now_s = self.clock.now_s()
        import_inventory(database, parse(MAP), prune=False, dry_run=False, now_s=now_s)
        policy = get_policy(database) | {
            "suspect_after_s": 10.0,
            "lost_after_s": 30.0,
            "breaker_share": 1.0,
        }
        put_policy(database, policy, now_s=self.clock.now_s())
        for name in NODES:
            self.beat(name)

    def beat(self, name: str) -> None:
        """A heartbeat that is answered: the agent starts and stops what it is told to."""
        machine = self.machines[name]
        if machine.is_silent:
            return
        for run, left in list(machine.stopping.items()):
            machine.stopping[run] = left - 1
            if not left:
                del machine.stopping[run], machine.runs[run]
                machine.ended.add(run)
        agent, told = machine.agent(), machine.said()
        machine.sent.append((agent, told))
        answer = hear(self.leases, agent, told, now_s=self.clock.now_s())
        machine.acted_on = answer.node_revision
        if not answer.speaks:
            return  # it says all of it again
        machine.ended.clear()
        wanted = {(pod.uid, pod.attempt): pod for pod in answer.desired}
        for run in machine.runs.keys() - wanted.keys():
            machine.stopping.setdefault(run, STOP_BEATS)
        said = {word.run for word in told}
        for run, pod in wanted.items():
            if run not in said and pod.state is PodState.BOUND:
                self.start(machine, run, indices_of(pod.gpu_mask))

    def start(self, machine: Machine, run: Run, gpus: Sequence[int]) -> None:
        """An agent waits for an earlier attempt of the same pod; nothing else may be there."""
        met = [other for other, held in machine.runs.items() if set(held) & set(gpus)]
        strangers = [other for other in met if other[0] != run[0]]
        assert not strangers, f"{run} is to start where {strangers} still run on {machine.name}"
        if not any(other[0] == run[0] for other in machine.runs):
            machine.runs[run] = tuple(gpus)

    def submit(self, pods: int) -> None:
        self.jobs += 1
        spec = JobSpec(
            name=f"j{self.jobs}",
            parallelism=ParallelSizes(dp=pods),
            gpus_per_pod=1,
            failure=Failure(scope=Scope.POD, hold_s=60.0),
        )
        submit(self.database, spec)

    def cancel(self) -> None:
        for job in list_jobs(self.database).items[:1]:
            with suppress(StoreError):  # it may have ended
                cancel_job(self.database, "default", job.name, now_s=self.clock.now_s())

    def repeat(self, name: str) -> None:
        """Heartbeats that were long on their way arrive; nobody waits for the answers."""
        sent = self.machines[name].sent
        for agent, told in (sent[0], sent[len(sent) // 2], sent[-1]):
            with suppress(Conflict):  # another session speaks for the node
                hear(self.leases, agent, told, now_s=self.clock.now_s())

    def act(self, verb: str, name: str) -> None:
        machine = self.machines[name]
        if verb == "silence":
            machine.is_silent = True
        elif verb == "speak":
            machine.is_silent = False
        elif verb == "reboot":
            machine.runs.clear()
            machine.stopping.clear()
            machine.ended.clear()
            machine.boot += 1
            machine.acted_on = 0
        elif verb == "submit":
            self.submit(1 + NODES.index(name) % 2)
        elif verb == "cancel":
            self.cancel()
        elif verb == "late":
            self.repeat(name)
        elif verb == "restart":
            self.runner.silence = Silence(self.leases)
        for _ in range(4 if verb == "wait" else 1):
            if verb == "wait":
                self.clock.advance(4.0)
            for each in NODES:
                self.beat(each)
            settle(self.runner)


@contextmanager
def a_room() -> Iterator[Room]:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'podyard.db'}"
        migrate(url)
        database = open_database(url)
        room = Room(database)
        try:
            yield room
        finally:
            room.runner.stop()
            room.leases.close()
            database.close()


VERBS = (
    "silence",
    "speak",
    "reboot",
    "submit",
    "submit",
    "cancel",
    "restart",
    "late",
    "wait",
    "wait",
)


RETURNS = [
    *(("submit", "n1"), ("wait", "n1"), ("silence", "n1")),
    *[("wait", "n1")] * 3,
    *[("submit", "n2")] * 3,
    *(("speak", "n1"), ("wait", "n1"), ("wait", "n1")),
]
"""A pod runs elsewhere by the time its node is back, and others wait for that node's GPUs."""


LATE = [
    *(("submit", "n1"), ("wait", "n1"), ("silence", "n1")),
    *[("wait", "n1")] * 10,
    *(("late", "n1"), ("submit", "n3"), ("submit", "n3"), ("submit", "n3"), ("wait", "n1")),
]
"""A node is lost, and heartbeats from before its pod was started arrive."""


@pytest.mark.slow
@example(LATE)
@example(RETURNS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(NODES)), max_size=25))
def test_nothing_is_started_on_gpus_that_something_else_may_still_use(
    acts: list[tuple[str, str]],
) -> None:
    with a_room() as room:
        for verb, name in acts:
            room.act(verb, name)
        # In the end all is as it should be: everybody speaks, and what runs is what is desired.
        for machine in room.machines.values():
            machine.is_silent = False
        for _ in range(3):
            room.act("wait", "n1")
        for machine in room.machines.values():
            now_s = room.clock.now_s()
            answer = hear(room.leases, machine.agent(), machine.said(), now_s=now_s)
            assert machine.runs.keys() == {(pod.uid, pod.attempt) for pod in answer.desired}
            assert answer.health == "healthy"
