"""Effective training time: what counts as progress, what the bound is, what the scheduler costs."""

import pytest

from benchmarks.effective_time import simulated
from scheduler.sim.goodput import Life, ideal_runs, shares_of


def test_work_since_the_last_save_is_lost_with_a_member() -> None:
    life = Life(hits=[250.0], runs=[(0.0, 250.0), (300.0, None)])
    shares = shares_of([life], 0.0, 1_000.0, 50.0, 100.0)
    assert shares.useful == pytest.approx(0.9)
    assert shares.redone == pytest.approx(0.05)
    assert shares.down == pytest.approx(0.05)
    assert shares.gap == pytest.approx(0.0)


def test_waiting_for_a_place_is_the_schedulers_share() -> None:
    life = Life(hits=[200.0], runs=[(0.0, 200.0), (350.0, None)])
    shares = shares_of([life], 0.0, 1_000.0, 50.0, 100.0)
    assert shares.gap == pytest.approx(0.1)


def test_a_gang_that_is_hit_while_it_starts_starts_again() -> None:
    assert ideal_runs(0.0, [100.0, 120.0], 50.0) == [(0.0, 100.0), (170.0, None)]
    assert ideal_runs(10.0, [], 50.0) == [(10.0, None)]


def test_simulated_weeks_come_close_to_the_bound() -> None:
    row = simulated(64, 60.0)
    assert row.conditions["losses"]
    assert 0.0 <= row.value < 1.0
    assert row.conditions["effective_percent"] <= row.conditions["bound_percent"]  # type: ignore[operator]  # both are numbers
