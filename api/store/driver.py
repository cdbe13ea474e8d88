"""Statements by the driver alone, for what is asked in every write: a third of the time.

Errors and lost connections are told of as SQLAlchemy tells of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.connect import READ_ONLY
from api.store.rows import AnyRow

Values = Sequence[object]


def ask(connection: Connection, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement, in the driver's own words; read whole."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, values)
        return cast("list[tuple[Any, ...]]", cursor.fetchall())
    except connection.dialect.loaded_dbapi.Error as error:
        _fail(connection, sql, values, error)
    finally:
        cursor.close()


def tell(connection: Connection, sql: str, values: Values = ()) -> None:
    """Run a statement without rows."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, values)
    except connection.dialect.loaded_dbapi.Error as error:
        _fail(connection, sql, values, error)
    finally:
        cursor.close()


def tell_each(connection: Connection, sql: str, values: Sequence[Values]) -> None:
    """Run a statement without rows once for each; a round trip each but on SQLite."""
    if len(values) == 1:
        tell(connection, sql, values[0])
        return
    cursor = connection.connection.cursor()
    try:
        cursor.executemany(sql, values)
    except connection.dialect.loaded_dbapi.Error as error:
        _fail(connection, sql, values[:1], error)
    finally:
        cursor.close()


class PlainRow:
    """A row that is read like SQLAlchemy's: by attribute, or through `_mapping`."""

    __slots__ = ("_mapping",)

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        self._mapping = mapping

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a column may be of any type
        try:
            return self._mapping[name]
        except KeyError:
            raise AttributeError(name) from None


def ask_rows(
    connection: Connection, sql: str, values: Values, columns: Sequence[str]
) -> list[AnyRow]:
    """The same as `ask`, as rows with these columns."""
    found = ask(connection, sql, values)
    return [cast("AnyRow", PlainRow(dict(zip(columns, row, strict=True)))) for row in found]


def _fail(connection: Connection, sql: str, values: Any, error: Exception) -> NoReturn:  # noqa: ANN401 - one row's values, or those of many
    dialect, pooled = connection.dialect, connection.connection
    is_standby = getattr(error, "sqlstate", None) == READ_ONLY
    cause = cast("Any", error)  # the driver's own kind, whichever that is
    is_lost = is_standby or dialect.is_disconnect(cause, pooled.driver_connection, None)
    if is_lost:
        connection.invalidate(error)
    raise sa.exc.DBAPIError.instance(
        sql,
        values,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=is_lost,
        dialect=dialect,
    ) from error
