"""A database that is newer, foreign, read-only, full or corrupt: told at start, 503 while it runs.

No traceback, no 500: what the operator has to do is in one line.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry
from typer.testing import CliRunner

from api.clock import ManualClock
from api.command import app
from api.loop.runner import Runner
from api.store import connect
from api.store.engine import Database
from api.store.schema import open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.store.raw import execute
from tests.checks import broken_promises

cli = CliRunner()
JOB = {"name": "late", "parallelism": {"tp": 8}}
Break = Callable[[Database], None]


def make_newer(database: Database) -> None:
    execute(database, "UPDATE alembic_version SET version_num = '2999_01_01_0000'")
    execute(database, "UPDATE meta SET value = '2998_01_01_0000' WHERE key = 'serves'")


def make_foreign(database: Database) -> None:
    execute(database, "UPDATE meta SET value = 'another' WHERE key = 'program'")


def make_read_only(database: Database) -> None:
    if database.is_sqlite:
        Path(str(database.engine.url.database)).chmod(0o444)
        event.listen(database.engine, "connect", _query_only)
    else:
        name = database.engine.url.database
        execute(database, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    database.engine.dispose()


def _query_only(connection: Any, _entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - DB-API has no type
    # File modes do not bind the superuser, whom tests may run as.
    connection.execute("PRAGMA query_only = ON")


def make_full(database: Database) -> None:
    """No page more than there is, as on a disk without room."""
    event.listen(database.engine, "connect", _no_more_pages)
    database.engine.dispose()


def _no_more_pages(connection: Any, _entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - DB-API has no type
    connection.execute("PRAGMA max_page_count = 1")


def make_corrupt(database: Database) -> None:
    database.engine.dispose()
    path = Path(str(database.engine.url.database))
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 512] = os.urandom(512)
    path.write_bytes(content)


@pytest.mark.parametrize("command", ["serve", "doctor", "replay"])
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (make_newer, "use a newer podyard"),
        (make_foreign, "is not Podyard's"),
        (make_read_only, "is read-only"),
        (make_corrupt, "is corrupt"),
    ],
)
def test_start_on_a_wrong_database_says_so_in_one_line(
    database_url: str, broken: Break, said: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is make_corrupt and not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL keeps its own files")
    monkeypatch.setenv("PODYARD_PORT", "0")
    with closing(open_database(database_url)) as database:
        broken(database)
    if broken is make_read_only and database_url.startswith("sqlite"):
        database_url = database_url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"
    result = cli.invoke(app, [command, "--database-url", database_url])
    assert result.exit_code in {1, 2}
    assert said in result.output
    assert result.output.startswith("podyard: ")
    assert result.output.count("\n") == 1
    assert isinstance(result.exception, SystemExit)


def test_start_without_room_for_the_tables_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = connect._set_up_sqlite

    def small(connection: Any, entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - DB-API has no type
        real(connection, entry)
        connection.execute("PRAGMA max_page_count = 8")

    monkeypatch.setattr(connect, "_set_up_sqlite", small)
    url = f"sqlite:///{tmp_path / 'p.db'}"
    result = cli.invoke(app, ["serve", "--database-url", url, "--port", "0"])
    assert result.exit_code == 1
    assert "there is no room left for the database" in result.output
    assert result.output.count("\n") == 1


@pytest.fixture
def yard(database: Database, contract: Contract) -> Iterator[Yard]:
    with Yard(database, contract) as made:
        made.load()
        yield made


@pytest.mark.parametrize("broken", [make_read_only, make_full, make_corrupt])
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_write_to_a_file_that_went_wrong_is_answered_503(yard: Yard, broken: Break) -> None:
    broken(yard.database)
    answers = (
        yard.call("POST", "/v1/jobs", JOB | {"name": f"late-{number}"}) for number in range(200)
    )
    check_refusal(next(answer for answer in answers if answer.status_code != 201))


@pytest.mark.parametrize("code", ["25006", "53100", "58030", "XX001"])
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_write_that_a_server_cannot_do_is_answered_503(yard: Yard, code: str) -> None:
    """Read-only (a standby), full, input/output error, corrupt: by the codes that servers send."""
    execute(
        yard.database,
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'it cannot' USING ERRCODE = '{code}'; END $$",
    )
    execute(yard.database, "CREATE TRIGGER fails BEFORE INSERT ON jobs EXECUTE FUNCTION fails()")
    try:
        check_refusal(yard.call("POST", "/v1/jobs", JOB))
    finally:
        execute(yard.database, "DROP FUNCTION fails CASCADE")


def check_refusal(answer: httpx2.Response) -> None:
    """When to come again, in words, and no statement, which is nobody's business."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["type"] == "urn:podyard:problem:database-unavailable"
    assert "INSERT" not in answer.text


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_full_database_loses_nothing_and_goes_on_when_there_is_room_again(yard: Yard) -> None:
    runner = Runner(yard.database, ManualClock())
    make_full(yard.database)
    acknowledged, statuses = set(), set()
    for number in range(30):
        answer = yard.call("POST", "/v1/jobs", JOB | {"name": f"j{number}"})
        statuses.add(answer.status_code)
        if answer.status_code == 201:
            acknowledged.add(answer.json()["uid"])
        with suppress(sa.exc.OperationalError):
            runner.turn()
        runner._known = None
    assert statuses == {201, 503}
    event.remove(yard.database.engine, "connect", _no_more_pages)
    yard.database.engine.dispose()
    while runner.turn():
        pass
    states = {str(job["uid"]): job["state"] for job in yard.items("/v1/jobs")}
    assert acknowledged == states.keys()
    assert "bound" in states.values()
    assert broken_promises(yard.database.url) == []
    runner.stop()
