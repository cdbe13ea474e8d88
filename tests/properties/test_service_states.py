"""Any order of submits, reports, cancels, faults, drains, crashes and restarts keeps promises."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from api.clock import ManualClock
from api.loop import runner as runner_module
from api.loop.replay import replay_all
from api.loop.runner import Runner
from api.store.checkpoints import Checkpoint, save_checkpoint
from api.store.control import control_job
from api.store.decisions import DecisionLog
from api.store.drains import drain_nodes, fence_node, undrain_nodes
from api.store.engine import Database, Transaction
from api.store.errors import Conflict, NotFound
from api.store.fault_reports import Report, report_fault
from api.store.faults import clear_fault, list_faults
from api.store.jobs import cancel_job, list_jobs, submit_job
from api.store.ledger import audit_ledger
from api.store.nodes import (
    cordon_node,
    get_node,
    import_inventory,
    list_nodes,
    uncordon_node,
)
from api.store.pods import list_pods, report_pod
from api.store.policy import get_policy, put_policy
from api.store.schema import open_database
from api.store.snapshot import load_world
from api.store.standing import set_agent, set_health, standing_of
from api.store.views import IdempotencyKey
from api.store.windows import create_window, delete_window
from scheduler.cluster.world import World
from scheduler.errors import SchedulerError, StateError
from scheduler.model.claim import Window
from scheduler.model.ids import NodeId
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Parts, Role, Rule, Scope
from scheduler.model.lifecycle import FINAL, JobState, PodState
from scheduler.model.node import Health
from scheduler.model.plan import FactKind, Plan
from scheduler.model.standing import Drain
from scheduler.policy import Policy
from scheduler.recover.codes import CODES, code_of_xid
from tests.api.store.build import NOW_S
from tests.api.store.test_snapshot import same
from tests.builders import make_inventory
from tests.checks import Seen, broken_promises

Databases = Callable[[], AbstractContextManager[str]]

NODES, RACKS = 6, 3
NAMES = [f"j{number}" for number in range(6)]
CONTROL = [
    FactKind.HOLD,
    FactKind.RELEASE,
    FactKind.SUSPEND,
    FactKind.RESUME,
    FactKind.REQUEUE,
]
PLANNED = frozenset({JobState.RESERVED, JobState.EVICTING, JobState.SUSPENDED})
FAULTS = [
    Report(CODES["node_lost"]),
    Report(code_of_xid(79)),
    Report(code_of_xid(48), gpus=(1,)),
    Report(code_of_xid(31), gpus=(0, 1)),
    Report(CODES["rail_down"], rail=1),
]
STATES = [PodState.RUNNING, PodState.SUCCEEDED, PodState.FAILED, PodState.STOPPED]


class _KilledError(BaseException):
    """The process ends here."""


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """Small gangs that fill a cluster of six nodes soon."""
    name, priority = draw(st.sampled_from(NAMES)), draw(st.integers(0, 2))
    restarts = draw(st.integers(0, 2))
    scope = draw(st.sampled_from(list(Scope)))
    duration_s = draw(st.sampled_from([None, None, 300.0, 3600.0]))
    limit_s = draw(st.sampled_from([None, None, 900.0])) if duration_s else None
    spec = JobSpec(name=name, priority=priority, duration_s=duration_s, time_limit_s=limit_s)
    failure = replace(spec.failure, max_restarts=restarts, scope=scope)
    spec = replace(spec, failure=failure, spares=draw(st.sampled_from([0, 0, 0, 1])))
    mode = draw(st.sampled_from([Mode.REQUIRED, Mode.PREFERRED]))
    rules = (Rule("job", "rack", mode),) if draw(st.booleans()) else ()
    if draw(st.booleans()):
        sizes = ParallelSizes(tp=draw(st.sampled_from([4, 8])), dp=draw(st.integers(1, 4)))
        return replace(spec, parallelism=sizes, rules=rules)
    if draw(st.booleans()):
        role = Role("m", 4, 2, gpus=4, parts=Parts(size=2, count=2, min=1))
    else:
        replicas = draw(st.integers(1, 4))
        role = Role("m", replicas, draw(st.integers(1, replicas)), gpus=draw(st.integers(1, 8)))
    return replace(spec, roles=(role,), rules=rules)


class ServiceStates(RuleBasedStateMachine):
    """The store and the runner of one service, without HTTP; the checker looks after each step."""

    databases: Databases

    def __init__(self) -> None:
        super().__init__()
        self.place = self.databases()
        self.url = self.place.__enter__()
        self.seen = Seen(evicting=set())
        self.keys = 0
        self.clock = ManualClock(NOW_S)
        self.database: Database
        self.runner: Runner
        self.start()
        self.load(NODES, prune=False, racks=RACKS)

    def start(self) -> None:
        self.database = open_database(self.url)
        log = DecisionLog(self.database, keep=40, keep_bytes=1 << 20)
        self.runner = Runner(self.database, self.clock, decisions=log)

    def teardown(self) -> None:
        try:
            self.settle()
            for done in replay_all(self.database):
                assert done.differences == (), done
            self.runner.stop()
        finally:
            self.database.close()
            self.place.__exit__(None, None, None)

    @invariant()
    def promises_are_kept(self) -> None:
        assert broken_promises(self.url, self.seen) == []

    @rule(spec=specs(), again=st.booleans())
    def submit(self, spec: JobSpec, again: bool) -> None:
        """At times twice, as a client does that had no answer."""
        self.keys += 1
        key = IdempotencyKey("someone", "default", f"k{self.keys}", "hash")
        for _ in range(1 + again):
            try:
                job, _ = submit_job(self.database, spec, {}, now_s=NOW_S, idempotency=key)
            except Conflict:
                return
            self.seen.jobs.add(job.uid)
            self.seen.keys[key.key].add(job.uid)

    @rule(name=st.sampled_from(NAMES), times=st.integers(1, 2))
    def cancel(self, name: str, times: int) -> None:
        """The second time deletes the record of a job that has ended."""
        for _ in range(times):
            try:
                job = cancel_job(self.database, "default", name, now_s=NOW_S)
            except (NotFound, Conflict):
                return
            if job.state in FINAL:
                self.seen.ended[job.uid] = job.state.value

    @rule(number=st.integers(0, 5), times=st.integers(1, 2))
    def withdraw(self, number: int, times: int) -> None:
        """Cancel one that waits, as its owner has lost patience."""
        waiting = list_jobs(self.database, state=JobState.PENDING).items
        if waiting:
            self.cancel(waiting[number % len(waiting)].name, times)

    @rule(spec=specs())
    def demand(self, spec: JobSpec) -> None:
        """More than there is, so that some wait."""
        role = Role("m", NODES - 1, NODES - 1, gpus=8)
        self.submit(replace(spec, parallelism=None, roles=(role,), rules=()), False)
        self.turn()

    @rule(number=st.integers(0, 30), state=st.sampled_from(STATES))
    def report(self, number: int, state: PodState) -> None:
        pods = list_pods(self.database).items
        if not pods:
            return
        pod = pods[number % len(pods)]
        code = {PodState.SUCCEEDED: 0, PodState.FAILED: 1}.get(state)
        try:
            report_pod(
                self.database,
                pod.namespace,
                pod.name,
                attempt=pod.attempt,
                state=state,
                exit_code=code,
                now_s=NOW_S,
            )
        except (NotFound, Conflict):
            return

    @rule(state=st.sampled_from(STATES[:2]))
    def report_all(self, state: PodState) -> None:
        for number in range(len(list_pods(self.database).items)):
            self.report(number, state)

    @rule(number=st.integers(1, NODES), usable=st.booleans())
    def cordon(self, number: int, usable: bool) -> None:
        name = f"n{number:03d}"
        try:
            if usable:
                uncordon_node(self.database, name, now_s=NOW_S)
            else:
                cordon_node(self.database, name, reason="", by="", now_s=NOW_S)
        except NotFound:
            return

    @rule(
        nodes=st.sampled_from([3, NODES, NODES + 3]),
        prune=st.booleans(),
        racks=st.sampled_from([1, RACKS]),
    )
    def load(self, nodes: int, prune: bool, racks: int) -> None:
        """Nodes come, move between racks, or go unless they hold a pod."""
        sizes = {"block": 1, "leaf": 1, "rack": racks, "node": nodes // racks}
        inventory = make_inventory(sizes)
        import_inventory(self.database, inventory, prune=prune, dry_run=False, now_s=NOW_S)

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(CONTROL))
    def control(self, name: str, kind: FactKind) -> None:
        with suppress(NotFound, StateError):
            control_job(self.database, "default", name, kind, now_s=self.clock.now_s())

    @rule(number=st.integers(0, 5), kind=st.sampled_from(CONTROL))
    def control_one_in_its_place(self, number: int, kind: FactKind) -> None:
        """What is asked of those that run, or are about to, is what has most to undo."""
        placed = [j for j in list_jobs(self.database).items if j.live or j.state in PLANNED]
        if placed:
            self.control(placed[number % len(placed)].name, kind)

    @rule(name=st.sampled_from(NAMES), step=st.integers(0, 5))
    def save(self, name: str, step: int) -> None:
        checkpoint = Checkpoint(step, f"s3://b/{step}")
        with suppress(NotFound, StateError, Conflict):
            save_checkpoint(self.database, "default", name, checkpoint, now_s=self.clock.now_s())

    @rule(number=st.integers(0, 30), one=st.booleans())
    def stop_those_that_leave(self, number: int, one: bool) -> None:
        """All pods that were told to stop do so, or one of them."""
        leaving = [p for p in list_pods(self.database).items if p.state is PodState.TERMINATING]
        if leaving and one:
            leaving = [leaving[number % len(leaving)]]
        for pod in leaving:
            with suppress(Conflict):  # something else was reported already
                report_pod(
                    self.database,
                    pod.namespace,
                    pod.name,
                    attempt=pod.attempt,
                    state=PodState.STOPPED,
                    exit_code=None,
                    now_s=self.clock.now_s(),
                )

    @rule(spec=specs(), priority=st.integers(3, 9))
    def press(self, spec: JobSpec, priority: int) -> None:
        """One that comes before all who are there."""
        self.submit(replace(spec, priority=priority), False)
        self.turn()

    @rule(
        name=st.sampled_from(["w1", "w2"]),
        nodes=st.sets(st.integers(1, NODES), min_size=1, max_size=3),
        starts_in_s=st.sampled_from([0.0, 300.0, 2_000.0]),
        lasts_s=st.sampled_from([100.0, 1_000.0]),
    )
    def reserve(self, name: str, nodes: set[int], starts_in_s: float, lasts_s: float) -> None:
        """People want some nodes for a time."""
        now_s = self.clock.now_s()
        names = tuple(NodeId(f"n{number:03d}") for number in sorted(nodes))
        window = Window(name, names, now_s + starts_in_s, now_s + starts_in_s + lasts_s)
        with suppress(Conflict, SchedulerError):
            create_window(self.database, window, now_s=now_s)

    @rule(name=st.sampled_from(["w1", "w2"]))
    def withdraw_window(self, name: str) -> None:
        with suppress(NotFound):
            delete_window(self.database, name, now_s=self.clock.now_s())

    @rule(number=st.integers(1, NODES), what=st.sampled_from(FAULTS))
    def fail(self, number: int, what: Report) -> None:
        """A machine, or a part of it, fails."""
        with suppress(NotFound):
            report_fault(self.database, f"n{number:03d}", what, now_s=self.clock.now_s())

    @rule(numbers=st.sets(st.integers(1, NODES), min_size=2, max_size=3))
    def fail_together(self, numbers: set[int]) -> None:
        """Several machines in the same moment, and the leader sees them all at once."""
        for number in sorted(numbers):
            self.fail(number, FAULTS[0])
        self.turn()

    @rule(share=st.sampled_from([0.2, 1.0, 1.0]), at_once=st.booleans())
    def set_breaker(self, share: float, at_once: bool) -> None:
        """How much may fail at once; or what failed until now does not count."""
        now_s = self.clock.now_s()
        known = get_policy(self.database) | {"breaker_share": share}
        if at_once:
            known["breaker_reset_s"] = now_s
        put_policy(self.database, known, now_s=now_s)

    @rule(number=st.integers(0, 9))
    def mend(self, number: int) -> None:
        """One of the open faults is over."""
        found = list_faults(self.database, is_open=True).items
        if found:
            view = found[number % len(found)]
            now_s = self.clock.now_s()
            clear_fault(self.database, view.node, view.fault.id, by="", now_s=now_s)

    @rule(number=st.integers(1, NODES), in_s=st.sampled_from([None, 0.0, 300.0]))
    def drain(self, number: int, in_s: float | None) -> None:
        now_s = self.clock.now_s()
        drain = Drain(None if in_s is None else now_s + in_s)
        with suppress(NotFound):
            drain_nodes(self.database, [f"n{number:03d}"], drain, now_s=now_s)

    @rule()
    def undrain(self) -> None:
        """All of them, whoever drained them."""
        names = [node.name for node in list_nodes(self.database).items if node.drain is not None]
        undrain_nodes(self.database, names, by="", now_s=self.clock.now_s())

    @rule(number=st.integers(1, NODES))
    def fence(self, number: int) -> None:
        with suppress(NotFound, StateError):
            fence_node(self.database, f"n{number:03d}", reason="", by="", now_s=self.clock.now_s())

    @rule(number=st.integers(1, NODES), to=st.sampled_from([Health.SUSPECT, Health.LOST]))
    def fall_silent(self, number: int, to: Health) -> None:
        """The agent of a node is not heard any more."""

        def work(tx: Transaction) -> None:
            set_agent(tx, f"n{number:03d}")
            if not standing_of(tx.connection, f"n{number:03d}").faults:
                set_health(tx, f"n{number:03d}", to, "its agent is silent")

        with suppress(NotFound):
            self.database.grouped(work, self.clock.now_s())

    @rule(number=st.integers(1, NODES), runs_on=st.booleans())
    def speak_again(self, number: int, runs_on: bool) -> None:
        """It is heard, with the pods that were there or without them."""
        name = f"n{number:03d}"
        with suppress(NotFound):
            node = get_node(self.database, name)
            if node.health in {Health.SUSPECT, Health.LOST} and not node.standing.faults:
                self.database.grouped(
                    lambda tx: set_health(tx, name, Health.HEALTHY, ""), self.clock.now_s()
                )
        for pod in list_pods(self.database, node=name).items:
            if pod.state is PodState.LOST:
                with suppress(Conflict):
                    report_pod(
                        self.database,
                        pod.namespace,
                        pod.name,
                        attempt=pod.attempt,
                        state=PodState.RUNNING if runs_on else PodState.STOPPED,
                        exit_code=None,
                        now_s=self.clock.now_s(),
                    )

    @rule()
    def turn(self) -> None:
        self.runner.turn()

    @rule()
    def settle(self) -> None:
        """Let the runner decide until there is nothing left to decide."""
        for _ in range(20):
            # On a busy machine a step may take longer than a leader may be silent: it leads anew.
            if not self.runner.turn() and self.runner._known is not None:
                break
        else:
            raise AssertionError("the runner does not come to rest")
        assert audit_ledger(self.database).is_clean
        known = self.runner._known
        assert known is not None
        assert same(known.world, load_world(self.database))

    @rule(seconds=st.sampled_from([1.0, 600.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def restart(self) -> None:
        self.runner.stop()
        self.database.close()
        self.start()

    @rule()
    def crash_between_decision_and_commit(self) -> None:
        """What was decided is lost; what was in memory too."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runner_module, "run_cycle", _decide_and_die)
            with suppress(_KilledError):
                self.runner.turn()
        # The system frees the locks of a process that ends.
        self.restart()


def _decide_and_die(_world: World, _policy: Policy, _now_s: float) -> Plan:
    raise _KilledError


@pytest.fixture
def databases(database_kind: str, request: pytest.FixtureRequest) -> Databases:
    """Makes a fresh migrated database for each example."""
    if database_kind == "postgresql":
        lend = request.getfixturevalue("postgresql_pool").lend
        assert callable(lend)
        return lambda: lend()
    template: Path = request.getfixturevalue("sqlite_template")

    @contextmanager
    def copied() -> Iterator[str]:
        with TemporaryDirectory() as folder:
            shutil.copyfile(template, Path(folder, "podyard.db"))
            yield f"sqlite:///{folder}/podyard.db"

    return copied


def run(databases: Databases, examples: int, steps: int) -> None:
    machine = type("Machine", (ServiceStates,), {"databases": staticmethod(databases)})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_promises_are_kept_after_every_step(databases: Databases) -> None:
    run(databases, examples=8, steps=25)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_promises_are_kept_after_every_step_of_long_histories(databases: Databases) -> None:
    run(databases, examples=150, steps=100)
