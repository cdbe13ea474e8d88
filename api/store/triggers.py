"""The triggers that keep the ledger and the claims: whether all are there, and put back if not.

Somebody who repairs a database by hand switches them off, and may forget to switch them on. From
then on nothing refuses a GPU that is given twice.
"""

import re
from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.migrations import claims_2026_12_01, ledger_2026_12_01
from api.store.wrong import Wrong, WrongKind

_NAME = re.compile(r"CREATE TRIGGER (\w+) .*? ON (\w+)", re.DOTALL)


def _named(statements: list[str]) -> dict[str, tuple[str, str]]:
    """Trigger -> its table, and the statement that makes it."""
    found = ((_NAME.match(statement.strip()), statement) for statement in statements)
    return {match[1]: (match[2], statement) for match, statement in found if match}


_SQLITE = _named([*ledger_2026_12_01.SQLITE_UP, *claims_2026_12_01.SQLITE_UP])
_POSTGRESQL = _named([*ledger_2026_12_01.POSTGRESQL_UP, *claims_2026_12_01.POSTGRESQL_UP])


def _wanted(connection: Connection) -> Mapping[str, tuple[str, str]]:
    return _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL


def _working(connection: Connection) -> dict[str, bool]:
    """Triggers that exist, and whether they are switched on."""
    if connection.dialect.name == "sqlite":
        names = connection.execute(
            sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        ).scalars()
        return dict.fromkeys(names, True)
    rows = connection.execute(
        sa.text(
            "SELECT t.tgname, t.tgenabled <> 'D' FROM pg_trigger t "
            "JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal "
            "AND c.relnamespace = current_schema()::regnamespace"
        )
    )
    return {name: bool(is_on) for name, is_on in rows}


def audit_triggers(connection: Connection) -> tuple[Wrong, ...]:
    """Those that are not there or are switched off."""
    working = _working(connection)
    return tuple(
        Wrong(
            WrongKind.NO_TRIGGER,
            f"the trigger '{name}' on {table} is "
            f"{'switched off' if name in working else 'not there'}: the ledger is not kept",
            uids=(name,),
        )
        for name, (table, _) in sorted(_wanted(connection).items())
        if not working.get(name, False)
    )


def restore_triggers(connection: Connection) -> Iterator[str]:
    """Put back what is missing; what was done, in words."""
    working = _working(connection)
    for name, (table, statement) in sorted(_wanted(connection).items()):
        if working.get(name, False):
            continue
        if name in working:
            connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE TRIGGER {name}")
        else:
            connection.exec_driver_sql(statement)
        yield f"trigger '{name}' on {table} is back"
