"""One kind of database is enough here; lists of namespaces are asked of both in tests/api/store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.store.schema import migrate, open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard


@pytest.fixture
def yard(tmp_path: Path, contract: Contract) -> Iterator[Yard]:
    """An empty service."""
    url = f"sqlite:///{tmp_path / 'podyard.db'}"
    migrate(url)
    database = open_database(url)
    try:
        with Yard(database, contract) as made:
            yield made
    finally:
        database.close()
