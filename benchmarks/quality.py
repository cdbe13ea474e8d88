"""How well gangs are placed on a cluster that is nearly full, beside other schedulers' ways.

Every policy gets the same jobs on an empty copy of the same cluster; the floor of a row is the best
peer's figure in it, and the figures of all are in its conditions. Whole-node gangs of 1 to 128
nodes, 32 nodes to a leaf; declared durations are exact and nobody names a rule, so that each policy
decides by itself. What starts during the warm-up is left out.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import clusters, network_time, oracle_rows
from benchmarks.harness import Options, Row, row, run
from scheduler.sim.compare import Levels, simulate
from scheduler.sim.measures import Summary
from scheduler.sim.workload import GANGS, Demand, generate
from scheduler.topology.build import build

ROWS = (
    "leaf_spread_95",
    "single_leaf_share_95",
    "utilisation_delta_points",
    "mean_wait_ratio",
    "longest_wait_runs",
)
PEERS = ("slurm", "kueue", "volcano", "fifo", "random")
OURS = "podyard"
LOAD = 0.95
LEVELS = Levels(switches=("block", "leaf"), domains=("block", "leaf", "rack"), spread="leaf")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated for each policy and seed."""

    nodes: int
    jobs: int
    seeds: int


FULL, SMALL = Size(2_048, 1_500, 10), Size(128, 150, 2)


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark; those of the simulator from one set of runs."""
    yield from oracle_rows.rows(options)
    yield from network_time.rows(options)
    if not options.wants(*ROWS):
        return
    size = SMALL if options.small else FULL
    found = {name: run_all(name, size) for name in (OURS, *PEERS)}
    yield from rows(found, size)


def run_all(policy: str, size: Size) -> list[Summary]:
    """One policy on every seed."""
    topology = build(clusters.inventory(size.nodes)).topology
    gpus = size.nodes * clusters.H100.gpus
    demand = Demand(jobs=size.jobs, load=LOAD, gpus=gpus, largest=gpus)
    out = []
    for seed in range(1, size.seeds + 1):
        jobs = generate(GANGS, demand, seed)
        out.append(simulate(policy, topology, jobs, levels=LEVELS, seed=seed).summary)
        print(f"{policy} seed {seed}: {_told(out[-1])}", file=sys.stderr, flush=True)
    return out


def rows(found: Mapping[str, Sequence[Summary]], size: Size) -> Iterator[Row]:
    """Ours against the best peer in each figure, means over the seeds."""
    said = {"nodes": size.nodes, "load": LOAD, "jobs": size.jobs, "seeds": size.seeds}

    def figures(name: str) -> dict[str, float]:
        return {
            policy: round(statistics.mean(getattr(s, name) for s in summaries), 4)
            for policy, summaries in found.items()
        }

    def peers(of: Mapping[str, float]) -> list[float]:
        return [of[name] for name in PEERS]

    spread, single = figures("spread"), figures("single_share")
    used, wait, longest = (
        figures(name) for name in ("utilisation", "wait_mean_s", "longest_wait_runs")
    )
    yield row("leaf_spread_95", spread[OURS], "leaves/fewest", min(peers(spread)), **said, **spread)
    yield row("single_leaf_share_95", single[OURS], "share", max(peers(single)), **said, **single)
    points = 100 * (used[OURS] - max(peers(used)))
    yield row("utilisation_delta_points", points, "points", None, **said, **used)
    ratio = wait[OURS] / max(min(peers(wait)), 1.0)
    yield row("mean_wait_ratio", ratio, "ratio", 1.0, **said, **wait)
    yield row("longest_wait_runs", longest[OURS], "longest run times", 10.0, **said, **longest)


def _told(s: Summary) -> str:
    return (
        f"spread {s.spread:.3f}, in one {s.single_share:.3f}, used {s.utilisation:.4f},"
        f" wait {s.wait_mean_s:.0f} s, p99 {s.wait_p99_s:.0f} s, longest {s.longest_wait_runs:.2f}"
    )


if __name__ == "__main__":
    sys.exit(run("quality", measure, (*ROWS, *oracle_rows.ROWS, *network_time.ROWS)))
