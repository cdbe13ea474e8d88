"""How well gangs are placed on a cluster that is nearly full, beside other schedulers' ways.

Every policy gets the same jobs on an empty copy of the same cluster; the floor of a row is the best
peer's figure in it, and the figures of all are in its conditions. Whole-node gangs of 1 to 128
nodes, 32 nodes to a leaf; declared durations are exact and nobody names a rule, so that each policy
decides by itself. What starts during the warm-up is left out. Runs are shared out over the cores.
"""

import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks import clusters, network_time, oracle_rows
from benchmarks.harness import Options, Row, row, run
from scheduler.sim.compare import Levels, simulate
from scheduler.sim.measures import Summary, mean, percentile
from scheduler.sim.workload import GANGS, Demand, generate
from scheduler.topology.build import build

ROWS = (
    "leaf_spread_95",
    "single_leaf_share_95",
    "utilisation_delta_points",
    "mean_wait_ratio",
    "large_gang_wait_p99_s",
    "longest_wait_runs",
)
PEERS = ("slurm", "kueue", "volcano", "fifo", "random")
OURS = "podyard"
LOAD = 0.95
LEVELS = Levels(switches=("block", "leaf"), domains=("block", "leaf", "rack"), spread="leaf")
GPUS_MAX = (8, 64, 256, 512)
"""Classes of gangs by their GPUs: one node, to 8 nodes, to a leaf, 64 nodes, and 128."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated for each policy and seed."""

    nodes: int
    jobs: int
    seeds: int


FULL, SMALL = Size(2_048, 1_500, 10), Size(2_048, 1_500, 2)


@dataclass(frozen=True, slots=True)
class Found:
    """One policy's run of one seed.

    Attributes:
        waits: By class of `GPUS_MAX`, ascending.
    """

    summary: Summary
    waits: Mapping[str, Sequence[float]]


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark; those of the simulator from one set of runs."""
    yield from oracle_rows.rows(options)
    yield from network_time.rows(options)
    if not options.wants(*ROWS):
        return
    size = SMALL if options.small else FULL
    yield from rows(run_all((OURS, *PEERS), size), size)


def run_all(policies: Sequence[str], size: Size) -> dict[str, list[Found]]:
    """These policies on every seed, each run in a process of its own."""
    # Those that take longest go first, so that no core is left with one of them at the end.
    runs = [(policy, seed, size) for policy in policies for seed in range(1, size.seeds + 1)]
    found: dict[str, list[Found]] = {policy: [] for policy in policies}
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        answers = pool.map(run_one, *zip(*runs, strict=True))
        for (policy, seed, _), one in zip(runs, answers, strict=True):
            found[policy].append(one)
            print(f"{policy} seed {seed}: {_told(one.summary)}", file=sys.stderr, flush=True)
    return found


def run_one(policy: str, seed: int, size: Size) -> Found:
    """One policy on one seed."""
    topology = build(clusters.inventory(size.nodes)).topology
    gpus = size.nodes * clusters.H100.gpus
    jobs = generate(GANGS, Demand(jobs=size.jobs, load=LOAD, gpus=gpus, largest=gpus), seed)
    outcome = simulate(policy, topology, jobs, levels=LEVELS, seed=seed)
    return Found(outcome.summary, outcome.measures.waits_by_gpus(GPUS_MAX))


def rows(found: Mapping[str, Sequence[Found]], size: Size) -> Iterator[Row]:
    """Ours against the best peer in each figure, means over the seeds."""
    said = {"nodes": size.nodes, "load": LOAD, "jobs": size.jobs, "seeds": size.seeds}

    def figures(name: str) -> dict[str, float]:
        return {
            policy: round(statistics.mean(getattr(one.summary, name) for one in runs), 4)
            for policy, runs in found.items()
        }

    def peers(of: Mapping[str, float]) -> list[float]:
        return [of[name] for name in PEERS if name in of]

    spread, single = figures("spread"), figures("single_share")
    used, wait, longest = (
        figures(name) for name in ("utilisation", "wait_mean_s", "longest_wait_runs")
    )
    yield row("leaf_spread_95", spread[OURS], "leaves/fewest", min(peers(spread)), **said, **spread)
    yield row("single_leaf_share_95", single[OURS], "share", max(peers(single)), **said, **single)
    points = 100 * (used[OURS] - max(peers(used)))
    yield row("utilisation_delta_points", points, "points", None, **said, **used)
    ratio = wait[OURS] / max(min(peers(wait)), 1.0)
    sizes = waits_by_gpus(found)
    yield row("mean_wait_ratio", ratio, "ratio", 1.0, **said, **wait, waits_by_gpus=sizes)
    large = {policy: of[next(reversed(of))]["p99_s"] for policy, of in sizes.items()}
    yield row("large_gang_wait_p99_s", large[OURS], "s", min(peers(large)), **said, **large)
    yield row("longest_wait_runs", longest[OURS], "longest run times", 10.0, **said, **longest)


def waits_by_gpus(found: Mapping[str, Sequence[Found]]) -> dict[str, dict[str, dict[str, float]]]:
    """Policy -> class of gangs -> mean, p99 and longest wait over all seeds, in seconds."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for policy, runs in found.items():
        for label in runs[0].waits:
            waits = sorted(wait for one in runs for wait in one.waits[label])
            if waits:
                figures = {"mean_s": mean(waits), "p99_s": percentile(waits, 0.99)}
                figures |= {"max_s": waits[-1], "jobs": len(waits)}
                of = out.setdefault(policy, {})
                of[label] = {name: round(value, 1) for name, value in figures.items()}
    return out


def _told(s: Summary) -> str:
    return (
        f"spread {s.spread:.3f}, in one {s.single_share:.3f}, used {s.utilisation:.4f},"
        f" wait {s.wait_mean_s:.0f} s, p99 {s.wait_p99_s:.0f} s, longest {s.longest_wait_runs:.2f}"
    )


if __name__ == "__main__":
    sys.exit(run("quality", measure, (*ROWS, *oracle_rows.ROWS, *network_time.ROWS)))
