"""Many rows in one statement: one round trip, and one firing of PostgreSQL's statement triggers."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY

from api.store.driver import tell, tell_each

_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]  # without annotations there

Row = Mapping[str, object]

_NUL = "\0"
"""In no text that PostgreSQL takes."""


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that all have the same columns."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        columns = tuple(rows[0])
        values = [tuple(row[c] for c in columns) for row in rows]
        tell_each(connection, _values_sql(table, columns, "?"), values)
    else:
        tell(connection, *_insert(table, rows))


def insert_all_and(
    connection: Connection,
    inserts: Sequence[tuple[Table, Sequence[Row]]],
    then: str,
    *values: object,
) -> None:
    """Insert rows of some tables and run one more statement, in one round trip where that is had.

    Args:
        inserts: Tables with rows that all have the same columns; at least one row each.
        then: An UPDATE in the driver's own words, with its values in `values`.
    """
    if connection.dialect.name == "sqlite":
        for table, rows in inserts:
            insert_rows(connection, table, rows)
        tell(connection, then.replace("%s", "?"), values)
        return
    parts: list[str] = []
    given: list[object] = []
    for number, (table, rows) in enumerate(inserts):
        sql, of_these = _insert(table, rows)
        parts.append(f"part_{number} AS ({sql})")
        given.extend(of_these)
    tell(connection, f"WITH {', '.join(parts)} {then}", (*given, *values))


def upsert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, or set all their columns where the primary key is there already."""
    if not rows:
        return
    columns = tuple(rows[0])
    if connection.dialect.name == "sqlite":
        values = [tuple(row[c] for c in columns) for row in rows]
        tell_each(connection, _sqlite_upsert_sql(table, columns), values)
    else:
        _send(connection, _insert_sql(table, columns) + _on_conflict(table, columns), rows)


def add_rows(connection: Connection, table: Table, rows: Sequence[Row], counted: str) -> None:
    """Insert rows; where the primary key is there already, add to its `counted` column."""
    if not rows:
        return
    columns = tuple(rows[0])
    keys = ", ".join(c.name for c in table.primary_key.columns)
    sums = f"{counted} = {table.name}.{counted} + excluded.{counted}"
    then = f" ON CONFLICT ({keys}) DO UPDATE SET {sums}"
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks}){then}",
            [tuple(row[c] for c in columns) for row in rows],
        )
    else:
        _send(connection, _insert_sql(table, columns) + then, rows)


def update_rows(connection: Connection, table: Table, key: str, rows: Sequence[Row]) -> None:
    """Set every column of `rows` but `key` in the row that has the key."""
    if not rows:
        return
    columns = tuple(rows[0])
    is_lite = connection.dialect.name == "sqlite"
    if is_lite or len(rows) == 1:
        mark = "?" if is_lite else "%s"
        settings = ", ".join(f"{c} = {mark}" for c in columns if c != key)
        values = [(*(row[c] for c in columns if c != key), row[key]) for row in rows]
        tell_each(connection, f"UPDATE {table.name} SET {settings} WHERE {key} = {mark}", values)
    else:
        _send(connection, _update_sql(table, key, columns), rows)


def among(
    connection: Connection, column: Column[Any], values: Collection[object]
) -> ColumnElement[bool]:
    """`column` is one of many values: one parameter, so that the statement stays the same."""
    if connection.dialect.name == "sqlite":
        listed = sa.func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(sa.select(listed.c.value))
    return column == sa.any_(sa.literal(list(values), ARRAY(column.type)))


def within(
    connection: Connection, column: Column[str], namespaces: Collection[str] | None
) -> list[ColumnElement[bool]]:
    """The condition that `column` is one of the namespaces that are shown; none where all are."""
    return [] if namespaces is None else [among(connection, column, sorted(namespaces))]


@lru_cache(maxsize=64)
def plain_sql(statement: sa.ClauseElement, dialect: sa.Dialect) -> str:
    """A statement without parameters as the driver takes it, compiled once.

    For what is asked in every transaction: the driver alone takes a third of the time.
    """
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _send(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    tell(connection, sql, _by_column(rows))


def _insert(table: Table, rows: Sequence[Row]) -> tuple[str, tuple[object, ...]]:
    """PostgreSQL's statement and its values; a single row needs no arrays."""
    columns = tuple(rows[0])
    if len(rows) == 1:
        return _values_sql(table, columns, "%s"), tuple(rows[0].values())
    return _insert_sql(table, columns), _by_column(rows)


def _by_column(rows: Sequence[Row]) -> tuple[object, ...]:
    return tuple(array_of([row[column] for row in rows]) for column in rows[0])


def array_of(values: Sequence[object]) -> object:
    """An array parameter of PostgreSQL: its text, or the list where its kind is not one of these.

    The driver makes the text value by value, which was an eighth of what a large commit takes.

    Args:
        values: All strings, or all numbers or booleans; some may be None.
    """
    first = next((value for value in values if value is not None), None)
    if not isinstance(first, str | int | float | None):
        return values
    if not isinstance(first, str):
        texts = ["NULL" if value is None else str(value) for value in values]
        return f"{{{','.join(texts)}}}"
    given = [value for value in values if isinstance(value, str)]
    joined = _NUL.join(given)
    if joined.count(_NUL) >= len(given):
        return values  # the driver refuses it
    quoted = joined.replace("\\", "\\\\").replace('"', '\\"').split(_NUL)
    rest = iter(quoted)
    texts = ["NULL" if value is None else f'"{next(rest)}"' for value in values]
    return f"{{{','.join(texts)}}}"


def _arrays(table: Table, columns: tuple[str, ...]) -> str:
    return ", ".join(f"%s::{_type_of(table, c)}[]" for c in columns)


@lru_cache(maxsize=256)
def _type_of(table: Table, column: str) -> str:
    return str(table.c[column].type.compile(dialect=_POSTGRESQL)).partition(" COLLATE")[0]


@lru_cache(maxsize=64)
def _values_sql(table: Table, columns: tuple[str, ...], mark: str) -> str:
    marks = ", ".join([mark] * len(columns))
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"


@lru_cache(maxsize=64)
def _insert_sql(table: Table, columns: tuple[str, ...]) -> str:
    names = ", ".join(columns)
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({_arrays(table, columns)})"


@lru_cache(maxsize=64)
def _on_conflict(table: Table, columns: tuple[str, ...]) -> str:
    keys = [c.name for c in table.primary_key.columns]
    settings = ", ".join(f"{c} = excluded.{c}" for c in columns if c not in keys)
    return f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {settings}"


@lru_cache(maxsize=64)
def _sqlite_upsert_sql(table: Table, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})" + _on_conflict(
        table, columns
    )


@lru_cache(maxsize=64)
def _update_sql(table: Table, key: str, columns: tuple[str, ...]) -> str:
    settings = ", ".join(f"{c} = d.{c}" for c in columns if c != key)
    return (
        f"UPDATE {table.name} AS t SET {settings} "
        f"FROM unnest({_arrays(table, columns)}) AS d({', '.join(columns)}) WHERE t.{key} = d.{key}"
    )
