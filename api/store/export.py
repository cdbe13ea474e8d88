"""The whole state as rows that any database of the same schema takes.

Written is what is truth. What triggers keep beside it (the ledger's used masks, the counts of jobs)
is left out, as are computed columns: they come about anew where the rows are put in. Rows are in
the order of their keys by code point, so that the same state is the same text on both databases.
"""

import base64
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table

import api.store
from api.store.engine import Database
from api.store.tables import counter, leader, metadata
from scheduler.errors import invariant

Value = str | int | float | bool | None
"""As JSON has it; bytes are base64."""

LEFT_OUT: Mapping[str, str] = {
    "leader": "who leads is of a running service; its epoch goes into the head",
    "log_requests": "somebody waits for the answer of an agent, for some seconds",
}
"""Tables that are no part of the state, with the reason."""

KEPT_BY_TRIGGERS: Mapping[str, frozenset[str]] = {
    "jobs": frozenset({"pods_live", "pods_running", "gpus_held"}),
    "node_usage": frozenset({"gpu_mask_used", "cpu_milli_used", "memory_mib_used", "pods"}),
}
"""Columns that follow from pods."""

_LAST = ("node_usage", "pods", "claims")
"""In this order, for the triggers: a live pod wants the ledger's row of its node. A pod that is to
leave may overlap the claim of the gang it leaves for; the schema takes the claim after the pod, not
the pod after the claim."""

ROWS_AT_ONCE = 1_000

INT_END = 1 << 63
"""No database here keeps a larger number."""


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the rows.

    Attributes:
        schema: Version of the database.
        revision: The last one given.
        epoch: Of the leader.
        counts: Rows of each table, in the order in which they follow.
        columns: Of each table.
    """

    schema: str
    revision: int
    epoch: int
    counts: Mapping[str, int]
    columns: Mapping[str, tuple[str, ...]]


def state_tables() -> tuple[Table, ...]:
    """All tables of the state, each after those that it refers to."""
    for module in pkgutil.iter_modules(api.store.__path__):
        if module.name.startswith("tables"):
            importlib.import_module(f"api.store.{module.name}")
    tables = [t for t in metadata.sorted_tables if t.name not in LEFT_OUT]
    return tuple(sorted(tables, key=lambda t: _LAST.index(t.name) if t.name in _LAST else -1))


def columns_of(table: Table) -> tuple[Column[object], ...]:
    """Columns that are written, in the table's order."""
    kept = KEPT_BY_TRIGGERS.get(table.name, frozenset())
    return tuple(c for c in table.columns if c.computed is None and c.name not in kept)


def columns_by_table() -> dict[str, tuple[str, ...]]:
    """What this program writes, in its order."""
    return {table.name: tuple(c.name for c in columns_of(table)) for table in state_tables()}


@contextmanager
def read_state(db: Database) -> Iterator[tuple[Head, Iterator[tuple[str, list[Value]]]]]:
    """The state of one moment, while others write: its head, and rows with their tables' names."""
    with db.read() as connection:
        yield (
            read_head(connection),
            ((table.name, row) for table in state_tables() for row in read_rows(connection, table)),
        )


def schema_of(db: Database) -> str:
    """The version that a database is at."""
    with db.read() as connection:
        return _schema(connection)


def _schema(connection: Connection) -> str:
    return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one())


def read_head(connection: Connection) -> Head:
    """The head of a snapshot."""
    tables = state_tables()
    return Head(
        schema=_schema(connection),
        revision=connection.execute(sa.select(counter.c.revision)).scalar_one(),
        epoch=connection.execute(sa.select(leader.c.epoch)).scalar_one(),
        counts={
            t.name: connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one()
            for t in tables
        },
        columns=columns_by_table(),
    )


def read_rows(connection: Connection, table: Table) -> Iterator[list[Value]]:
    """Rows of a table in the order of its key; a few at a time are in memory."""
    columns = columns_of(table)
    keys = table.primary_key.columns
    if connection.dialect.name == "postgresql":
        # It sorts text by its locale, SQLite by code point.
        ordered = [c.collate("C") if isinstance(c.type, sa.Text) else c for c in keys]
        query = sa.select(*columns).order_by(*ordered)
    else:
        query = sa.select(*columns).order_by(*keys)
    writers = tuple(map(_writer, columns))
    options = {"stream_results": True, "yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        for row in rows:
            yield [write(value) for write, value in zip(writers, row, strict=True)]


def reader_of(column: Column[object]) -> Callable[[object], object]:
    """What makes a value of JSON one of the database.

    Raises (when called):
        ValueError: If the value is not of the column's kind.
    """
    kind = _kind_of(column)

    def read(value: object) -> object:
        if value is None:
            if not column.nullable:
                raise ValueError(f"column '{column.name}' is empty; it must not be")
            return None
        # A bool is an int to Python and nothing of the kind to a database.
        allowed: tuple[type, ...] = (int, float) if kind is float else (_IN_JSON.get(kind, kind),)
        if not isinstance(value, allowed) or isinstance(value, bool) is not (kind is bool):
            raise ValueError(
                f"column '{column.name}' is {str(value)[:40]!r}; it must be of kind {kind.__name__}"
            )
        if isinstance(value, int) and not -INT_END <= value < INT_END:
            raise ValueError(f"column '{column.name}' is {value}; that is beyond 64 bits")
        if isinstance(value, str) and kind is bytes:
            return base64.b64decode(value, validate=True)
        return float(value) if isinstance(value, int) and kind is float else value

    return read


_IN_JSON: Mapping[type, type] = {bytes: str}


def _kind_of(column: Column[object]) -> type:
    kind = column.type.python_type
    invariant(
        kind in {str, int, float, bool, bytes},
        f"column {column.table.name}.{column.name} is of kind {kind.__name__}",
    )
    return kind


def _writer(column: Column[object]) -> Callable[[object], Value]:
    kind = _kind_of(column)

    def write(value: object) -> Value:
        if isinstance(value, bytes | memoryview):
            return base64.b64encode(value).decode()
        if value is None or isinstance(value, str | int | float):
            return value
        raise TypeError(f"column '{column.name}' has a value of kind {type(value).__name__}")

    def write_float(value: object) -> Value:
        return float(value) if isinstance(value, int) else write(value)

    return write_float if kind is float else write
