"""Machines with an agent: what really runs there, and what is said of it.

An agent is as the real one: it tells of all pods, acts only on the answer to its last heartbeat,
starts nothing on GPUs that an earlier pod still has, forgets what has ended once that was told, and
stops nothing for not reaching the service.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.store.errors import Conflict, StoreError
from api.store.hearing import Agent, Heard, Said, hear
from api.store.views import PodView
from scheduler.model.lifecycle import PodState
from tests.simulation.service.history import History, Run
from tests.simulation.service.network import Network, NoAnswer
from tests.simulation.service.replica import Replica
from tests.simulation.service.stage import Stage

SOON_S, OFTEN_S, AWAY_S = 1.0, 2.5, 3.0
STOP_S = 4.0
ENDED = frozenset({PodState.STOPPED, PodState.SUCCEEDED, PodState.FAILED})


@dataclass(slots=True)
class Process:
    """One pod as its machine knows it."""

    gpus: int
    state: PodState
    next_at_s: float
    will_be: PodState
    lasts_s: float
    exit_code: int | None = None


@dataclass(slots=True)
class Machine:
    """A node.

    Attributes:
        pods: What the agent has in its folders, which outlive it.
        run_s: How long pods run: job -> seconds and whether they then fail.
        life: Of the agent; an older one that is still about is turned away.
        acted_on: What the last answer that it acted on stood on.
        boot: Life of the machine.
        is_off: Without power; its agent is silent, and nothing runs.
        said_gone: Calls under way that say so; before they are over it does not come on again.
    """

    name: str
    stage: Stage
    network: Network
    history: History
    run_s: Mapping[str, tuple[float, bool]]
    pods: dict[Run, Process] = field(default_factory=dict)
    life: int = 0
    acted_on: int = 0
    boot: int = 1
    is_off: bool = False
    said_gone: int = 0

    def start_agent(self) -> None:
        """Another life of the agent; the one before does not know of it yet."""
        self.life += 1
        life, self.acted_on = self.life, 0
        self.stage.spawn(f"agent-{self.name}-{life}", lambda: self._live(life), "")

    def reboot(self) -> None:
        """Everything that ran is gone, and the folders tell so."""
        self.boot += 1
        for pod in self.pods.values():
            if pod.state not in ENDED:
                pod.state, pod.exit_code = PodState.STOPPED, None
        self.history.runs[self.name].clear()
        self.start_agent()

    def go_off(self) -> None:
        """Lose power."""
        self.is_off = True
        for pod in self.pods.values():
            if pod.state not in ENDED:
                pod.state, pod.exit_code = PodState.STOPPED, None
        self.history.runs[self.name].clear()

    def come_on(self) -> None:
        if self.said_gone:
            self.stage.after(1.0, self.come_on)
        elif self.is_off:
            self.is_off = False
            self.reboot()

    def _live(self, life: int) -> None:
        while life == self.life:
            self.stage.sleep(self._beat(life))

    def _beat(self, life: int) -> float:
        """One heartbeat; seconds until the next."""
        if self.is_off:
            return AWAY_S
        self._look()
        told = self._said()
        speaker, boot = f"{self.name}-{life}", f"boot-{self.boot}"
        agent = Agent(self.name, speaker, boot, acted_on=self.acted_on)
        try:
            answer = self.network.call(self.name, lambda replica: self._ask(replica, agent, told))
        except NoAnswer:
            return AWAY_S * self.stage.rng.random()
        except Conflict:
            # Another one speaks for the node: this agent ends. Its supervisor starts it anew.
            if life == self.life:
                self.stage.after(AWAY_S, self.start_agent)
                self.life += 1
            return AWAY_S
        except StoreError as error:
            self.history.complaints.append(f"heartbeat of {self.name}: {error}")
            return AWAY_S
        if life == self.life and not self.is_off:
            self._heard(told, answer)
            self.acted_on = answer.node_revision
        busy = any(pod.state not in {PodState.RUNNING} for pod in self.pods.values())
        return SOON_S if busy else OFTEN_S

    def _ask(self, replica: Replica, agent: Agent, told: list[Said]) -> Heard:
        return hear(replica.leases, agent, told, now_s=replica.clock.now_s())

    def _said(self) -> list[Said]:
        found = []
        for run in sorted(self.pods):
            pod = self.pods[run]
            found.append(Said(run[0], run[1], pod.state, pod.exit_code))
        return found

    def _look(self) -> None:
        """Let happen what is due."""
        for run in sorted(self.pods):
            pod = self.pods[run]
            if pod.state in ENDED or self.stage.now_s < pod.next_at_s:
                continue
            if pod.state is PodState.BOUND:
                pod.state, pod.next_at_s = PodState.RUNNING, self.stage.now_s + pod.lasts_s
            else:
                pod.state = pod.will_be
                pod.exit_code = {PodState.SUCCEEDED: 0, PodState.FAILED: 1}.get(pod.will_be)
                self.history.runs[self.name].pop(run, None)

    def _heard(self, told: list[Said], answer: Heard) -> None:
        for word in told:
            if word.state in ENDED:
                self.pods.pop(word.run, None)
        for run in answer.stopping:
            # It was given up before this agent knew of it.
            if run not in self.pods:
                self.pods[run] = Process(0, PodState.STOPPED, 0.0, PodState.STOPPED, 0.0)
        wanted = {(pod.uid, pod.attempt): pod for pod in answer.desired}
        for run in sorted(self.pods.keys() - wanted.keys()):
            self._stop(self.pods[run])
        for run, pod in wanted.items():
            was_told = any(word.run == run for word in told)
            if run in self.pods or was_told or pod.state is not PodState.BOUND:
                continue
            if answer.speaks and not self._is_taken(pod):
                self._start(run, pod)

    def _stop(self, pod: Process) -> None:
        if pod.state in {PodState.BOUND, PodState.RUNNING}:
            pod.state, pod.will_be = PodState.TERMINATING, PodState.STOPPED
            pod.next_at_s = self.stage.now_s + STOP_S * self.stage.rng.random()

    def _is_taken(self, pod: PodView) -> bool:
        return any(
            (run[0] == pod.uid or other.gpus & pod.gpu_mask) and other.state not in ENDED
            for run, other in self.pods.items()
        )

    def _start(self, run: Run, pod: PodView) -> None:
        now_s, rng = self.stage.now_s, self.stage.rng
        seconds, fails = self.run_s.get(pod.job, (60.0, False))
        lasts_s = seconds * (0.5 + rng.random())
        ends = PodState.FAILED if fails and rng.random() < 0.3 else PodState.SUCCEEDED
        self.pods[run] = Process(pod.gpu_mask, PodState.BOUND, now_s + rng.random(), ends, lasts_s)
        self.history.runs[self.name][run] = pod.gpu_mask
