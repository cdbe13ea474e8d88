"""The whole state put into a database: all of it in one transaction, or nothing."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table

from api.store.bulk import insert_rows
from api.store.engine import Database, sqlite_path
from api.store.errors import StartupError
from api.store.export import ROWS_AT_ONCE, Head, columns_of, reader_of, state_tables
from api.store.ledger import audit_in
from api.store.tables import counter, leader

_SEEDED = frozenset({"meta", "counter", "queues", "token_state"})
"""Tables in which a migration writes rows."""


class ImportRefused(StartupError):
    """A state cannot be put into a database; nothing was written."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a database has become.

    Attributes:
        rows: Put in.
        revision: The last one given; `oldest`: the smallest that a watch may go on from.
        epoch: The next leader's is higher.
        pods, nodes: Live pods, and nodes of the ledger that their sum agrees with.
    """

    rows: int
    revision: int
    oldest: int
    epoch: int
    pods: int
    nodes: int


def is_unused(connection: Connection) -> bool:
    """Whether nothing was ever written but what a migration writes."""
    if connection.execute(sa.select(counter.c.revision)).scalar_one() > 0:
        return False
    tables = (table for table in state_tables() if table.name not in _SEEDED)
    return not any(
        connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
        for table in tables
    )


def restore(
    db: Database,
    head: Head,
    rows: Iterable[tuple[str, list[object]]],
    *,
    replace: bool,
    skip: int,
) -> Restored:
    """Put rows into a database in place of what is there.

    Args:
        rows: Each with the name of its table, in the order of `state_tables`; whatever it raises
            undoes everything.
        replace: The database may have rows.
        skip: Revisions that are left out, as they may have been given since the copy was made.

    Raises:
        ImportRefused: If it is in use, has rows that are not to be replaced, or refuses new ones.
    """
    if head.counts.get(counter.name) != 1:
        raise ImportRefused("the file contradicts itself: it has not one counter")
    with _alone(db), db.write_quietly() as connection:
        before = _lock(connection, db)
        if not replace and not is_unused(connection):
            raise ImportRefused(
                "the database is not empty; name another, or say --replace to have all of it go"
            )
        for table in reversed(state_tables()):
            if table.name != counter.name:
                connection.execute(sa.delete(table))
        try:
            count = _insert(connection, rows)
        except (sa.exc.IntegrityError, sa.exc.DataError) as error:
            said = str(error.orig).strip().splitlines()[0]
            raise ImportRefused(f"the database refuses it: {said}") from None
        return _go_on(connection, head, before, count, skip)


def skip_ahead(db: Database, *, skip: int) -> Restored:
    """A database is an older copy of what ran: depose who led, leave revisions out.

    Raises:
        ImportRefused: If it is in use.
    """
    with _alone(db), db.write_quietly() as connection:
        before = _lock(connection, db)
        return _go_on(connection, before, before, 0, skip)


def _go_on(connection: Connection, head: Head, before: Head, count: int, skip: int) -> Restored:
    """Set all that counts, so that nobody takes up anything that is not so any more."""
    kept = connection.execute(sa.select(counter.c.revision, counter.c.oldest)).one()
    revision, oldest = int(kept.revision), int(kept.oldest)
    if revision != head.revision:
        raise ImportRefused("the file contradicts itself: its counter is not at its revision")
    # A revision that was given once for something else is given to nobody again, and whoever has
    # read up to one is told to list anew.
    if before.revision > revision:
        revision = oldest = before.revision + 1
    if skip:
        revision = oldest = revision + skip
    connection.execute(sa.update(counter).values(revision=revision, oldest=oldest))
    _set_sequences(connection)
    epoch = max(head.epoch, before.epoch) + 1
    connection.execute(sa.update(leader).values(epoch=epoch, holder="", seen_at=0.0))
    audit = audit_in(connection)
    if audit.differences or audit.doubles:
        found = [*audit.doubles, *map(str, audit.differences)]
        raise ImportRefused(f"the ledger does not agree with the pods: {found[0]}")
    return Restored(count, revision, oldest, epoch, audit.pods, audit.nodes)


def _set_sequences(connection: Connection) -> None:
    """Where PostgreSQL numbers rows itself it goes on after the last; SQLite does so anyway."""
    if connection.dialect.name != "postgresql":
        return
    for table in state_tables():
        column = table.autoincrement_column
        if column is not None and column.autoincrement is True:
            last = sa.select(sa.func.coalesce(sa.func.max(column), 0)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            # `false`: the number is the next one, not the last.
            connection.execute(sa.select(sa.func.setval(sequence, last + 1, False)))


def _lock(connection: Connection, db: Database) -> Head:
    """Take the lock of all writers; where the database stands."""
    if not db.is_sqlite:
        _refuse_company(connection)
    revision = connection.execute(sa.select(counter.c.revision).with_for_update()).scalar_one()
    epoch = connection.execute(sa.select(leader.c.epoch)).scalar_one()
    return Head("", revision, epoch, {}, {})


def _insert(connection: Connection, rows: Iterable[tuple[str, list[object]]]) -> int:
    count = 0
    for table, some in _by_table(rows):
        made = _read(table, some)
        own = _own_parent(table)
        count += len(made)
        if table is counter:
            connection.execute(sa.update(counter).values(made[0]))
        elif own is None:
            insert_rows(connection, table, made)
        else:
            _insert_children(connection, table, own, made)
    return count


def _read(table: Table, rows: list[list[object]]) -> list[dict[str, object]]:
    readers = [(column.name, reader_of(column)) for column in columns_of(table)]
    try:
        return [
            {name: read(value) for (name, read), value in zip(readers, row, strict=True)}
            for row in rows
        ]
    except ValueError as error:
        raise ImportRefused(f"a row of table '{table.name}' cannot be taken: {error}") from None


def _by_table(
    rows: Iterable[tuple[str, list[object]]],
) -> Iterator[tuple[Table, list[list[object]]]]:
    """Some rows of one table at a time; all of a table whose rows refer to one another."""
    tables = {table.name: table for table in state_tables()}
    table: Table | None = None
    held: list[list[object]] = []
    for name, row in rows:
        of = tables[name]
        is_full = len(held) >= ROWS_AT_ONCE and _own_parent(of) is None
        if table is not None and (of is not table or is_full):
            yield table, held
            held = []
        table = of
        held.append(row)
    if table is not None:
        yield table, held


def _own_parent(table: Table) -> Column[object] | None:
    """The column that names another row of the same table."""
    return next((k.parent for k in table.foreign_keys if k.column.table is table), None)


def _insert_children(
    connection: Connection,
    table: Table,
    parent: Column[object],
    rows: list[dict[str, object]],
) -> None:
    """Rows without their parents first, then whose children they are."""
    (key,) = table.primary_key.columns
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        insert_rows(connection, table, [row | {parent.name: None} for row in some])
    for row in rows:
        if row[parent.name] is not None:
            mine = key == row[key.name]
            connection.execute(sa.update(table).where(mine).values({parent.name: row[parent.name]}))


@contextmanager
def _alone(db: Database) -> Iterator[None]:
    """Keep a service from leading on a SQLite file meanwhile; the lock is the leader's."""
    if not db.is_sqlite:
        yield
        return
    file = os.open(Path(f"{sqlite_path(db.engine.url)}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImportRefused(_IN_USE) from None
        yield
    finally:
        os.close(file)


def _refuse_company(connection: Connection) -> None:
    """Other processes have a picture of the database in memory, which would be of another one.

    Each process names its sessions after the program and itself.
    """
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE 'podyard%' "
        "AND application_name <> current_setting('application_name')"
    )
    if connection.execute(query).scalar_one():
        raise ImportRefused(_IN_USE)


_IN_USE = "a service runs on this database; stop it first, all replicas of it"
