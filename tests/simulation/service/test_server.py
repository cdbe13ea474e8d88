"""What the database of a play does to those who hold others up."""

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from tests.simulation.service.server import Server, database_of
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather

PROCESS = "podyard-0"
SLOW = Weather(latency_s=1.0, pause_in_write=1.0)
"""Each statement and each commit is on its way for a while, in which the server may start anew."""


def insert(connection: Connection, number: int) -> None:
    connection.execute(sa.text(f"INSERT INTO facts VALUES ({number})"))


def write_more(connection: Connection) -> None:
    insert(connection, 2)


def write_nothing_more(connection: Connection) -> None:
    """The first that its owner hears of it is that the commit fails."""


@pytest.mark.parametrize("goes_on", [write_more, write_nothing_more])
def test_transaction_that_the_server_has_ended_writes_nothing_more(
    tmp_path: Path, goes_on: Callable[[Connection], None]
) -> None:
    stage = Stage(1)
    server = Server(stage, str(tmp_path / "play.db"), Weather(latency_s=0.0))
    database = database_of(server.engine(PROCESS))
    told: list[str] = []

    def write() -> None:
        with database.write_quietly() as connection:
            connection.execute(sa.text("CREATE TABLE facts (n INTEGER)"))
        try:
            with database.write_quietly() as connection:
                insert(connection, 1)
                assert server.end_writes([PROCESS]) == 1
                goes_on(connection)
        except sa.exc.OperationalError as error:
            told.append(str(error.orig))
        with database.write_quietly() as connection:
            insert(connection, 3)
        with database.read() as connection:
            told.append(str(connection.execute(sa.text("SELECT n FROM facts")).scalars().all()))

    stage.spawn("writer", write, PROCESS)
    while stage.step():
        continue
    assert told == ["server closed the connection unexpectedly", "[3]"]
    database.close()


@pytest.mark.parametrize("restart_at_s", [tenth / 10.0 for tenth in range(0, 60, 3)])
def test_transaction_of_which_the_server_ended_a_part_writes_nothing(
    tmp_path: Path, restart_at_s: float
) -> None:
    stage = Stage(1)
    server = Server(stage, str(tmp_path / "play.db"), SLOW)
    engine = server.engine(PROCESS)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE words (word TEXT)"))
    database = database_of(engine)

    def write() -> None:
        with database.write_quietly() as connection:
            for word in ("a", "b", "c"):
                connection.execute(sa.text("INSERT INTO words VALUES (:w)"), {"w": word})

    writer = stage.spawn("writer", write, PROCESS)
    stage.at(restart_at_s, server.restart)
    while stage.step():
        continue
    with engine.connect() as connection:
        words = list(connection.execute(sa.text("SELECT word FROM words")).scalars())
    assert isinstance(writer.error, sa.exc.OperationalError | None)
    assert words == (["a", "b", "c"] if writer.error is None else [])
    server.forget(PROCESS)
    engine.dispose()
