"""A service on SQLite for requests that are refused."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api.store.schema import open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard


@pytest.fixture
def small_yard(sqlite_template: Path, tmp_path: Path, contract: Contract) -> Iterator[Yard]:
    """An empty service on SQLite, for many texts of which the database sees little."""
    shutil.copyfile(sqlite_template, tmp_path / "podyard.db")
    with (
        closing(open_database(f"sqlite:///{tmp_path / 'podyard.db'}")) as database,
        Yard(database, contract) as made,
    ):
        yield made
