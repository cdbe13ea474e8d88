"""Times at which agents were heard: written together, and at the end if that can be."""

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from api.store.engine import Database
from api.store.leases import Leases, agents, begin
from tests.api.store.build import NOW_S, load_cluster

NODE = "n001"


@pytest.fixture
def book(database: Database) -> Leases:
    """An agent began to speak for a node, and was heard a while later."""
    load_cluster(database)
    with database.write(NOW_S) as tx:
        begin(tx, NODE, "s", "b")
    found = Leases(database)
    found.heard(NODE, "s", NOW_S + 60)
    return found


def rename(database: Database, old: str, new: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text(f"ALTER TABLE {old} RENAME TO {new}"))


def test_what_was_heard_is_written_at_the_end(book: Leases) -> None:
    with capture_logs() as logs:
        book.close()
    assert agents(book.database) == {NODE: NOW_S + 60}
    assert book.unwritten() == {}
    assert logs == []


def test_process_ends_quietly_though_the_times_cannot_be_written(book: Leases) -> None:
    rename(book.database, "leases", "elsewhere")
    with capture_logs() as logs:
        book.close()
    rename(book.database, "elsewhere", "leases")
    assert [(line["event"], line["log_level"], line["nodes"]) for line in logs] == [
        ("leases_unwritten", "warning", 1)
    ]
    assert "leases" in logs[0]["error"]


def test_nothing_is_written_by_itself_after_the_end(book: Leases) -> None:
    book.close()
    book.heard(NODE, "s", NOW_S + 90)
    assert book._timer is None
    assert book.unwritten() == {NODE: NOW_S + 90}
