"""A runner whose turns a test makes by hand."""

from collections.abc import Iterator

import pytest

from api.clock import ManualClock
from api.loop.runner import Runner
from api.store.engine import Database
from tests.api.store.build import NOW_S


@pytest.fixture
def runner(database: Database) -> Iterator[Runner]:
    made = Runner(database, ManualClock(NOW_S))
    yield made
    made.stop()
