"""The scheduler against the exact oracle; what it prints is seen with `pytest -rP`."""

from collections.abc import Iterable

import pytest

from tests.oracle.audit import Tally, audit, tally
from tests.oracle.cases import Case, rail_case, random_case

QUICK, FULL = 500, 10_000
"""Seeds; the full number is that of the project's promise."""

RAILS_QUICK, RAILS_FULL = 100, 2_000


def judge(cases: Iterable[Case]) -> Tally:
    found = tally([audit(case) for case in cases])
    print(found)  # noqa: T201  the figures are what the project states
    return found


def check(found: Tally) -> None:
    assert not found.faults, "\n".join(a.line() for a in found.faults)
    assert found.optimal_spread_share >= 0.999, "\n".join(a.line() for a in found.wider)
    assert found.optimal_time_share >= 0.99, "\n".join(a.line() for a in found.slower)
    assert not found.unsaid, "\n".join(a.line() for a in found.unsaid)


def test_small_gangs_are_placed_as_the_oracle_would() -> None:
    check(judge(random_case(seed) for seed in range(QUICK)))


def test_small_gangs_among_dead_rails_are_placed_as_the_oracle_would() -> None:
    check(judge(rail_case(seed) for seed in range(RAILS_QUICK)))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_many_small_gangs_are_placed_as_the_oracle_would() -> None:
    check(judge(random_case(seed) for seed in range(QUICK, FULL)))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_many_small_gangs_among_dead_rails_are_placed_as_the_oracle_would() -> None:
    check(judge(rail_case(seed) for seed in range(RAILS_QUICK, RAILS_FULL)))
