"""Every promise under random trouble. `SEED=<n> pytest tests/simulation/test_storms.py` for others.

A seed that fails becomes a file in `regressions/`.
"""

import json
import os
from pathlib import Path

import pytest

from scheduler.sim.storm import Storm, storm
from tests.simulation.clusters import cluster_of

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
FIRST_SEED = int(os.environ.get("SEED", "1000"))
STORMS = 5
JOBS = 220
STEPS = 2_000
"""What 220 jobs make at least; 10^4 in all."""


def blow(seed: int, jobs: int) -> Storm:
    """One storm to its end; whatever it raises names the seed."""
    print(f"seed {seed}, {jobs} jobs")  # noqa: T201  a failing seed has to be told
    found = storm(cluster_of(seed), seed, jobs)
    found.engine.run(max_steps=50 * jobs)
    found.checks.finished(found.engine.world)
    return found


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + STORMS))
def test_a_storm_breaks_no_promise(seed: int) -> None:
    found = blow(seed, JOBS)
    stats = found.engine.stats
    assert stats.steps >= STEPS
    assert stats.crashes
    assert found.checks.replays >= stats.steps // 20
    assert len(stats.ended) == 3
    assert not found.engine.world.jobs


def test_the_storms_of_one_test_run_are_ten_thousand_steps() -> None:
    assert STORMS * STEPS >= 10_000


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_a_storm_that_once_broke_a_promise_does_so_no_more(path: Path) -> None:
    card = json.loads(path.read_text(encoding="utf-8"))
    blow(card["seed"], card["jobs"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5_000, 5_100))
def test_a_hundred_storms_of_ten_thousand_steps_break_no_promise(seed: int) -> None:
    """10^6 steps; in parts, with a line that sums them up: `python -m tests.simulation.soak`."""
    assert blow(seed, 1_100).engine.stats.steps >= 10_000


def test_the_same_seed_makes_the_same_storm() -> None:
    first, second = blow(77, 30), blow(77, 30)
    assert first.engine.stats == second.engine.stats
    assert first.engine.now_s == second.engine.now_s
