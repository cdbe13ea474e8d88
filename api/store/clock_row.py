"""Where the manual clock stands, kept so that it goes on after a restart."""

import sqlalchemy as sa

from api.store.bulk import upsert_rows
from api.store.engine import Database
from api.store.tables import clock


def load_clock(db: Database) -> float | None:
    """The time it was left at; None if it never ran."""
    with db.read() as connection:
        return connection.execute(sa.select(clock.c.now_s)).scalar_one_or_none()


def save_clock(db: Database, now_s: float) -> None:
    """Keep the time."""
    with db.write_quietly() as connection:
        upsert_rows(connection, clock, [{"id": 1, "now_s": now_s}])
