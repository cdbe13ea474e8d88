"""What goes into a file comes out of it: on either database, whatever is in the tables."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.store.engine import Database
from api.store.export import columns_of, read_state, state_tables
from api.store.ledger import audit_ledger
from api.store.restore import restore
from api.store.schema import open_database
from api.transfer.archive import Archive, write_archive
from tests.conftest import PostgresqlPool
from tests.migrations.filler import BY_HAND, fill

Lines = list[list[object]]


def write(db: Database, path: Path) -> Path:
    with read_state(db) as (head, rows):
        write_archive(path, head, rows)
    return path


def take_in(db: Database, path: Path, *, replace: bool = False, skip: int = 0) -> None:
    with closing(Archive(path)) as archive:
        restore(db, archive.head, archive.rows(), replace=replace, skip=skip)


def lines_of(path: Path) -> Lines:
    """All rows of a file, without its head and its end."""
    with gzip.open(path) as file:
        return [json.loads(line) for line in file][1:-1]


@contextmanager
def other(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A second, empty database."""
    if kind == "sqlite":
        path = folder / "other.db"
        path.write_bytes(Path(request.getfixturevalue("sqlite_template")).read_bytes())
        with closing(open_database(f"sqlite:///{path}")) as made:
            yield made
        return
    pool: PostgresqlPool = request.getfixturevalue("postgresql_pool")
    with pool.lend() as url, closing(open_database(url)) as made:
        yield made


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_every_table_goes_there_and_back(
    database: Database, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with database.engine.begin() as connection:
        fill(connection)
    first = write(database, tmp_path / "first.gz")
    with other(target, tmp_path, request) as there:
        take_in(there, first)
        assert audit_ledger(there).is_clean
        second = write(there, tmp_path / "second.gz")
    assert lines_of(second) == lines_of(first)
    filled = {str(line[0]) for line in lines_of(first)}
    assert {table.name for table in state_tables()} - filled <= {
        "clock", "decisions", "decision_bases"
    } - BY_HAND  # fmt: skip


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def contents(draw: st.DrawFn) -> dict[str, list[dict[str, object]]]:
    """Rows of tables that nothing watches over, of any values."""
    by_kind: dict[type, st.SearchStrategy[object]] = {
        str: TEXTS, int: NUMBERS, float: FLOATS, bool: st.booleans(), bytes: st.binary(max_size=20)
    }  # fmt: skip
    found: dict[str, list[dict[str, object]]] = {}
    tables = [
        t for t in state_tables() if t.name in {"events", "idempotency", "facts", "decisions"}
    ]
    for table in tables:
        columns = columns_of(table)
        row = st.fixed_dictionaries(
            {
                c.name: (
                    by_kind[c.type.python_type]
                    if not c.nullable
                    else st.none() | by_kind[c.type.python_type]
                )
                for c in columns
                if c.name != "step"
            }
            | ({"step": st.integers(0, 2**31 - 1)} if "step" in table.c else {})
            | {c.name: st.integers(-(2**31), 2**31 - 1) for c in columns if _is_short(c)}
        )
        found[table.name] = draw(st.lists(row, max_size=4, unique_by=_key_of(table)))
    return found


def _key_of(table: sa.Table) -> Callable[[dict[str, object]], tuple[object, ...]]:
    names = [column.name for column in table.primary_key.columns]
    return lambda row: tuple(row[name] for name in names)


def _is_short(column: sa.Column[object]) -> bool:
    return isinstance(column.type, sa.Integer) and not isinstance(column.type, sa.BigInteger)


@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(rows=contents())
def test_any_value_that_a_database_keeps_comes_back(
    database: Database, tmp_path: Path, rows: dict[str, list[dict[str, object]]]
) -> None:
    with database.engine.begin() as connection:
        for table in state_tables():
            if table.name in rows:
                connection.execute(sa.delete(table))
                if rows[table.name]:
                    connection.execute(sa.insert(table), rows[table.name])
    first = write(database, tmp_path / "first.gz")
    take_in(database, first, replace=True)
    second = write(database, tmp_path / "second.gz")
    assert lines_of(second) == lines_of(first)
