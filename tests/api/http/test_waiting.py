"""Requests that wait for a job, with the real runner beside them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard

JOB = "/v1/namespaces/default/jobs/job"
BODY = {"name": "job", "parallelism": {"tp": 8}}


@pytest.fixture
def running(database: Database, contract: Contract) -> Iterator[Yard]:
    """A service that decides by itself."""
    clock = ManualClock()
    with Yard(database, contract, clock, Runner(database, clock)) as made:
        made.load()
        yield made


def test_submit_answers_with_the_bound_job(running: Yard) -> None:
    answer = running.call("POST", "/v1/jobs?wait=bound&timeout_s=20", BODY)
    assert (answer.status_code, answer.json()["state"]) == (201, "bound")


def test_submit_answers_with_the_job_as_it_is_when_time_is_up(running: Yard) -> None:
    body = BODY | {"parallelism": {"tp": 8, "dp": 13}, "if_never_fits": "wait"}
    answer = running.call("POST", "/v1/jobs?wait=bound&timeout_s=0.05", body)
    assert (answer.status_code, answer.json()["state"]) == (201, "pending")


def test_read_does_not_wait_for_what_has_happened(running: Yard) -> None:
    running.call("POST", "/v1/jobs?wait=bound", BODY)
    assert running.ok("GET", f"{JOB}?wait=bound&timeout_s=0")["state"] == "bound"


def test_wait_for_nothing_more_than_a_look(running: Yard) -> None:
    running.ok("POST", "/v1/jobs?wait=bound", BODY)
    assert running.ok("GET", f"{JOB}?wait=finished&timeout_s=0")["state"] == "bound"


def test_waiting_reads_are_answered_when_the_job_gets_there(running: Yard) -> None:
    """Eight wait for its end while the pod starts and ends; none holds a thread meanwhile."""
    running.ok("POST", "/v1/jobs?wait=bound", BODY)
    status = "/v1/namespaces/default/pods/job-0/status"
    with ThreadPoolExecutor(9) as pool:
        path = f"{JOB}?wait=finished&timeout_s=20"
        waiting = [pool.submit(running.ok, "GET", path) for _ in range(8)]
        running.ok("POST", status, {"attempt": 1, "state": "running"})
        assert running.ok("GET", f"{JOB}?wait=running&timeout_s=20")["state"] == "running"
        running.ok("POST", status, {"attempt": 1, "state": "succeeded", "exit_code": 0})
        assert {str(found.result()["state"]) for found in waiting} == {"succeeded"}


def test_job_that_ended_is_past_every_wait(running: Yard) -> None:
    running.ok("POST", "/v1/jobs?wait=bound", BODY)
    running.ok("DELETE", JOB)
    for what in ("finished", "bound", "running"):
        found = running.ok("GET", f"{JOB}?wait={what}&timeout_s=20")
        assert found["state"] == "cancelled"


def test_waiting_request_is_answered_when_the_service_stops(
    database: Database, contract: Contract
) -> None:
    with Yard(database, contract) as yard, ThreadPoolExecutor(1) as pool:
        yard.load()
        yard.submit()
        waiting = pool.submit(yard.ok, "GET", f"{JOB}?wait=bound&timeout_s=300")
        yard.app.service.waiters.close()
        assert waiting.result(timeout=20)["state"] == "pending"


def test_readiness_follows_the_runner(database: Database, contract: Contract) -> None:
    clock = ManualClock()
    runner = Runner(database, clock)
    yard = Yard(database, contract, clock, runner)
    answer = yard.call("GET", "/readyz")
    assert (answer.status_code, answer.json()["checks"]["runner"]) == (503, "is not up yet")
