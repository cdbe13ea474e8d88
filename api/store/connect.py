"""Engines: which databases there are, and how each is set up."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from api.store.errors import StartupError

LOCK_WAIT_S = 30
"""Longest wait for the write lock: an import of 100,000 nodes takes a few seconds."""

TRUSTED_S = 1.0
"""A connection used so recently is not asked first whether it still lives."""

CONNECTIONS = 30
"""Of one process, at most, beside the two that are its alone: the leader's and the listener's.
Three processes fit below PostgreSQL's default of 100."""

KEPT_OPEN = 10
"""Of those, while nobody needs them."""

POOL_WAIT_S = 10.0
"""For one of them to be free; then the caller is told to come back."""

READ_ONLY = "25006"
"""PostgreSQL's code of a write on a server that takes none, such as a standby."""

ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A peer that went without a word is noticed in some ten seconds, on either side."""

SESSION = (
    f"-c lock_timeout={LOCK_WAIT_S}s -c idle_in_transaction_session_timeout=60s "
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 "
    "-c tcp_user_timeout=10000"
)

NAME_MAX = 63
"""Bytes that PostgreSQL keeps of a session's name."""


def process_name() -> str:
    """Host and process id: for people, and for who has to end the sessions of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def session_name(process: str) -> str:
    """What the sessions of a process are called in `pg_stat_activity`."""
    # The end of a host's name tells replicas apart.
    return f"podyard {process[-(NAME_MAX - len('podyard ')) :]}"


def open_engine(url: str, connections: int = CONNECTIONS) -> Engine:
    """An engine with this project's settings; touches nothing yet.

    Args:
        connections: Most at a time; of SQLite's files there are as many as are needed.

    Raises:
        StartupError: If the URL is of no database that is supported.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise StartupError(
            f"'{url}' is no database URL; write sqlite:///FILE or postgresql://..."
        ) from None
    if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return _postgresql_engine(parsed.set(drivername="postgresql+psycopg"), connections)
    if parsed.drivername in {"sqlite", "sqlite+pysqlite"}:
        return _sqlite_engine(parsed)
    raise StartupError(
        f"databases of kind '{parsed.drivername}' are not supported; "
        "use sqlite:///FILE or postgresql://..."
    )


def sqlite_path(url: sa.URL) -> Path:
    """The file of a SQLite database, absolute."""
    return Path((url.database or "").removeprefix("file:")).absolute()


def lone_engine(engine: Engine) -> Engine:
    """An engine to PostgreSQL whose every connection is new, and outside of what is pooled.

    So neither who leads nor who listens waits for requests that have all connections.
    """
    return sa.create_engine(engine.url, poolclass=NullPool, connect_args=_arguments(engine.url))


def _arguments(url: sa.URL) -> dict[str, object]:
    """What each connection to PostgreSQL is opened with; the URL's own go first.

    But for the name, by which the sessions of a process that went silent are found.
    """
    given: dict[str, object] = {"connect_timeout": 5, "options": SESSION, **ALIVE}
    left = {name: value for name, value in given.items() if name not in url.query}
    return left | {"application_name": session_name(process_name())}


def _postgresql_engine(url: sa.URL, connections: int) -> Engine:
    kept = min(KEPT_OPEN, connections)
    engine = sa.create_engine(
        url,
        pool_size=kept,
        max_overflow=connections - kept,
        pool_timeout=POOL_WAIT_S,
        connect_args=_arguments(url),
    )
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _check_life)
    event.listen(engine, "handle_error", _leave_standby)
    return engine


def own_sessions(engine: Engine) -> set[int]:
    """Process ids of PostgreSQL's sessions of an engine, kept up to date from now on."""
    own: set[int] = set()

    def note(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - DB-API has no type
        if "session" not in entry.info:
            entry.info["session"] = connection.info.backend_pid
            own.add(connection.info.backend_pid)

    def forget(_connection: object, entry: ConnectionPoolEntry) -> None:
        own.discard(entry.info.pop("session", 0))

    event.listen(engine, "checkout", note)
    event.listen(engine, "close", forget)
    return own


def _leave_standby(context: ExceptionContext) -> None:
    """Drop a connection to a server that takes no writes: after a failover it is the wrong one."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False


def _note_use(connection: Any, entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - DB-API has no type
    entry.info["used_at"] = time.monotonic()
    if connection is not None and connection.read_only is not None:
        # Whoever read leaves it saying READ WRITE, against what the server wants by then; where it
        # is dead it is found so when it is wanted again.
        with suppress(connection.Error):
            connection.read_only = None


def _check_life(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 - DB-API has no type
    used_at = entry.info.get("used_at")
    if used_at is None or time.monotonic() - used_at < TRUSTED_S:
        return
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except connection.OperationalError as error:
        # The pool tries again with a new connection.
        raise sa.exc.DisconnectionError from error


def _sqlite_engine(url: sa.URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise StartupError("a SQLite database needs a file, as in sqlite:///podyard.db")
    folder = sqlite_path(url).parent
    if not folder.is_dir():
        raise StartupError(f"the folder '{folder}' of the database does not exist")
    engine = sa.create_engine(
        url,
        pool_size=10,
        max_overflow=30,
        connect_args={"check_same_thread": False, "timeout": LOCK_WAIT_S},
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - DB-API has no type
    # The driver would begin transactions itself, too late and never IMMEDIATE.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "recursive_triggers=ON",  # REPLACE must fire the delete triggers of the ledger
        "temp_store=MEMORY",
        "cache_size=-16000",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
