"""Engines: which databases there are, and how each is set up."""

import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from api.store.errors import StartupError

LOCK_WAIT_S = 30
"""Longest wait for the write lock: an import of 100,000 nodes takes a few seconds."""

TRUSTED_S = 1.0
"""A connection used so recently is not asked first whether it still lives."""


def open_engine(url: str) -> Engine:
    """An engine with this project's settings; touches nothing yet.

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
        return _postgresql_engine(parsed.set(drivername="postgresql+psycopg"))
    if parsed.drivername in {"sqlite", "sqlite+pysqlite"}:
        return _sqlite_engine(parsed)
    raise StartupError(
        f"databases of kind '{parsed.drivername}' are not supported; "
        "use sqlite:///FILE or postgresql://..."
    )


def sqlite_path(url: sa.URL) -> Path:
    """The file of a SQLite database, absolute."""
    return Path((url.database or "").removeprefix("file:")).absolute()


def _postgresql_engine(url: sa.URL) -> Engine:
    arguments: dict[str, object] = {"connect_timeout": 5, "application_name": "podyard"}
    if "options" not in url.query:
        arguments["options"] = (
            f"-c lock_timeout={LOCK_WAIT_S}s -c idle_in_transaction_session_timeout=60s"
        )
    engine = sa.create_engine(
        url, pool_size=10, max_overflow=30, pool_timeout=30, connect_args=arguments
    )
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _check_life)
    return engine


def _note_use(_connection: object, entry: ConnectionPoolEntry) -> None:
    entry.info["used_at"] = time.monotonic()


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
