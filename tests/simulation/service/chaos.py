"""What befalls the service, its machines and its database, now and then, until it is over."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from api.store.drains import drain_nodes, fence_node, undrain_nodes
from api.store.errors import StoreError
from api.store.fault_reports import Report, report_fault
from api.store.faults import clear_fault, list_faults
from api.store.nodes import cordon_node, uncordon_node
from api.store.outbox import retry_delivery
from scheduler.errors import SchedulerError
from scheduler.model.standing import Drain
from scheduler.recover.codes import CODES, code_of_xid
from tests.simulation.service.hooks import Receivers
from tests.simulation.service.machines import Machine
from tests.simulation.service.network import Network, NoAnswer
from tests.simulation.service.replica import Replica
from tests.simulation.service.server import Server
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather

FAULTS = (
    Report(code_of_xid(79)),
    Report(code_of_xid(48), gpus=(1,)),
    Report(code_of_xid(31), gpus=(0, 1)),
    Report(CODES["rail_down"], rail=1),
)
GONE = Report(CODES["node_lost"])


@dataclass(slots=True)
class Chaos:
    """Each kind of trouble is an actor of the world around.

    Attributes:
        happened: Kind -> how often.
        is_over: The weather is fair from now on.
        ahead_s: How far any clock has ever been before the right time.
    """

    stage: Stage
    server: Server
    network: Network
    hooks: Receivers
    weather: Weather
    replicas: list[Replica]
    machines: list[Machine]
    happened: dict[str, int] = field(default_factory=dict)
    is_over: bool = False
    ahead_s: float = 0.0

    def begin(self) -> None:
        weather = self.weather
        for what, every_s, do in (
            ("crash", weather.crash_every, self._crash),
            ("pause", weather.pause_every, self._pause),
            ("part", weather.part_every, self._part),
            ("restart", weather.restart_every, self._restart),
            ("jump", weather.jump_every, self._jump),
            ("silence", weather.silence_every, self._silence),
            ("agent", weather.agent_every, self._agent),
            ("reboot", weather.reboot_every, self._reboot),
            ("fault", weather.fault_every, self._fault),
            ("drain", weather.drain_every, self._drain),
        ):
            if every_s:
                self.stage.spawn(f"chaos-{what}", self._now_and_then(what, every_s, do), "")

    def _now_and_then(
        self, what: str, every_s: float, do: Callable[[], None]
    ) -> Callable[[], None]:
        def work() -> None:
            while not self.is_over:
                self.stage.sleep(self.stage.rng.expovariate(1.0 / every_s))
                if not self.is_over:
                    self.count(what)
                    do()

        return work

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def end(self) -> None:
        """Fair weather: everybody is up, reaches everybody, and all clocks show the same time.

        None goes back behind what one of them has shown: what was put off by that for a minute
        would wait for as long as the clock was ahead.
        """
        self.is_over = True
        fair = Weather(latency_s=0.001, event_history=self.weather.event_history)
        self.server.weather = self.network.weather = self.hooks.weather = fair
        self.server.parted.clear()
        self.server.is_down = False
        self.network.unreachable.clear()
        for replica in self.replicas:
            self.stage.resume(replica.name)
            replica.clock.off_s = self.ahead_s
            if not replica.is_up:
                self.revive(replica)
        for machine in self.machines:
            if machine.is_off:
                machine.come_on()

    def die(self, name: str) -> None:
        """A process ends at once, and is started anew after a while. Between two turns."""
        replica = next(r for r in self.replicas if r.name == name)
        if replica.is_up:
            self.count("death")
            replica.die()
            self.stage.after(0.1 + 20.0 * self.stage.rng.random(), lambda: self.revive(replica))

    def revive(self, replica: Replica) -> None:
        if not replica.is_up and not self._is_starting(replica):
            replica.die()  # what is left of a start that failed
            replica.start()

    def _is_starting(self, replica: Replica) -> bool:
        return self.stage.is_paused(replica.name)

    def _any(self) -> Replica:
        """One of the processes; the leader more often than another."""
        leads = [r for r in self.replicas if r.is_up and r.runner.is_leading]
        if leads and self.stage.rng.random() < 0.6:
            return leads[0]
        return self.replicas[self.stage.rng.randrange(len(self.replicas))]

    def _crash(self) -> None:
        replica, rng = self._any(), self.stage.rng
        if rng.random() < 0.3 and replica.is_up:
            later_s = 0.1 + 5.0 * rng.random()

            def again() -> None:
                self.stage.after(later_s, lambda: self.revive(replica))

            replica.end(again)
        else:
            self.stage.after(0.0, lambda: self.die(replica.name))

    def _pause(self) -> None:
        replica, rng = self._any(), self.stage.rng
        for_s = rng.choice((0.5, 4.0, 15.0, 90.0)) * (0.5 + rng.random())
        self.stage.pause(replica.name)
        self.stage.after(for_s, lambda: self.stage.resume(replica.name))

    def _part(self) -> None:
        replica, rng = self._any(), self.stage.rng
        self.server.parted.add(replica.name)
        for_s = rng.choice((1.0, 10.0, 40.0)) * (0.5 + rng.random())
        self.stage.after(for_s, lambda: self.server.parted.discard(replica.name))

    def _restart(self) -> None:
        self.server.restart()
        self.server.is_down = True

        def back() -> None:
            self.server.is_down = False

        self.stage.after(15.0 * self.stage.rng.random(), back)

    def _jump(self) -> None:
        clock = self._any().clock
        clock.off_s += self.weather.jump_s * (2.0 * self.stage.rng.random() - 1.0)
        self.ahead_s = max(self.ahead_s, clock.off_s)

    def _machine(self) -> Machine:
        return self.machines[self.stage.rng.randrange(len(self.machines))]

    def _silence(self) -> None:
        name, rng = self._machine().name, self.stage.rng
        self.network.unreachable.add(name)
        for_s = rng.choice((5.0, 40.0, 150.0)) * (0.5 + rng.random())
        self.stage.after(for_s, lambda: self.network.unreachable.discard(name))

    def _agent(self) -> None:
        self._machine().start_agent()

    def _reboot(self) -> None:
        """With time enough to be missed, or without; at times somebody says that it is off."""
        machine, rng = self._machine(), self.stage.rng
        if machine.is_off:
            return
        machine.go_off()
        if rng.random() < 0.4:
            self.stage.sleep(40.0 * rng.random())
            self._ask(_while_off(machine, lambda replica: _fence(replica, machine.name)))
        self.stage.sleep(rng.choice((2.0, 60.0)) * rng.random())
        if not self.is_over:
            machine.come_on()

    def _fault(self) -> None:
        machine, rng = self._machine(), self.stage.rng
        report = FAULTS[rng.randrange(len(FAULTS))]
        if rng.random() < 0.2 and not machine.is_off:
            report = GONE
            machine.go_off()
        told = self._ask(
            _while_off(machine, lambda replica: _report(replica, machine.name, report))
            if report is GONE
            else lambda replica: _report(replica, machine.name, report)
        )
        self.stage.sleep(60.0 * rng.random())
        if machine.is_off and report is GONE:
            machine.come_on()
        if told:
            self.mend()

    def mend(self) -> None:
        """Every open fault is over, as somebody has seen to it."""

        def work(replica: Replica) -> None:
            now_s = replica.clock.now_s()
            for view in list_faults(replica.database, is_open=True).items:
                clear_fault(replica.database, view.node, view.fault.id, by="", now_s=now_s)

        self._ask(work)

    def send_again(self, delivery: str) -> None:
        """A message whose receiver failed often, and is well again, waits no longer."""
        self._ask(
            lambda replica: retry_delivery(replica.database, delivery, now_s=replica.clock.now_s())
        )

    def _drain(self) -> None:
        name, rng = self._machine().name, self.stage.rng
        in_s = rng.choice((None, 0.0, 30.0))

        def cordon(replica: Replica) -> None:
            now_s = replica.clock.now_s()
            cordon_node(replica.database, name, reason="", by="", now_s=now_s)

        def drain(replica: Replica) -> None:
            now_s = replica.clock.now_s()
            deadline = Drain(None if in_s is None else now_s + in_s)
            drain_nodes(replica.database, [name], deadline, now_s=now_s)

        self._ask(cordon if rng.random() < 0.4 else drain)
        self.stage.sleep(90.0 * rng.random())
        self.undrain(name)

    def undrain(self, name: str) -> None:
        def work(replica: Replica) -> None:
            now_s = replica.clock.now_s()
            uncordon_node(replica.database, name, now_s=now_s)
            undrain_nodes(replica.database, [name], by="", now_s=now_s)

        self._ask(work)

    def _ask(self, work: Callable[[Replica], object]) -> bool:
        with suppress(NoAnswer, StoreError, SchedulerError):
            self.network.call("operator", work)
            return True
        return False


def _fence(replica: Replica, node: str) -> None:
    now_s = replica.clock.now_s()
    fence_node(replica.database, node, reason="its power is off", by="somebody", now_s=now_s)


def _report(replica: Replica, node: str, report: Report) -> None:
    report_fault(replica.database, node, report, now_s=replica.clock.now_s())


def _while_off(machine: Machine, work: Callable[[Replica], None]) -> Callable[[Replica], None]:
    """What is said of a machine without power is not said late, of its next life."""

    def do(replica: Replica) -> None:
        if not machine.is_off:
            return
        machine.said_gone += 1
        try:
            work(replica)
        finally:
            machine.said_gone -= 1

    return do
