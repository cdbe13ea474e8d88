"""The benchmark of restarts fills a database and is answered, however small it is run."""

from benchmarks.harness import Options
from benchmarks.restart import measure


def test_small_run_places_a_job_after_the_kill() -> None:
    (found,) = measure(Options(rows=frozenset({"first_placement_s_sqlite"}), small=True))
    assert found.value > 0.0
    assert found.conditions["pending"] == 1_000
