"""Whether a database is ours, empty, old, new or broken; and its migrations.

Alembic is imported only when there is something to migrate, which keeps the start quick.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from api.store.connect import CONNECTIONS
from api.store.engine import Database, open_engine
from api.store.errors import SchemaError, StartupError
from api.store.migrations import SERVES_FROM
from api.store.tables import counter

if TYPE_CHECKING:
    from alembic.config import Config

PROGRAM = "podyard"
SERVES = "serves"
"""Key of the oldest schema whose program may use the database; see `migrations.SERVES_FROM`."""
MIGRATION_LOCK = 0x706F64796D67
"""Key of PostgreSQL's advisory lock for migrations ("podymg")."""
QUICK_CHECK_BYTES = 64 * 1024 * 1024
"""SQLite files up to this size are checked whole at the start, in about 0.1 s."""


class Standing(StrEnum):
    """What a database is to this program."""

    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"
    """By additions alone: it says that this program may use it."""


def known_versions() -> list[str]:
    """Revisions of the shipped migrations, oldest first."""
    folder = resources.files("api.store.migrations") / "versions"
    return sorted(
        f.name[:15] for f in folder.iterdir() if f.name[:2] == "20" and f.name.endswith(".py")
    )


def open_database(url: str, connections: int = CONNECTIONS) -> Database:
    """Open a database whose schema is this program's.

    Args:
        connections: Most at a time, of PostgreSQL.

    Raises:
        SchemaError: If it is empty, of a version or program that does not fit, corrupt or
            read-only.
        StartupError: If it cannot be reached.
    """
    engine = open_engine(url, connections)
    try:
        standing = inspect(engine)
        if standing not in {Standing.CURRENT, Standing.NEWER}:
            raise SchemaError(
                f"the database {shown(engine)} is {standing}; "
                "run `podyard migrate --database-url ...` first"
            )
        database = Database(engine.url.render_as_string(hide_password=False), engine)
        database.notifier.look()  # what has happened before is news to nobody
    except BaseException:
        engine.dispose()
        raise
    return database


def standing_of(url: str) -> Standing:
    """Where the schema of a database stands; raises as `inspect`."""
    engine = open_engine(url)
    try:
        return inspect(engine)
    finally:
        engine.dispose()


def check_file(db: Database) -> None:
    """Check every page of a SQLite file; takes seconds for gigabytes.

    Raises:
        SchemaError: If it is corrupt.
    """
    if db.is_sqlite:
        with _clear_errors(db.engine), db.engine.connect() as connection:
            _check_pages(connection)


def inspect(engine: Engine) -> Standing:
    """Where the schema stands.

    Raises:
        SchemaError: If it is newer than this program, of another program, corrupt or read-only.
        StartupError: If it cannot be reached.
    """
    with _clear_errors(engine), engine.execution_options(immediate=True).connect() as connection:
        _check_sqlite_file(connection)
        return _standing(connection)


def migrate(url: str, target: str = "head") -> None:
    """Bring a database up to `head`, or to another version, in one transaction.

    One that is newer, and lets this program use it, is left as it is.

    Raises:
        SchemaError, StartupError: As `inspect`.
    """
    engine = open_engine(url)
    try:
        if inspect(engine) is Standing.NEWER:
            if target == "head":
                return
            raise SchemaError(
                f"the database {shown(engine)} is newer than this program; only the program that "
                f"brought it there can take it to {target}"
            )
        with _clear_errors(engine), _foreign_keys_off(engine) as connection:
            _run_alembic(connection, target)
    finally:
        engine.dispose()


def alembic_config(connection: Connection) -> "Config":
    """Alembic's configuration for a connection, without any file beside the package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def shown(engine: Engine) -> str:
    """The database's URL without its password, in quotes."""
    return f"'{engine.url.render_as_string(hide_password=True)}'"


def _run_alembic(connection: Connection, target: str) -> None:
    from alembic import command

    config = alembic_config(connection)
    if target == "head" or (target in known_versions() and not _is_down(connection, target)):
        command.upgrade(config, target)
    else:
        command.downgrade(config, target)
    if target != "base":
        _say_whom_it_serves(connection, is_newest=target in {"head", known_versions()[-1]})


def _say_whom_it_serves(connection: Connection, *, is_newest: bool) -> None:
    """Programs of earlier versions, which know nothing of this one, go by it."""
    connection.execute(sa.text("DELETE FROM meta WHERE key = :key"), {"key": SERVES})
    if is_newest:
        row = {"key": SERVES, "value": SERVES_FROM}
        connection.execute(sa.text("INSERT INTO meta (key, value) VALUES (:key, :value)"), row)


def _is_down(connection: Connection, target: str) -> bool:
    if not sa.inspect(connection).has_table("alembic_version"):
        return False
    version = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return version is not None and target < version


def _standing(connection: Connection) -> Standing:
    tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    if not tables:
        return Standing.EMPTY
    where = shown(connection.engine)
    program = None
    if "meta" in tables:
        program = connection.execute(
            sa.text("SELECT value FROM meta WHERE key = 'program'")
        ).scalar()
    if program != PROGRAM:
        raise SchemaError(
            f"the database {where} has tables but is not Podyard's; choose an empty one"
        )
    version, standing = _compare(connection)
    if standing is None:
        raise SchemaError(f"the database {where} {_too_new(version)}")
    # Rolled back; where nothing can be written, this says so.
    connection.execute(sa.text("UPDATE meta SET value = value WHERE key = 'program'"))
    return standing


def trouble_with_schema(db: Database) -> str | None:
    """Why this program cannot use the database any more, as somebody has migrated it meanwhile."""
    with db.read() as connection:
        version, standing = _compare(connection)
    if standing is None:
        return _too_new(version)
    if standing is Standing.OLDER:
        return f"has schema {version}, this program needs {known_versions()[-1]}; migrate it"
    return None


def _compare(connection: Connection) -> tuple[str, Standing | None]:
    """The database's version, and where it stands; None if this program is too old for it."""
    version = str(
        connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
    )
    known = known_versions()
    if version in known:
        return version, Standing.CURRENT if version == known[-1] else Standing.OLDER
    query = sa.text("SELECT value FROM meta WHERE key = :key")
    serves = connection.execute(query, {"key": SERVES}).scalar()
    # Versions are dates: the later, the newer.
    is_served = serves is not None and str(serves) <= known[-1] < version
    return version, Standing.NEWER if is_served else None


def _too_new(version: str) -> str:
    return (
        f"has schema {version}, this program knows those up to {known_versions()[-1]}; "
        "use a newer podyard"
    )


def _check_sqlite_file(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    size = connection.exec_driver_sql(
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    ).scalar_one()
    if size <= QUICK_CHECK_BYTES:
        _check_pages(connection)


def _check_pages(connection: Connection) -> None:
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if found != "ok":
        where = shown(connection.engine)
        raise SchemaError(f"the database {where} is corrupt: {found}; restore a backup")


@contextmanager
def _foreign_keys_off(engine: Engine) -> Iterator[Connection]:
    """A write transaction in which SQLite may copy tables that others refer to."""
    with engine.execution_options(immediate=True).connect() as connection:
        if connection.dialect.name == "sqlite":
            raw = connection.connection.driver_connection
            if raw is not None:
                raw.execute("PRAGMA foreign_keys=OFF")
        with connection.begin():
            if connection.dialect.name == "postgresql":
                # A migration that cannot have its locks soon gives way to the running service.
                connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
                # Two at once would both find the database empty.
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
                hold_writers(connection)
            yield connection
            if connection.dialect.name == "sqlite":
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
                if broken is not None:
                    raise SchemaError(
                        f"the migration would leave a row without its parent: {tuple(broken)}"
                    )


def hold_writers(connection: Connection) -> None:
    """Keep all writers of a running service out until this transaction ends; PostgreSQL only.

    They begin with the counter, so none of them holds a table that a migration waits for while it
    waits for one that the migration holds. Who only reads is not kept out.
    """
    if sa.inspect(connection).has_table(counter.name):
        connection.exec_driver_sql(f"LOCK TABLE {counter.name} IN EXCLUSIVE MODE")


@contextmanager
def _clear_errors(engine: Engine) -> Iterator[None]:
    """Say in words what a driver says in exceptions."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        text = (
            str(error.orig).strip().splitlines()[0]
            if str(error.orig).strip()
            else type(error.orig).__name__
        )
        where = shown(engine)
        if "readonly" in text or "read-only" in text:
            raise SchemaError(f"the database {where} is read-only: {text}") from None
        if "not a database" in text or "malformed" in text:
            raise SchemaError(
                f"the database {where} is corrupt or of another kind: {text}"
            ) from None
        if "full" in text or "No space" in text:
            raise StartupError(f"there is no room left for the database {where}: {text}") from None
        if any(word in text for word in ("locked", "lock timeout", "deadlock")):
            raise StartupError(
                f"the database {where} is locked by another process: {text}"
            ) from None
        raise StartupError(f"the database {where} cannot be opened: {text}") from None
