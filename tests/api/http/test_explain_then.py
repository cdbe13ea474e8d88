"""Why a job waited at a revision of the past, from the decision log."""

from collections.abc import Iterator

import pytest

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.decisions import DecisionLog
from api.store.engine import Database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard

EXPLAIN = "/v1/namespaces/default/jobs/waits/explain"


@pytest.fixture
def logged(database: Database, contract: Contract) -> Iterator[tuple[Yard, Runner]]:
    """A service whose decisions are written down; they are taken when a test says so."""
    log = DecisionLog(database, keep=100, keep_bytes=1 << 24)
    runner = Runner(database, ManualClock(), decisions=log)
    with Yard(database, contract) as yard:
        yield yard, runner
    runner.stop()


def decide(runner: Runner) -> None:
    while runner.turn():
        pass


def test_past_answers_stay_what_they_were(logged: tuple[Yard, Runner]) -> None:
    yard, runner = logged
    yard.load()
    yard.submit("holds", parallelism={"tp": 8, "pp": 12})
    decide(runner)
    yard.submit("waits", parallelism={"tp": 8, "pp": 2})
    decide(runner)
    # So that there is a decision that saw the job wait.
    yard.submit("later", parallelism={"tp": 8})
    decide(runner)
    then = int(str(yard.ok("GET", "/v1/overview")["revision"]))
    yard.ok("DELETE", "/v1/namespaces/default/jobs/holds")
    decide(runner)
    for pod in yard.items("/v1/pods?job=holds"):
        path = f"/v1/namespaces/default/pods/{pod['name']}/status"
        yard.call("POST", path, {"attempt": pod["attempt"], "state": "stopped"})
    decide(runner)
    yard.submit("last", parallelism={"tp": 1})
    decide(runner)
    assert yard.ok("GET", EXPLAIN)["fits"] is True
    found = yard.ok("GET", f"{EXPLAIN}?at={then}")
    assert (found["fits"], found["code"]) == (False, "room")
    assert [holder["job"] for holder in found["holders"]] == ["default/holds"]  # type: ignore[attr-defined]  # as described
    now = int(str(yard.ok("GET", "/v1/overview")["revision"]))
    placed = yard.ok("GET", f"{EXPLAIN}?at={now}")
    assert placed["fits"] is True
    assert "2 pods on 2 nodes" in str(placed["message"])
    early = yard.ok("GET", f"{EXPLAIN}?at=3")
    assert "not there yet" in str(early["message"])


def test_revision_that_no_decision_reaches_is_named(logged: tuple[Yard, Runner]) -> None:
    yard, _ = logged
    yard.load()
    yard.submit("waits", parallelism={"tp": 8})
    assert "on revision 2" in yard.refused(404, "GET", f"{EXPLAIN}?at=2")[""]
    assert "ahead" in yard.refused(400, "GET", f"{EXPLAIN}?at=99")[""]
    assert "at" in yard.refused(422, "GET", f"{EXPLAIN}?at=x")
