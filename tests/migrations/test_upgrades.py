"""A database of each earlier schema, with gangs that live: brought up, it goes on."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from api.clock import ManualClock
from api.loop.runner import Runner
from api.main import create_app
from api.metrics import Metrics
from api.settings import Settings
from api.store.decisions import DecisionLog
from api.store.engine import open_engine
from api.store.ledger import audit_ledger
from api.store.schema import Standing, known_versions, migrate, open_database, standing_of
from tests.client.waiting import until
from tests.migrations.filler import BY_HAND, HISTORY, SEEDED, fill

FIRST, *LATER = known_versions()[:-1]

EVERY = [
    FIRST,
    *(pytest.param(version, marks=pytest.mark.slow) for version in LATER),
]
"""The first has the longest way to go; the others are for the long run."""

JOB = "/v1/namespaces/default/jobs"


def build(url: str, version: str) -> set[str]:
    """A database as the program of a version left it, with gangs; its tables."""
    migrate(url, version)
    engine = open_engine(url)
    with engine.begin() as connection:
        tables = fill(connection)
        for table in tables - HISTORY:
            count = connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
            assert count > 0, f"nothing was written to {table}"
    engine.dispose()
    return tables


@pytest.mark.parametrize("version", EVERY)
def test_gangs_of_an_earlier_schema_go_on(empty_database_url: str, version: str) -> None:
    url = empty_database_url
    before = build(url, version)
    assert standing_of(url) is Standing.OLDER
    migrate(url)
    assert kept(url, before)
    with closing(open_database(url)) as db:
        assert audit_ledger(db).is_clean
        clock = ManualClock()
        log = DecisionLog(db, keep=100, keep_bytes=1 << 20)
        runner = Runner(db, clock, metrics=Metrics(), event_history=1_000, decisions=log)
        app = create_app(Settings(database_url=url, clock="manual"), db, clock, runner)
        with TestClient(app, base_url="http://127.0.0.1:8080") as client:
            _go_on(Caller(client))
        assert audit_ledger(db).is_clean


class Caller:
    """Requests that must be served."""

    def __init__(self, client: TestClient) -> None:
        self._client = client

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:400]}"
        return answer.json()

    def state(self, name: str) -> object:
        return self.ask("GET", f"{JOB}/{name}")["state"]

    def report(self, name: str, state: str, **more: object) -> None:
        pod = next(p for p in self.ask("GET", "/v1/pods")["items"] if p["name"] == name)
        body = {"attempt": pod["attempt"], "state": state} | more
        self.ask("POST", f"/v1/namespaces/default/pods/{name}/status", body)


def _go_on(caller: Caller) -> None:
    """Read where a gang is, let it run to its end, and see the next take its place."""
    pods = caller.ask("GET", f"{JOB}/j/placement")["pods"]
    assert [(p["node"], p["gpus"]) for p in pods] == [("n1", [0, 1, 2, 3]), ("n2", [4, 5, 6, 7])]
    for path in READ:
        caller.ask("GET", path)
    assert (caller.state("j"), caller.state("d")) == ("running", "succeeded")
    assert caller.state("k") in {"pending", "reserved"}
    caller.report("j-m-1", "running")
    caller.ask("POST", f"{JOB}/j/checkpoints", {"step": 10, "uri": "file:///c/10"})
    for name in ("j-m-0", "j-m-1"):
        caller.report(name, "succeeded", exit_code=0)
    until(lambda: caller.state("j") == "succeeded")
    for claim in caller.ask("GET", "/v1/claims")["items"]:
        assert claim["job"] != "default/j"
    until(lambda: caller.state("k") == "bound")
    role = {"name": "w", "replicas": 1, "gpus": 1}
    caller.ask("POST", "/v1/jobs", {"name": "new", "queue": "filled", "roles": [role]})
    caller.ask("DELETE", f"{JOB}/k")


READ = (
    "/v1/nodes", "/v1/nodes/n1", "/v1/queues", "/v1/reservations", "/v1/claims", "/v1/events",
    "/v1/faults", "/v1/hooks/deliveries", "/v1/usage", "/v1/overview", "/v1/map", "/v1/spares",
    "/v1/topology", "/v1/policy", f"{JOB}/k/explain", f"{JOB}/d/events",
    "/apis/podyard.io/v1/jobs", "/api/v1/pods",
)  # fmt: skip


def kept(url: str, tables: set[str]) -> bool:
    """No row went on the way up."""
    engine = open_engine(url)
    with closing(engine.connect()) as connection:
        for table in tables - HISTORY - {"alembic_version"}:
            count = connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
            assert count > 0, f"nothing is left in {table}"
    engine.dispose()
    return True


@pytest.mark.parametrize("version", EVERY)
def test_earlier_schema_comes_up_down_and_up_with_its_rows(
    empty_database_url: str, version: str
) -> None:
    url = empty_database_url
    tables = build(url, version)
    before = contents(url, tables)
    migrate(url)
    migrate(url, version)
    assert contents(url, tables) == before
    migrate(url)
    with closing(open_database(url)) as db:
        assert audit_ledger(db).is_clean


def contents(url: str, tables: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    engine = open_engine(url)
    with closing(engine.connect()) as connection:
        for name in sorted(tables - {"alembic_version"}):
            rows = connection.execute(sa.select(table_of(connection, name)))
            found[name] = sorted(repr(tuple(row)) for row in rows)
    engine.dispose()
    return found


def table_of(connection: sa.Connection, name: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), autoload_with=connection)


def test_first_schema_had_gangs_to_fill(tmp_path: Path) -> None:
    """The rows are those of the first program: nothing that came later is needed for them."""
    tables = build(f"sqlite:///{tmp_path / 'first.db'}", FIRST)
    assert {"jobs", "pods", "nodes", "node_usage", "events", "facts"} <= tables
    assert not {"claims", "leases", "faults", "tokens"} & tables
    assert BY_HAND - {"alembic_version"} <= tables | SEEDED
