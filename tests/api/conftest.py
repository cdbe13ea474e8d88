"""A service for each test, on both databases."""

from collections.abc import Iterator

import pytest

from api.store.engine import Database
from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract, description
from tests.api.http.yard import Yard


@pytest.fixture(scope="session")
def contract() -> Contract:
    """The API's own description."""
    return Contract(description())


@pytest.fixture
def yard(database: Database, contract: Contract) -> Iterator[Yard]:
    """An empty service, on each kind of database."""
    with Yard(database, contract) as made:
        yield made


@pytest.fixture(scope="module")
def any_yard(tmp_path_factory: pytest.TempPathFactory, contract: Contract) -> Iterator[Yard]:
    """One service with a cluster for a module of requests that leave nothing behind."""
    url = f"sqlite:///{tmp_path_factory.mktemp('yard') / 'podyard.db'}"
    migrate(url)
    database = open_database(url)
    try:
        with Yard(database, contract) as made:
            made.load()
            yield made
    finally:
        database.close()
