"""kill -9 at any moment of submitting, placing and cancelling: nothing acknowledged is lost."""

import os
import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from api.loop.replay import replay_all
from api.store.ledger import audit_ledger
from api.store.schema import migrate, open_database
from tests.api.store.build import load_cluster
from tests.checks import FINAL, bound_share, broken_promises
from tests.crash.caller import Caller, together
from tests.crash.server import OwnServer, own_server
from tests.crash.service import Service, until

SEED = int(os.environ.get("PODYARD_CRASH_SEED", "4"))
"""Printed when a test fails; give another to see other moments."""

ON_THE_WAY = ("evicting", "reserved", "suspended")
"""States of jobs that others, or their owners, keep from running."""

BOUND = 0.95
LOAD_S = (0.02, 0.6)
"""How long a round's load lasts before the kill."""


def rounds_of_kills(url: str, log: Path, rounds: int, seed: int) -> None:
    """Start, load, kill; start again, ask again, and look from outside and into the database."""
    print(f"PODYARD_CRASH_SEED={seed}")  # noqa: T201 - shown when the test fails
    chance, pause = Random(seed), threading.Event()
    with closing(open_database(url)) as database:
        load_cluster(database, 8)
    with Service(url, log) as service:
        callers = [Caller(service, name, seed) for name in ("ada", "bob", "eve")]
        for number in range(rounds):
            service.start()
            if chance.random() < 0.8:
                service.until_ready()
            for caller in callers:
                caller.start()
            pause.wait(chance.uniform(*LOAD_S))
            service.kill()
            for caller in callers:
                caller.stop()
            # What is there the moment after must be whole by itself, before anybody mends it.
            assert broken_promises(url, together(callers)) == [], f"round {number}"
        service.start()
        service.until_ready()
        look(service, url, callers)
    with closing(open_database(url)) as database:
        assert audit_ledger(database).is_clean
        differing = [str(d) for d in replay_all(database) if d.differences]
        assert differing == []
    answered = sum(n for c in callers for status, n in c.tally.statuses.items() if status)
    jobs = sum(len(c.seen.jobs) for c in callers)
    print(f"{rounds} kills, {answered} answers, {jobs} jobs")  # noqa: T201 - shown with -s
    assert jobs > rounds
    assert {s for c in callers for s in c.tally.statuses if s >= 500} <= {503}


def look(service: Service, url: str, callers: list[Caller]) -> None:
    """From the outside, after unanswered requests were repeated and all is decided."""
    for caller in callers:
        caller.ask_again()
    callers[0].mend()
    fill(service)

    def is_full() -> bool:
        stop_those_that_leave(service)
        return bound_share(url) >= BOUND

    until(is_full, "enough of the cluster is in use")
    seen = together(callers)
    assert broken_promises(url, seen) == []
    jobs = {str(job["uid"]): job for job in service.items("/v1/jobs?limit=500")}
    asked = {uid for caller in callers for key in caller.ended for uid in seen.keys[key]}
    assert seen.jobs - jobs.keys() <= asked, "a job that nobody asked to end is not listed"
    for uid, state in seen.ended.items():
        assert uid not in jobs or jobs[uid]["state"] == state
    for job in jobs.values():
        assert job["state"] in {"pending", "bound", "running", "recovering", *ON_THE_WAY, *FINAL}


def stop_those_that_leave(service: Service) -> None:
    """Pods that were told to stop do so, as their nodes would see to it."""
    for pod in service.items("/v1/pods?limit=500"):
        if pod["state"] == "terminating":
            body = {"attempt": pod["attempt"], "state": "stopped"}
            service.call("POST", f"/v1/namespaces/default/pods/{pod['name']}/status", body)


def fill(service: Service) -> None:
    """More demand than there is, in pieces that fit everywhere."""
    for number in range(64):
        body = {"name": f"fill-{number}", "parallelism": {"tp": 1}}
        status, _ = service.call("POST", "/v1/jobs", body)
        assert status == 201


@pytest.mark.timeout(300)
def test_twenty_kills_lose_nothing_and_break_nothing(database_url: str, tmp_path: Path) -> None:
    rounds_of_kills(database_url, tmp_path / "log", 20, SEED)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_thousand_kills_lose_nothing_and_break_nothing(database_url: str, tmp_path: Path) -> None:
    rounds_of_kills(database_url, tmp_path / "log", 1_000, SEED + 1)


@pytest.mark.timeout(300)
def test_service_outlives_the_kill_of_its_postgresql(tmp_path: Path) -> None:
    """Meanwhile it answers 503 and says when to try again; then it goes on by itself."""
    with own_server() as postgresql:
        _outlives(postgresql, tmp_path)


def _outlives(postgresql: OwnServer, folder: Path) -> None:
    url, chance, pause = postgresql.url, Random(SEED), threading.Event()
    migrate(url)
    with closing(open_database(url)) as database:
        load_cluster(database, 8)
    with Service(url, folder / "log") as service:
        service.start()
        service.until_ready()
        callers = [Caller(service, name, SEED) for name in ("ada", "bob")]
        for _ in range(3):
            for caller in callers:
                caller.start()
            pause.wait(chance.uniform(0.1, 0.5))
            postgresql.kill()
            until(lambda: service.call("GET", "/readyz")[0] == 503, "it is noticed")
            status, told = service.call("POST", "/v1/jobs", {"name": "x", "parallelism": {"tp": 1}})
            assert (status, told["retry_after"]) == (503, "1"), told
            assert service.call("GET", "/v1/jobs")[0] == 503
            assert service.call("GET", "/healthz")[0] == 200
            postgresql.start()
            service.until_ready()
            for caller in callers:
                caller.stop()
        look(service, url, callers)
        found = {s for c in callers for s in c.tally.statuses}
        assert {s for s in found if s >= 500} <= {503}, found
        assert 0 not in found
        assert sum(c.tally.impatient for c in callers) == 0
