"""At most one leads; a crashed or silent one is replaced; a deposed one knows it soon."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from api.loop import leader as module
from api.loop.leader import Leader
from api.store.engine import Database
from api.store.epoch import LeaderSession, read_leader, take_epoch
from api.store.events import list_events
from api.store.schema import open_database
from tests.api.store.build import NOW_S
from tests.crash.service import until


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The database as another process has it."""
    with closing(open_database(database_url)) as opened:
        yield opened


@pytest.fixture
def leaders(database: Database, other: Database) -> Iterator[tuple[Leader, Leader]]:
    pair = (Leader(database, "one", lambda: NOW_S), Leader(other, "two", lambda: NOW_S))
    yield pair
    for leader in pair:
        leader.step_down()


def test_first_leads_and_the_second_stands_by(leaders: tuple[Leader, Leader]) -> None:
    first, second = leaders
    assert first.try_lead()
    assert first.try_lead()
    assert not second.try_lead()
    assert (first.epoch, second.epoch) == (1, None)


def test_next_leader_has_a_later_epoch(database: Database, leaders: tuple[Leader, Leader]) -> None:
    first, second = leaders
    assert first.try_lead()
    first.step_down()
    assert second.try_lead()
    assert second.epoch == 2
    standing = read_leader(database)
    assert (standing.epoch, standing.holder) == (2, "two")
    assert 0 <= standing.silent_s < 60
    begun = [(e.kind, e.name, e.body) for e in list_events(database, 0).items]
    assert begun == [
        ("leader.began", "one", {"epoch": 1}),
        ("leader.began", "two", {"epoch": 2}),
    ]


def test_epoch_is_begun_by_one_alone(database: Database, other: Database) -> None:
    assert take_epoch(database, 0, "one", now_s=NOW_S) == 1
    assert take_epoch(other, 0, "two", now_s=NOW_S) is None
    assert read_leader(database).holder == "one"


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_leader_whose_session_ends_is_replaced_at_once(
    database: Database, leaders: tuple[Leader, Leader]
) -> None:
    first, second = leaders
    assert first.try_lead()
    with database.engine.begin() as connection:
        query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        connection.execute(sa.text(query)).all()
    until(second.try_lead, "the session has ended, and the other leads")
    assert second.epoch == 2


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_silent_leader_is_deposed_though_its_session_lives(
    database: Database, leaders: tuple[Leader, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 1000.0)
    first, second = leaders
    assert first.try_lead()
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE leader SET seen_at = seen_at - 2.0"))
    assert not second.try_lead()
    with database.write_quietly() as connection:
        connection.execute(sa.text("UPDATE leader SET seen_at = seen_at - 1"))
    assert second.try_lead()
    assert (first.epoch, second.epoch) == (1, 2)
    monkeypatch.setattr(module, "BEAT_S", 0.01)


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_deposed_leader_notices_with_its_next_sign_of_life(
    database: Database, leaders: tuple[Leader, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    first, _ = leaders
    assert first.try_lead()
    assert take_epoch(database, 1, "another", now_s=NOW_S) == 2
    thread = next(t for t in threading.enumerate() if t.name == "podyard-leader")
    thread.join(10)
    assert first.epoch is None


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_sign_of_life_is_of_an_epoch(database: Database) -> None:
    with LeaderSession(database) as session:
        assert session.beat(0)
        assert not session.beat(1)
        assert session.try_lock(7)
        with LeaderSession(database) as rival:
            assert not rival.try_lock(7)
            session.unlock(7)
            assert rival.try_lock(7)


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_leader_whose_session_is_cut_notices_and_may_lead_again(
    database: Database, leaders: tuple[Leader, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    first, _ = leaders
    assert first.try_lead()
    thread = next(t for t in threading.enumerate() if t.name == "podyard-leader")
    with database.engine.begin() as connection:
        query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        connection.execute(sa.text(query)).all()
    thread.join(10)
    assert first.epoch is None
    assert first.try_lead()
    assert first.epoch == 2


def test_candidate_that_comes_too_late_does_not_lead(
    database: Database, leaders: tuple[Leader, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another begins the epoch between the candidate's look and its claim."""

    def late(db: Database, after: int, holder: str, *, now_s: float) -> int | None:
        assert take_epoch(db, after, "another", now_s=now_s) == 1
        return take_epoch(db, after, holder, now_s=now_s)

    monkeypatch.setattr(module, "take_epoch", late)
    first, _ = leaders
    assert not first.try_lead()
    assert read_leader(database).holder == "another"
    monkeypatch.undo()
    assert first.try_lead()
    assert first.epoch == 2
