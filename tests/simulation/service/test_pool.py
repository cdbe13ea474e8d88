"""Who waits for a connection of a process in a play does so on the stage, not in real time."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.simulation.service.server import Server, database_of
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather

CONNECTIONS = 40
"""That the service opens to a file at most."""

PROCESS = "podyard-0"


class Readers:
    """Actors of a process that read at the same time.

    Attributes:
        ended: When each of them had read, virtual seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.stage = Stage(1)
        self.server = Server(self.stage, str(folder / "play.db"), Weather(latency_s=0.0))
        self.engine = self.server.engine(PROCESS)
        self.ended: list[float] = []

    def come(self, count: int, for_s: float) -> None:
        database = database_of(self.engine)

        def read() -> None:
            with database.read():
                self.stage.sleep(for_s)
            self.ended.append(self.stage.now_s)

        for number in range(count):
            self.stage.spawn(f"reader-{number}", read, PROCESS)

    def play(self) -> None:
        while self.stage.step():
            continue

    def die(self) -> None:
        self.stage.kill(PROCESS)
        self.server.forget(PROCESS)
        self.engine.dispose()


@pytest.mark.parametrize(
    ("count", "ended"),
    [(CONNECTIONS, {5.0}), (CONNECTIONS + 1, {5.0, 10.0}), (3 * CONNECTIONS, {5.0, 10.0, 15.0})],
)
def test_those_beyond_the_connections_of_a_process_have_their_turn_later(
    tmp_path: Path, count: int, ended: set[float]
) -> None:
    readers = Readers(tmp_path)
    readers.come(count, for_s=5.0)
    readers.play()
    assert readers.stage.failed == []
    assert len(readers.ended) == count
    assert set(readers.ended) == ended
    readers.die()


def test_those_who_get_no_connection_in_time_are_told_so(tmp_path: Path) -> None:
    readers = Readers(tmp_path)
    readers.come(CONNECTIONS + 2, for_s=100.0)
    readers.play()
    assert [type(actor.error) for actor in readers.stage.failed] == [sa.exc.TimeoutError] * 2
    assert readers.ended == [100.0] * CONNECTIONS
    readers.die()


def test_process_that_has_died_leaves_all_connections_to_its_next_life(tmp_path: Path) -> None:
    readers = Readers(tmp_path)
    readers.come(CONNECTIONS + 1, for_s=10.0)

    def live_anew() -> None:
        readers.die()
        readers.come(CONNECTIONS, for_s=1.0)

    readers.stage.at(5.0, live_anew)
    readers.play()
    assert readers.stage.failed == []
    assert readers.ended == [6.0] * CONNECTIONS
    readers.die()
