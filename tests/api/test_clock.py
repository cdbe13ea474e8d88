"""Clocks."""

from pathlib import Path

import pytest

from api.clock import MANUAL_START_S, ManualClock, SystemClock
from api.store.clock_row import load_clock, save_clock
from api.store.engine import Database


def test_system_clock_moves_by_itself() -> None:
    first = SystemClock().now_s()
    assert first > MANUAL_START_S - 10 * 366 * 86_400
    assert SystemClock().now_s() >= first


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    assert clock.now_s() == clock.now_s() == MANUAL_START_S
    assert clock.advance(2.5) == clock.now_s() == MANUAL_START_S + 2.5
    assert clock.advance(0) == MANUAL_START_S + 2.5


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_manual_clock_refuses_what_is_no_step(seconds: float) -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="moves by 0 or more"):
        clock.advance(seconds)
    assert clock.now_s() == MANUAL_START_S


def test_manual_clock_tells_its_listeners_after_the_move() -> None:
    clock, seen = ManualClock(0.0), []
    clock.on_advance(lambda: seen.append(clock.now_s()))
    clock.advance(3.0)
    assert seen == [3.0]


def test_manual_clock_does_not_move_when_the_time_cannot_be_kept() -> None:
    def fail(_: float) -> None:
        raise OSError("no room")

    clock = ManualClock(1.0, fail)
    with pytest.raises(OSError, match="no room"):
        clock.advance(1.0)
    assert clock.now_s() == 1.0


def test_manual_clock_goes_on_from_where_it_was(database: Database, tmp_path: Path) -> None:
    assert load_clock(database) is None
    clock = ManualClock(save=lambda now_s: save_clock(database, now_s))
    clock.advance(60.0)
    clock.advance(0.125)
    assert load_clock(database) == clock.now_s() == MANUAL_START_S + 60.125
