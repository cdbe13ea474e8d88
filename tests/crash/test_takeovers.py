"""Three replicas under load: whoever leads dies, freezes or is cut off, and another goes on."""

import os
from pathlib import Path

import pytest

from tests.crash.takeovers import WAYS, run

SEED = int(os.environ.get("PODYARD_CRASH_SEED", "7"))
"""Printed when a test fails; give another to see other moments."""

MANY = int(os.environ.get("PODYARD_TAKEOVERS", "500"))
"""Rounds of the long test."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_every_way_to_lose_the_leader_loses_nothing_else(database_url: str, tmp_path: Path) -> None:
    done = run(database_url, tmp_path, len(WAYS) + 1, SEED)
    assert len(done.history.gaps) >= len(WAYS) - 1
    assert len({epoch for _, epoch in done.history.began}) > len(done.history.gaps)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3_600)
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_hundreds_of_take_overs_lose_nothing(database_url: str, tmp_path: Path) -> None:
    """How long nothing was placed is printed, not judged: that depends on the machine."""
    run(database_url, tmp_path, MANY, SEED + 1)
