"""Gangs whose members run, end well or crash by chance, in any order: no turn of the loop fails."""

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from api.store.errors import NotFound, StoreError
from api.store.jobs import cancel_job, submit_job
from api.store.ledger import audit_ledger
from api.store.pods import pods_of, report_pod
from scheduler.errors import SchedulerError
from scheduler.model.job import JobSpec, Role, Scope
from scheduler.model.lifecycle import LIVE_POD, PodState
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster
from tests.checks import broken_promises

STEPS = 60

ENDS = {PodState.SUCCEEDED: 0, PodState.FAILED: 1}
STATES = (
    PodState.RUNNING,
    PodState.RUNNING,
    PodState.SUCCEEDED,
    PodState.SUCCEEDED,
    PodState.FAILED,
)

FOUND = (12, 23, 135)
"""Seeds that once made a turn fail: gangs back from the line whose minimum was done already, and
gangs that hold a place but of whom nobody is left to be evicted."""


class Drive:
    """A cluster of four nodes, and steps by chance."""

    def __init__(self, database: Database, seed: int) -> None:
        load_cluster(database, 4)
        self._database = database
        self._chance = Random(seed)
        self._clock = ManualClock(NOW_S)
        self.runner = Runner(database, self._clock)
        self._uids: dict[str, str] = {}

    def run(self) -> None:
        for number in range(5):
            self._submit(f"j{number}")
        settle(self.runner)
        for number in range(STEPS):
            self._step(number)
            if self._chance.random() < 0.7:
                settle(self.runner)

    def _step(self, number: int) -> None:
        chance = self._chance.random()
        if chance < 0.1:
            self._submit(f"k{number}")
        elif chance < 0.2:
            self._clock.advance(self._chance.choice([0.3, 1.0, 5.0, 10.0, 20.0, 40.0]))
        elif chance < 0.24:
            name = self._chance.choice(list(self._uids))
            with suppress(NotFound):  # cancelled before, and gone
                cancel_job(self._database, "default", name, now_s=self._clock.now_s())
        else:
            self._report(self._uids[self._chance.choice(list(self._uids))])

    def _submit(self, name: str) -> None:
        chance = self._chance
        if chance.random() < 0.6:
            role, scope = Role("m", 4, 2, gpus=4), chance.choice(["pod", "gang", "pod_else_gang"])
        else:
            role, scope = Role("m", 1, 1, gpus=chance.choice([1, 2, 4])), "gang"
        spec = JobSpec(name=name, roles=(role,), priority=chance.randint(0, 3))
        failure = replace(spec.failure, scope=Scope(scope), max_restarts=10)
        spec = replace(spec, failure=failure)
        made = submit_job(self._database, spec, {"name": name}, now_s=self._clock.now_s())
        self._uids[name] = made[0].uid

    def _report(self, uid: str) -> None:
        live = [pod for pod in pods_of(self._database, uid) if pod.state in LIVE_POD]
        if not live:
            return
        pod = self._chance.choice(live)
        is_leaving = pod.state is PodState.TERMINATING
        state = PodState.STOPPED if is_leaving else self._chance.choice(STATES)
        try:
            report_pod(
                self._database, "default", pod.name, attempt=pod.attempt, state=state,
                exit_code=ENDS.get(state), now_s=self._clock.now_s(),
            )  # fmt: skip
        except (StoreError, SchedulerError):
            return  # said already


def drive(database: Database, seed: int) -> None:
    made = Drive(database, seed)
    try:
        made.run()
    finally:
        made.runner.stop()
    assert audit_ledger(database).is_clean
    assert broken_promises(database.url) == []


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", FOUND)
def test_turns_go_on_whatever_members_report(database: Database, seed: int) -> None:
    drive(database, seed)


@pytest.mark.slow
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", range(1_000, 1_400))
def test_turns_go_on_whatever_members_report_of_many_seeds(database: Database, seed: int) -> None:
    drive(database, seed)
