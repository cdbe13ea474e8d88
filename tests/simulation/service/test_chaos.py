"""The end of a play: the weather is fair, and all are given a fair chance to come to their end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.service.play import Play, make_template
from tests.simulation.service.weather import Weather

BAD = Weather(replicas=2, jump_s=900.0, hook_fails=0.5, hook_hangs=0.2, lost=0.1)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Play]:
    """A play in bad weather that has yet to begin."""
    found = Play(1, tmp_path, make_template(tmp_path), BAD)
    with found.installed():
        yield found
        found._bow()
    found._told()


def test_clocks_go_on_together_from_the_latest_time_that_any_has_shown(made: Play) -> None:
    clocks = [replica.clock for replica in made.replicas]
    shown_s = [0.0]
    for _ in range(20):
        made.chaos._jump()
        shown_s += [clock.off_s for clock in clocks]
    assert max(clock.off_s for clock in clocks) < max(shown_s)
    made.chaos.end()
    assert [clock.off_s for clock in clocks] == [max(shown_s)] * 2


def test_clocks_that_were_only_set_back_show_the_right_time_in_the_end(made: Play) -> None:
    for replica in made.replicas:
        replica.clock.off_s = -60.0
    made.chaos.end()
    assert {replica.clock.off_s for replica in made.replicas} == {0.0}


def test_receivers_of_hooks_do_not_fail_in_fair_weather(made: Play) -> None:
    made.chaos.end()
    weather = made.chaos.hooks.weather
    assert (weather.hook_fails, weather.hook_hangs, weather.lost) == (0.0, 0.0, 0.0)
