"""Connections to PostgreSQL: how many, what they are called, and when one is given up."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from api.problems import kind_of
from api.store import connect
from api.store.connect import lone_engine, open_engine, process_name, session_name
from api.store.engine import Database
from api.store.events import current_revision
from tests.api.store.build import submit

of_postgresql = pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)


@pytest.fixture
def few(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """An engine of five connections that waits for none."""
    monkeypatch.setattr(connect, "POOL_WAIT_S", 0.01)
    engine = open_engine(database_url, 5)
    yield engine
    engine.dispose()


@of_postgresql
def test_no_more_connections_are_opened_than_are_set(few: sa.Engine) -> None:
    with ExitStack() as held:
        for _ in range(5):
            held.enter_context(few.connect())
        with pytest.raises(PoolTimeoutError) as caught:
            few.connect()
        assert (kind_of(caught.value).status, kind_of(caught.value).slug) == (503, "busy")
        with closing(lone_engine(few).connect()) as alone:
            assert alone.execute(sa.text("SELECT 1")).scalar_one() == 1
    with few.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1


@of_postgresql
def test_sessions_are_called_by_their_process(few: sa.Engine) -> None:
    query = sa.text("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    with few.connect() as connection:
        assert connection.execute(query).scalar_one() == session_name(process_name())


def test_long_name_keeps_the_end_that_tells_replicas_apart() -> None:
    one, two = (session_name(f"{'podyard-in-a-long-name-' * 4}{n}:1") for n in (1, 2))
    assert one != two
    assert len(one) == len(two) == connect.NAME_MAX


@of_postgresql
def test_connection_to_a_server_that_takes_no_writes_is_given_up(database: Database) -> None:
    """As after a failover behind one address: it leads to what is a standby by now."""
    current_revision(database)  # who reads says so, and leaves nothing of it to who writes
    with database.engine.connect() as connection:
        connection.execute(sa.text("SET default_transaction_read_only = on"))
        connection.commit()
        process = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    with pytest.raises(DBAPIError, match="read-only") as caught:
        submit(database, "a")
    assert kind_of(caught.value).status == 503
    submit(database, "a")
    with database.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() != process
