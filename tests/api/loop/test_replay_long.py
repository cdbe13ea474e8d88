"""A long history of everything that happens in a yard, and all its decisions made again."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.clock import ManualClock
from api.command import app
from api.loop.promised import promised_by_log
from api.loop.replay import Replayed, replay_all
from api.loop.runner import Runner
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.ledger import audit_ledger
from api.store.schema import open_database
from api.store.tables import decisions
from scheduler.model.claim import ClaimWhy
from scheduler.model.lifecycle import JobState
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.loop.workload import Workload

AT_MOST = 60
"""Turns after one thing was done; more would be a runner that never comes to rest."""


@contextmanager
def busy_yard(database: Database, contract: Contract) -> Iterator[tuple[Yard, Runner]]:
    """A service whose runner decides when the test says so, with a log that keeps everything."""
    clock = ManualClock()
    runner = Runner(
        database, clock, decisions=DecisionLog(database, keep=4_000, keep_bytes=1 << 28)
    )
    with Yard(database, contract, clock) as yard:
        try:
            yield yard, runner
        finally:
            runner.stop()


def live_through(
    yard: Yard, runner: Runner, seed: int, decided: int, looks: float = 0.0
) -> Workload:
    """Let things happen until so many decisions are in the log; `looks`: share audited after."""
    workload = Workload(yard, seed)
    workload.begin()
    while _logged(yard.database) < decided:
        for _ in range(workload.chance.randint(1, 2)):
            workload.step()
        for _ in range(AT_MOST):
            if not runner.turn():
                break
        else:
            raise AssertionError("the runner does not come to rest")
        if workload.chance.random() < looks:
            # What the log promised is what is there, at any time.
            assert audit_ledger(yard.database, promised_by_log(yard.database)).lines == ()
    return workload


def _logged(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(sa.select(sa.func.count(decisions.c.step))).scalar_one()


def test_what_a_busy_yard_decided_is_decided_again_identically(
    database: Database, contract: Contract
) -> None:
    with busy_yard(database, contract) as (yard, runner):
        live_through(yard, runner, seed=7, decided=60, looks=0.3)
    done = list(replay_all(database))
    assert [d.differences for d in done] == [()] * len(done)
    assert len(done) >= 60


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_thousand_decisions_of_every_kind_are_all_identical(
    database_url: str, contract: Contract
) -> None:
    with closing(open_database(database_url)) as database:
        with busy_yard(database, contract) as (yard, runner):
            workload = live_through(yard, runner, seed=2026, decided=1_000, looks=0.02)
        done = list(replay_all(database))
    assert [str(d) for d in done if d.differences] == []
    assert len(done) >= 1_000
    assert kinds_decided(done) == KINDS
    assert min(workload.done.values()) >= 5
    cli = CliRunner()
    said = cli.invoke(app, ["replay", "--database-url", database_url])
    assert (said.exit_code, said.output) == (0, f"{len(done)} decisions, {len(done)} identical\n")
    other = cli.invoke(app, ["replay", "--database-url", database_url, "--set", "paused=true"])
    assert other.exit_code == 1
    assert "not there then" not in other.output.splitlines()[-1]
    assert "now not there" in other.output


KINDS = {
    "placed",
    "preempted",
    "reserved",
    "recovering",
    "recovered",
    "spare",
    "window",
    "drained",
    "failed",
    "succeeded",
    "cancelled",
    "suspended",
    "waits",
}
"""What the long history must have in it, or it would show little."""


def kinds_decided(done: list[Replayed]) -> set[str]:
    """What was decided at least once."""
    found: set[str] = set()
    for decision in (one.decision for one in done):
        plan = decision.plan
        found |= {"placed"} if plan.pods else set()
        whys = {claim.why for claim in plan.claims}
        found |= {word for why, word in _CLAIMS.items() if why in whys}
        for move in plan.job_moves:
            found |= {_STATES[move.state]} if move.state in _STATES else set()
            found |= {"waits"} if move.verdict is not None else set()
            if move.evict is not None and "drain" in move.evict.why:
                found.add("drained")
        if any(pod.attempt > 1 for pod in plan.pods):
            found.add("recovered")
    return found


_CLAIMS = {
    ClaimWhy.PREEMPTION: "preempted",
    ClaimWhy.RESERVATION: "reserved",
    ClaimWhy.SPARE: "spare",
    ClaimWhy.MAINTENANCE: "window",
}
_STATES = {
    JobState.RECOVERING: "recovering",
    JobState.FAILED: "failed",
    JobState.SUCCEEDED: "succeeded",
    JobState.CANCELLED: "cancelled",
    JobState.SUSPENDED: "suspended",
}
