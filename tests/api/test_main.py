"""What a service does before it has most of its code."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from api.clock import ManualClock
from api.http import later as module
from api.loop.runner import Runner
from api.main import create_app
from api.settings import Settings
from api.store.engine import Database
from tests.api.http.yard import Yard

SERVING = (
    "import sys, api.command, api.main, api.loop.runner, api.loop.outbox, api.http.serving, "
    "api.store.schema, api.hooks.configured\n"
)
"""Imports what `serve` does before it listens."""


@contextmanager
def before_the_first_turn(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[TestClient, Runner]]:
    """A service whose runner has not turned yet, and will not by itself."""
    monkeypatch.setattr(module, "LATEST_S", 3_600.0)
    monkeypatch.setattr(Runner, "start", lambda _: None)
    clock = ManualClock()
    runner = Runner(database, clock)
    app = create_app(Settings(database_url=database.url, clock="manual"), database, clock, runner)
    with TestClient(app, base_url="http://127.0.0.1:8080") as client:
        yield client, runner
        runner.has_turned.set()


def test_what_takes_a_plain_submission_needs_no_routes() -> None:
    asked = (
        "late = ('fastapi', 'yaml', 'opentelemetry', 'api.routes', 'api.k8s.face', "
        "'api.http.jobs')\nprint([name for name in late if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", SERVING + asked], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n"


def test_submissions_are_taken_and_the_process_says_it_lives_before_the_first_turn(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.load()
    with before_the_first_turn(yard.database, monkeypatch) as (client, runner):
        assert client.get("/healthz").json() == {"status": "ok"}
        body = {"name": "a", "parallelism": {"tp": 8}}
        made = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"})
        assert made.status_code == 201
        again = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"})
        assert (again.status_code, again.json()["uid"]) == (200, made.json()["uid"])
        refused = client.post("/v1/jobs", json={"name": "b", "parallelism": {"tp": 0}})
        assert refused.status_code == 422
        assert not client.app.later.is_made  # type: ignore[attr-defined]  # the app under test
        runner.has_turned.set()
        assert client.get("/v1/jobs").json()["items"][0]["name"] == "a"
        assert client.get("/api/v1/namespaces").status_code == 200


def test_a_face_is_told_of_errors_in_its_own_words_from_the_first_call_on(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with before_the_first_turn(yard.database, monkeypatch) as (client, runner):
        runner.has_turned.set()
        foreign = client.get("/api/v1/nodes", headers={"Host": "example.org"})
        assert foreign.json()["kind"] == "Status"


def test_what_a_route_runs_into_is_told_as_every_error_is(yard: Yard) -> None:
    def fail() -> None:
        raise ZeroDivisionError("no capacity")

    yard.app.routed.add_api_route("/v1/cluster", fail)
    yard.app.routed.routes.insert(0, yard.app.routed.routes.pop())
    answer = yard.client.get("/v1/cluster")
    assert answer.status_code == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "no capacity" not in answer.text
