"""A process that stands by knows the cluster; one that goes silent leaves nothing locked."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from api.clock import ManualClock
from api.loop import leader as leader_module
from api.loop import runner as module
from api.loop.leader import Leader
from api.loop.replay import replay_all
from api.loop.runner import Runner
from api.store import epoch as epoch_module
from api.store.connect import process_name, session_name
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.epoch import LeaderSession
from api.store.jobs import get_job
from api.store.listen import ALIVE
from api.store.schema import open_database
from scheduler.model.lifecycle import JobState
from tests.api.loop.turns import settle
from tests.api.store.build import NOW_S, load_cluster, make_spec, submit
from tests.crash.service import until

of_postgresql = pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)


def make_runner(database: Database) -> Runner:
    log = DecisionLog(database, keep=100, keep_bytes=1 << 20)
    return Runner(database, ManualClock(NOW_S), decisions=log)


def _leads(runner: Runner) -> bool:
    """Whether it does after a turn; the system may take a moment to see a session end."""
    runner.turn()
    return runner.is_leading


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database as another process has it."""
    with closing(open_database(database_url)) as opened:
        yield opened


@pytest.fixture
def runners(database: Database, other: Database) -> Iterator[tuple[Runner, Runner]]:
    """The first leads, the second stands by."""
    load_cluster(database)
    first, second = make_runner(database), make_runner(other)
    settle(first)
    assert not second.turn()
    yield first, second
    first.stop()
    second.stop()


def test_whoever_stands_by_takes_over_without_reading_it_all(
    database: Database, runners: tuple[Runner, Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("the world was read anew")

    first, second = runners
    monkeypatch.setattr(module, "load_snapshot", refuse)
    for number in range(3):
        submit(database, make_spec(f"a{number}", replicas=1))
        settle(first)
        assert not second.turn()
        assert second.stats.revision == database.notifier.known
    first.stop()
    submit(database, make_spec("b", replicas=1))
    until(lambda: _leads(second), "the other leads")
    settle(second)
    assert get_job(database, "default", "b").state is JobState.BOUND


def test_decisions_of_whoever_took_over_can_be_made_again(
    database: Database, runners: tuple[Runner, Runner]
) -> None:
    """Also of one that led, stood by for a while, and leads again."""
    leading, standing = runners
    for number in range(5):
        submit(database, make_spec(f"a{number}", replicas=1))
        settle(leading)
        standing.turn()
        leading._leader.step_down()
        until(partial(_leads, standing), "the other leads")
        settle(standing)
        leading.turn()
        leading, standing = standing, leading
    done = list(replay_all(database))
    assert len(done) == 5
    assert [d.differences for d in done if d.differences] == []


def test_first_cycle_of_a_new_leader_comes_though_nothing_changed(
    runners: tuple[Runner, Runner],
) -> None:
    first, second = runners
    first.stop()
    cycles = second.stats.cycles
    until(lambda: _leads(second), "the other leads")
    assert second.stats.cycles > cycles


@of_postgresql
def test_transaction_of_a_silent_leader_is_ended_by_whoever_takes_over(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock of all writes, as if its process had been stopped in the middle."""
    monkeypatch.setattr(leader_module, "BEAT_S", 1000.0)
    first = Leader(database, process_name(), lambda: NOW_S)
    second = Leader(other, "two", lambda: NOW_S)
    assert first.try_lead()
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE leader SET seen_at = seen_at - 60"))

    def write_late() -> None:
        with database.write(NOW_S) as tx:
            assert second.try_lead()
            tx.connection.execute(sa.text("SELECT 1"))

    with pytest.raises(DBAPIError, match="terminat"):
        write_late()
    assert second.epoch == 2
    submit(database, "a")
    monkeypatch.setattr(leader_module, "BEAT_S", 0.01)
    first.step_down()
    second.step_down()


@of_postgresql
def test_transaction_that_does_nothing_and_holds_others_up_is_ended(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_module, "STUCK_S", 0.0)
    waiting = threading.Thread(target=lambda: submit(other, "a"))

    def hold_up() -> None:
        with LeaderSession(other) as session, database.write(NOW_S) as tx:
            assert session.end_stuck() == 0, "nobody waits for it"
            waiting.start()
            until(lambda: session.end_stuck() == 1, "the one that waits is helped")
            tx.connection.execute(sa.text("SELECT 1"))

    with pytest.raises(DBAPIError, match="terminat"):
        hold_up()
    waiting.join(30)
    assert get_job(database, "default", "a").name == "a"


@of_postgresql
def test_transaction_of_a_process_that_is_gone_is_ended_sooner(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose process still asks something every second may take its time."""
    monkeypatch.setattr(epoch_module, "GONE_S", 1.0)
    url = sa.make_url(database_url).set(drivername="postgresql")
    plain = partial(psycopg.connect, url.render_as_string(hide_password=False))
    name = session_name("elsewhere:1")
    waiting = threading.Thread(target=lambda: submit(database, "a"))
    with (
        LeaderSession(database) as session,
        plain(application_name=name, autocommit=True) as listens,
        plain(application_name=name) as writes,
    ):
        writes.execute("SELECT revision FROM counter WHERE id = 1 FOR UPDATE")
        began = time.monotonic()
        waiting.start()
        while time.monotonic() - began < 2.0:
            listens.execute(ALIVE)
            assert session.end_stuck() == 0, "its process lives"
        until(lambda: session.end_stuck() == 1, "its process is gone")
        assert time.monotonic() - began < epoch_module.STUCK_S
        waiting.join(30)
        with pytest.raises(psycopg.OperationalError):
            writes.execute("SELECT 1")
    assert get_job(database, "default", "a").name == "a"
