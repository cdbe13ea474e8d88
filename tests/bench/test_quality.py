"""What the rows of the quality benchmark are made of."""

from dataclasses import replace

import pytest

from benchmarks.quality import GPUS_MAX, OURS, PEERS, SMALL, Found, rows, run_all, waits_by_gpus
from scheduler.sim.measures import Summary

PLAIN = Summary(
    jobs=2,
    ended=2,
    wait_mean_s=100.0,
    wait_p50_s=0.0,
    wait_p99_s=200.0,
    wait_max_s=200.0,
    slowdown_mean=1.0,
    slowdown_p99=1.0,
    spread=1.2,
    single_share=0.9,
    utilisation=0.9,
    fragmentation=0.0,
    fairness=1.0,
    starved=0,
    longest_wait_runs=0.1,
    evictions=0,
)


def found(**by_policy: float) -> dict[str, list[Found]]:
    """Policies with these mean waits; one small and one large gang each."""
    return {
        policy: [Found(replace(PLAIN, wait_mean_s=wait), {"1-8": [0.0], "9-": [2 * wait]})]
        for policy, wait in by_policy.items()
    }


def test_a_row_stands_beside_the_best_peer() -> None:
    by_name = {r.what: r for r in rows(found(podyard=90.0, slurm=300.0, kueue=100.0), SMALL)}
    wait = by_name["mean_wait_ratio"]
    assert (wait.value, wait.floor) == (0.9, 1.0)
    assert wait.conditions["kueue"] == 100.0
    large = by_name["large_gang_wait_p99_s"]
    assert (large.value, large.floor) == (180.0, 200.0)


def test_waits_of_all_seeds_are_told_by_size_of_the_gang() -> None:
    first, second = found(podyard=10.0)["podyard"][0], found(podyard=40.0)["podyard"][0]
    both = {"podyard": [first, replace(second, waits={"1-8": [], "9-": [80.0, 20.0]})]}
    assert waits_by_gpus(both) == {
        "podyard": {
            "1-8": {"mean_s": 0.0, "p99_s": 0.0, "max_s": 0.0, "jobs": 1},
            "9-": {"mean_s": 40.0, "p99_s": 80.0, "max_s": 80.0, "jobs": 3},
        }
    }


@pytest.mark.slow
def test_every_policy_is_run_on_every_seed_and_says_the_same_again() -> None:
    size = replace(SMALL, nodes=64, jobs=40, seeds=2)
    policies = (OURS, PEERS[1])
    one, other = run_all(policies, size), run_all(policies, size)
    assert one == other
    assert {policy: len(runs) for policy, runs in one.items()} == dict.fromkeys(policies, 2)
    assert len(one[OURS][0].waits) == len(GPUS_MAX) + 1
