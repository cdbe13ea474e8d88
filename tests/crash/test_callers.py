"""Callers without pause against one process, with cycles now and then: no turn ever fails.

What piles up while nothing decides is decided on at once, as after an outage of the database.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from api.clock import ManualClock
from api.main import create_app
from api.settings import Settings
from api.store.commit import commit
from api.store.engine import Database
from api.store.policy import load_policy
from api.store.schema import migrate, open_database
from api.store.snapshot import load_world
from api.store.tables import leader
from scheduler.cycle import run_cycle
from tests.api.store.build import load_cluster
from tests.checks import broken_promises
from tests.crash.caller import Caller, together

PILES = (1, 2, 5, 20, 60)
PAUSES_S = (0.0, 0.1, 1.0, 12.0, 40.0)


class InProcess:
    """A service as callers of a running one see it, without a runner."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = ManualClock()
        settings = Settings(database_url=database.url, clock="manual")
        self.client = TestClient(
            create_app(settings, database, self.clock, None),
            base_url="http://127.0.0.1:8080",
            raise_server_exceptions=False,
        )

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.request(method, path, json=body, headers=named)
        assert answer.status_code < 500, f"{method} {path} {body}: {answer.text[:500]}"
        return answer.status_code, dict(answer.json())

    def cycle(self) -> None:
        now_s = self.clock.now_s()
        plan = run_cycle(load_world(self.database), load_policy(self.database), now_s)
        with self.database.read() as connection:
            epoch = connection.execute(sa.select(leader.c.epoch)).scalar_one()
        commit(self.database, plan, epoch, now_s)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    url = f"sqlite:///{tmp_path / 'podyard.db'}"
    migrate(url)
    with closing(open_database(url)) as database:
        load_cluster(database, 8)
        made = InProcess(database)
        with made.client:
            yield made


def _pass(served: InProcess, seed: int, requests: int) -> None:
    chance = Random(seed)
    callers = [Caller(served, name, seed) for name in ("ada", "bob")]
    for caller in callers:
        caller.pause_s = 0.0
    done = 0
    while done < requests:
        for _ in range(chance.choice(PILES)):
            chance.choice(callers).act()
            done += 1
        served.clock.advance(chance.choice(PAUSES_S))
        served.cycle()
    assert broken_promises(served.database.url, together(callers)) == []


# Seed 7: all that a gang's minimum wants had succeeded when it started again from the line.
@pytest.mark.parametrize("seed", [7])
def test_what_piles_up_between_cycles_is_decided_on(served: InProcess, seed: int) -> None:
    _pass(served, seed, 600)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(100, 120))
def test_what_piles_up_between_cycles_is_decided_on_for_long(served: InProcess, seed: int) -> None:
    _pass(served, seed, 3_000)
