"""An hour under a steady load leaves memory, latency and tables as they were after its beginning.

`PODYARD_SOAK_MINUTES=3` makes it shorter; below three there is nothing to be seen.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import clusters, services
from tests.soak.flat import Sample, growth, slope, thinned
from tests.soak.load import soak

MINUTES = float(os.environ.get("PODYARD_SOAK_MINUTES", "60"))

WARM_S = 90.0
"""Until then caches fill, and nothing is old enough to be forgotten."""

NODES = 96

SETTINGS = {
    "PODYARD_JOB_HISTORY_S": "60",
    "PODYARD_EVENT_HISTORY": "1000",
    "PODYARD_DECISION_HISTORY": "60",
}
"""As little as may be kept, so that minutes show what years would."""

GROWS = frozenset({"usage_jobs", "audit_log"})
"""Kept for months on purpose: what each job used, and who did what."""

MAY_GROW = {"memory": 0.10, "latency": 0.50, "processor time": 0.25}
"""As a share of the middle, from the end of the beginning to the end."""

ROWS_MAY_GROW = 0.25
LEAST = {"memory": 50.0, "latency": 1.0, "processor time": 1.0}
LEAST_ROWS = 200.0
"""Below that, growth is counted against it: a few rows more are no growth."""


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """An empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/soak.db"
        return
    with services.postgresql() as url:
        yield url


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_hour_of_load_leaves_memory_latency_and_tables_flat(
    kind: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with database_url(kind, tmp_path) as url, services.started(url) as (port, pid):
        services.import_cluster(port, clusters.inventory(NODES))
        seen = asyncio.run(soak(port, pid, url, MINUTES))
    said, grown = [f"{kind}: {seen.gangs} gangs came and went"], {}
    for name, samples in seen.series():
        warm = thinned([sample for sample in samples if sample[0] >= WARM_S])
        share = growth(warm, LEAST.get(name, LEAST_ROWS))
        if warm and warm[-1][1]:
            said.append(f"{kind} {name}: {warm[-1][1]:.1f} at last, {share:+.1%}")
        if name.removeprefix("rows of ") not in GROWS:
            grown[name] = (share, MAY_GROW.get(name, ROWS_MAY_GROW))
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        with capsys.disabled():
            reporter.write_line("\n" + "\n".join(said))
    assert {name: share for name, (share, most) in grown.items() if share > most} == {}


def line(per_s: float, noise: float, seed: int = 1) -> list[Sample]:
    chance = random.Random(seed)
    return [(float(t), 100.0 + per_s * t + chance.gauss(0.0, noise)) for t in range(300)]


def test_slope_is_that_of_the_line_though_a_fifth_of_the_samples_are_wild() -> None:
    samples = line(0.5, 1.0)
    wild = [(t, 9_000.0 if t % 5 == 0 else value) for t, value in samples]
    assert slope(wild) == pytest.approx(0.5, abs=0.05)


def test_noise_alone_does_not_grow_and_a_leak_does() -> None:
    assert abs(growth(line(0.0, 20.0))) < 0.1
    assert growth(line(0.1, 20.0)) > 0.15


def test_a_saw_tooth_is_flat() -> None:
    samples = [(float(t), 1_000.0 + 50.0 * (t % 10)) for t in range(300)]
    assert abs(growth(samples)) < 0.02


def test_windows_keep_a_slope() -> None:
    samples = line(0.5, 5.0)
    assert slope(thinned(samples, 30)) == pytest.approx(0.5, abs=0.05)
    assert thinned([]) == []
