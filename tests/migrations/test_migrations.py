"""Migrations up, down and up again; and what a database may be before the service starts on it."""

import importlib.util
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from api.schemas.spec import dump_node_type, dump_spec
from api.store.engine import open_engine
from api.store.errors import SchemaError, StartupError
from api.store.jobs import list_jobs
from api.store.ledger import audit_ledger
from api.store.schema import (
    Standing,
    alembic_config,
    check_file,
    known_versions,
    migrate,
    open_database,
    standing_of,
)
from api.store.snapshot import load_world
from api.store.tables import metadata
from scheduler.model.job import JobSpec, Role
from scheduler.model.lifecycle import JobState
from tests.builders import make_type

BEFORE_CLAIMS = "2026_12_01_1500"

_SPEC = dump_spec(JobSpec(name="j", roles=(Role("m", 1, 1, gpus=4),)))

_LIVE_GANG = (
    "INSERT INTO node_types (name, gpu, gpus, body) VALUES ('t', 'X', 8, "
    f"'{dump_node_type(make_type('t'))}')",
    "INSERT INTO nodes (name, type, places, labels, taints, revision) "
    "VALUES ('n1', 't', '{}', '{}', '[]', 1)",
    "INSERT INTO node_usage (node, gpu_mask_all, cpu_milli_all, memory_mib_all) "
    "VALUES ('n1', 255, 0, 0)",
    "INSERT INTO cluster (id, name, levels, scale_up, fabric, racks, sets, revision) "
    "VALUES (1, 'c', '[\"node\"]', 'node', '{}', '[]', '{}', 1)",
    "INSERT INTO jobs (uid, namespace, name, queue, priority, state, attempt, gpus_per_pod, roles, "
    "minimum, members, gpus, spec, body, age, spec_revision, revision, submitted_at, bound_at) "
    "VALUES ('j', 'default', 'j', 'default', 0, 'bound', 1, 0, 'm', 1, 1, 4, "
    f"'{_SPEC}', '{{}}', 1, 1, 1, 4.0, 5.0)",
    "INSERT INTO pods (uid, job_uid, namespace, name, role, role_index, pod_index, node, gpu_mask, "
    "gpus, first_rank, state, attempt, revision) VALUES ('j-m-0', 'j', 'default', 'j-m-0', 'm', 0, "
    "0, 'n1', 15, 4, 0, 'bound', 1, 1)",
    "UPDATE counter SET revision = 1",
)
"""One job of one pod with half a node, as the first program wrote it."""


def test_migrations_go_up_down_and_up_again(empty_database_url: str) -> None:
    url = empty_database_url
    assert standing_of(url) is Standing.EMPTY
    migrate(url)
    assert standing_of(url) is Standing.CURRENT
    migrate(url, "base")
    assert standing_of(url) is Standing.EMPTY
    assert _objects(url) == set()
    migrate(url)
    with closing(open_database(url)) as database, database.read() as connection:
        rows = connection.execute(sa.text("SELECT value FROM meta WHERE key = 'program'"))
        assert rows.scalar_one() == "podyard"
        assert connection.execute(sa.text("SELECT name FROM queues")).scalar_one() == "default"


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    before = _objects(database_url)
    migrate(database_url)
    assert _objects(database_url) == before


def test_models_match_the_head(database_url: str) -> None:
    engine = open_engine(database_url)
    with closing(engine.connect()) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        checks = {
            f"{table}.{check['name']}"
            for table in metadata.tables
            for check in sa.inspect(connection).get_check_constraints(table)
        }
    engine.dispose()
    declared = {
        f"{table.name}.{constraint.name}"
        for table in metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint)
    }
    assert checks == declared


def test_database_with_live_gangs_is_upgraded_and_comes_down_again(
    empty_database_url: str,
) -> None:
    url = empty_database_url
    migrate(url, BEFORE_CLAIMS)
    _execute(url, *_LIVE_GANG)
    migrate(url)
    with closing(open_database(url)) as database:
        assert audit_ledger(database).is_clean
        world = load_world(database)
        (job,) = world.jobs.values()
        assert (job.state, job.held, job.evict, job.bound_s) == (JobState.BOUND, False, None, 5.0)
        assert [pod.node for pod in world.live_pods(job.uid)] == ["n1"]
        assert (world.claims, world.windows) == ({}, {})
        assert list_jobs(database).items[0].expected_start_at is None
    _execute(
        url,
        "INSERT INTO claims (uid, why, node, gpu_mask, job_uid, starts_at, revision) "
        "VALUES ('c', 'spare', 'n1', 240, 'j', 0, 2)",
    )
    migrate(url, BEFORE_CLAIMS)
    assert _rows(url, "SELECT uid, state, gpus_held FROM jobs") == [("j", "bound", 4)]
    assert _rows(url, "SELECT gpu_mask_used FROM node_usage") == [(15,)]
    _execute(url, "UPDATE pods SET state = 'stopped'")
    assert _rows(url, "SELECT gpu_mask_used FROM node_usage") == [(0,)]
    migrate(url)
    assert standing_of(url) is Standing.CURRENT


def test_versions_are_named_by_their_files_and_follow_one_another(database_url: str) -> None:
    engine = open_engine(database_url)
    with closing(engine.connect()) as connection:
        scripts = ScriptDirectory.from_config(alembic_config(connection))
        walked = [script.revision for script in scripts.walk_revisions()]
        assert walked[::-1] == known_versions()
        assert scripts.get_current_head() == known_versions()[-1]
        for script in scripts.walk_revisions():
            assert Path(script.path).name.startswith(script.revision)
    engine.dispose()


def test_migrations_are_part_of_the_package() -> None:
    assert importlib.util.find_spec("api.store.migrations.versions") is not None


def test_empty_database_is_refused_with_what_to_do(empty_database_url: str) -> None:
    with pytest.raises(SchemaError, match="is empty; run `podyard migrate"):
        open_database(empty_database_url)


def test_older_database_is_refused_with_what_to_do(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [*known_versions(), "2099_01_01_0000"]
    monkeypatch.setattr("api.store.schema.known_versions", lambda: versions)
    with pytest.raises(SchemaError, match="is older; run `podyard migrate"):
        open_database(database_url)


def test_database_of_a_newer_schema_is_refused(database_url: str) -> None:
    _execute(database_url, "UPDATE alembic_version SET version_num = '2999_01_01_0000'")
    _execute(database_url, "UPDATE meta SET value = '2999_01_01_0000' WHERE key = 'serves'")
    for attempt in (open_database, migrate):
        with pytest.raises(SchemaError, match=r"2999_01_01_0000.*use a newer podyard"):
            attempt(database_url)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE jobs (id INTEGER)"],
        ["CREATE TABLE meta (key TEXT, value TEXT)", "INSERT INTO meta VALUES ('program', 'x')"],
    ],
)
def test_database_of_another_program_is_refused(
    empty_database_url: str, statements: list[str]
) -> None:
    _execute(empty_database_url, *statements)
    for attempt in (open_database, migrate):
        with pytest.raises(SchemaError, match="not Podyard's"):
            attempt(empty_database_url)


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is text, and long enough to be read as a header" * 10)
    with pytest.raises(SchemaError, match="corrupt or of another kind: file is not a database"):
        open_database(f"sqlite:///{tmp_path / 'x.db'}")


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_damaged_file_is_refused(database_url: str) -> None:
    path = Path(database_url.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = os.urandom(64)
    path.write_bytes(content)
    with pytest.raises(SchemaError, match="corrupt"):
        open_database(database_url)


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_damage_in_a_large_file_is_found_by_a_full_check(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.store.schema.QUICK_CHECK_BYTES", 0)
    path = Path(database_url.removeprefix("sqlite:///"))
    with closing(open_database(database_url)) as database:
        check_file(database)
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'facts'"
        ).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : (root - 1) * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with closing(open_database(database_url)) as database, pytest.raises(SchemaError):
        check_file(database)


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_read_only_file_is_refused(database_url: str) -> None:
    path = database_url.removeprefix("sqlite:///")
    with pytest.raises(SchemaError, match="read-only"):
        open_database(f"sqlite:///file:{path}?mode=ro&uri=true")


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_read_only_server_is_refused(database_url: str) -> None:
    name = sa.make_url(database_url).database
    _execute(database_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(SchemaError, match="read-only"):
        open_database(database_url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "is no database URL"),
        ("mysql://localhost/x", "databases of kind 'mysql' are not supported"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:////no/such/folder/x.db", "the folder '/no/such/folder' .* does not exist"),
        ("postgresql://u:secret@127.0.0.1:1/x", "cannot be opened"),
    ],
)
def test_database_that_cannot_be_opened_is_told_in_words(url: str, said: str) -> None:
    with pytest.raises(StartupError, match=said) as caught:
        open_database(url)
    assert "secret" not in str(caught.value)


def _rows(url: str, query: str) -> list[tuple[object, ...]]:
    engine = open_engine(url)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    engine.dispose()
    return rows


def _execute(url: str, *statements: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def _objects(url: str) -> set[str]:
    """Tables, triggers and functions that are not the system's or Alembic's own."""
    engine = open_engine(url)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            query = "SELECT type || ' ' || name FROM sqlite_master"
        else:
            query = (
                "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname = 'public' UNION SELECT proname FROM pg_proc p "
                "JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'public' "
                "UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
            )
        names = connection.exec_driver_sql(query).scalars().all()
    engine.dispose()
    return {name for name in names if "alembic_version" not in name}
