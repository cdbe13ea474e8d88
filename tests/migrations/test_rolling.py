"""Two versions on one database: the newer one has migrated it, the older one goes on."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient
from typer.testing import CliRunner

from api.clock import ManualClock
from api.command import app as command
from api.loop.replay import replay_all
from api.loop.runner import Runner
from api.main import create_app
from api.settings import Settings
from api.store.connect import open_engine
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.errors import SchemaError
from api.store.ledger import audit_ledger
from api.store.migrations import SERVES_FROM
from api.store.schema import (
    Standing,
    hold_writers,
    known_versions,
    migrate,
    open_database,
    standing_of,
)
from tests.api.store.build import load_cluster
from tests.checks import broken_promises
from tests.client.waiting import until

NEWER = "2999_01_01_0000"

JOB: dict[str, object] = {"roles": [{"name": "m", "replicas": 2, "gpus": 4}]}


def additions(url: str) -> list[str]:
    """What a migration may do: a column with a default in every table, a table, an index."""
    engine = open_engine(url)
    with closing(engine.connect()) as connection:
        tables = sorted(set(sa.inspect(connection).get_table_names()) - {"alembic_version"})
    engine.dispose()
    columns = [f"ALTER TABLE {t} ADD COLUMN later TEXT NOT NULL DEFAULT 'x'" for t in tables]
    return [
        *columns,
        "CREATE TABLE later (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE INDEX ix_jobs_later ON jobs (later)",
        f"UPDATE alembic_version SET version_num = '{NEWER}'",
    ]


def execute(url: str, statements: list[str]) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            hold_writers(connection)  # as a migration does
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


@contextmanager
def serving(database: Database) -> Iterator[TestClient]:
    """The service with its runner."""
    clock = ManualClock()
    log = DecisionLog(database, keep=100, keep_bytes=1 << 20)
    runner = Runner(database, clock, decisions=log)
    settings = Settings(database_url=database.url, clock="manual")
    app = create_app(settings, database, clock, runner)
    with TestClient(app, base_url="http://127.0.0.1:8080") as client:
        until(lambda: client.get("/readyz").status_code == 200)
        yield client


def submit(client: TestClient, name: str) -> Any:  # noqa: ANN401 - any JSON
    answer = client.post("/v1/jobs", json={"name": name, **JOB})
    assert answer.status_code == 201, answer.text
    return answer.json()


def asked(client: TestClient, path: str) -> Any:  # noqa: ANN401 - an answer of that client
    """What is answered in the end: who reads may be in the way of a migration and asks again."""
    answers = [client.get(path)]
    while answers[-1].status_code == 503 and len(answers) < 10:
        assert answers[-1].headers["Retry-After"]
        answers.append(client.get(path))
    assert answers[-1].is_success, answers[-1].text
    return answers[-1]


def live_through(client: TestClient, name: str) -> None:
    """A job that is placed, runs and ends; one that is changed and cancelled; a node as well."""
    path = f"/v1/namespaces/default/jobs/{name}"
    submit(client, name)
    until(lambda: asked(client, path).json()["state"] == "bound")
    for state, code in (("running", None), ("succeeded", 0)):
        for pod in asked(client, f"/v1/pods?job={name}").json()["items"]:
            body = {"attempt": pod["attempt"], "state": state, "exit_code": code}
            told = {key: value for key, value in body.items() if value is not None}
            answer = client.post(f"/v1/namespaces/default/pods/{pod['name']}/status", json=told)
            assert answer.is_success, answer.text
    until(lambda: asked(client, path).json()["state"] == "succeeded")
    submit(client, f"{name}-gone")
    assert client.patch(f"{path}-gone", json={"priority": 3}).is_success
    assert client.delete(f"{path}-gone").is_success
    for verb in ("cordon", "uncordon"):
        assert client.post(f"/v1/nodes/n001/{verb}", json={}).is_success
    for read in ("/v1/overview", "/v1/events", "/v1/queues", "/v1/nodes", "/metrics"):
        asked(client, read)


def test_program_serves_a_database_that_is_one_schema_newer(database_url: str) -> None:
    execute(database_url, additions(database_url))
    assert standing_of(database_url) is Standing.NEWER
    with closing(open_database(database_url)) as database:
        load_cluster(database)
        with serving(database) as client:
            for number in range(6):  # often enough for statements to be prepared
                live_through(client, f"j{number}")
        assert audit_ledger(database).is_clean
        assert [d.differences for d in replay_all(database) if d.differences] == []
    assert broken_promises(database_url) == []


def test_service_goes_on_while_its_database_is_migrated(database_url: str) -> None:
    with closing(open_database(database_url)) as database:
        load_cluster(database)
        with serving(database) as client:
            for number in range(6):
                live_through(client, f"before{number}")
            statements = additions(database_url)
            migrating = threading.Thread(target=execute, args=(database_url, statements))
            migrating.start()
            for number in range(2):
                live_through(client, f"during{number}")
            migrating.join(60)
            live_through(client, "after")
            assert client.get("/readyz").json()["status"] == "ready"
        assert audit_ledger(database).is_clean
    assert broken_promises(database_url) == []


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_commit_of_the_service_and_a_migration_do_not_wait_for_each_other(
    database_url: str,
) -> None:
    waiting = sa.text(
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE NOT granted AND datname = current_database()"
    )
    columns = [f"ALTER TABLE {t} ADD COLUMN later TEXT" for t in ("nodes", "pods")]
    columns += [f"UPDATE alembic_version SET version_num = '{NEWER}'"]
    with closing(open_database(database_url)) as database:
        load_cluster(database)
        migrating = threading.Thread(target=execute, args=(database_url, columns))
        with database.write(0.0) as tx:
            tx.connection.execute(sa.text("UPDATE pods SET state = state"))
            migrating.start()
            with closing(database.connect_alone()) as other:
                until(lambda: other.execute(waiting).scalar_one())
            tx.connection.execute(sa.text("SELECT count(*) FROM nodes"))
        migrating.join(60)
        with database.read() as connection:
            columns_now = {c["name"] for c in sa.inspect(connection).get_columns("pods")}
        assert "later" in columns_now


def test_migration_of_a_newer_database_changes_nothing_and_says_so(database_url: str) -> None:
    execute(database_url, additions(database_url))
    migrate(database_url)
    done = CliRunner().invoke(command, ["migrate", "--database-url", database_url])
    assert done.exit_code == 0
    assert "this program may use it as it is" in done.output
    assert standing_of(database_url) is Standing.NEWER
    with pytest.raises(SchemaError, match="only the program that brought it there"):
        migrate(database_url, known_versions()[0])


def test_newer_database_that_no_longer_serves_this_program_is_refused(database_url: str) -> None:
    raised = f"UPDATE meta SET value = '{NEWER}' WHERE key = 'serves'"
    execute(database_url, [*additions(database_url), raised])
    with pytest.raises(SchemaError, match=f"has schema {NEWER}.*use a newer podyard"):
        open_database(database_url)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (NEWER, f"has schema {NEWER}, this program knows those up to {known_versions()[-1]}"),
        (known_versions()[0], f"this program needs {known_versions()[-1]}; migrate it"),
    ],
)
def test_service_whose_schema_was_changed_says_that_it_is_not_ready(
    database: Database, version: str, said: str
) -> None:
    with serving(database) as client:
        statements = [
            f"UPDATE alembic_version SET version_num = '{version}'",
            f"UPDATE meta SET value = '{NEWER}' WHERE key = 'serves'",
        ]
        execute(database.url, statements)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert said in answer.json()["checks"]["database"]


def shape(url: str) -> dict[str, dict[str, tuple[str, bool]]]:
    """Every column of every table: its type, and whether rows can be written without it."""
    engine = open_engine(url)
    with closing(engine.connect()) as connection:
        looked = sa.inspect(connection)
        found = {
            table: {
                column["name"]: (
                    str(column["type"]),
                    column["nullable"] or column["default"] is not None,
                )
                for column in looked.get_columns(table)
            }
            for table in looked.get_table_names()
        }
    engine.dispose()
    return found


def test_migrations_since_the_oldest_program_served_only_add(empty_database_url: str) -> None:
    """Else `SERVES_FROM` has to name the first schema whose program knows of what was taken."""
    assert SERVES_FROM in known_versions()
    migrate(empty_database_url, SERVES_FROM)
    before = shape(empty_database_url)
    migrate(empty_database_url)
    after = shape(empty_database_url)
    for table, columns in before.items():
        for column, (kind, _) in columns.items():
            assert after[table][column][0] == kind, f"{table}.{column}"
        for column in after[table].keys() - columns.keys():
            assert after[table][column][1], f"{table}.{column} needs a value of the old program"
