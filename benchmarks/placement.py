"""How long one decision takes, all rules and the score included.

The floor is a raw loop that counts the free nodes of every leaf once, the least that a scheduler
without kept counts does for each gang. `growth_5k_100k` is a ratio by itself: its floor is 1.
"""

import gc
import statistics
import sys
import time
from collections.abc import Iterator

from benchmarks import clusters, passes, verdict_rows
from benchmarks.harness import Options, Row, percentile, row, run
from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.place.search import place

ROWS = (
    "decide_64_p99_ms",
    "decide_1024_p99_ms",
    "decide_8_mean_ms",
    "growth_5k_100k",
    *verdict_rows.ROWS,
    *passes.ROWS,
)
FREE_SHARE = 0.6


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    middle, repeats = (512, 30) if options.small else (4_096, 400)
    if options.wants("decide_64_p99_ms", "decide_1024_p99_ms"):
        world = clusters.world(middle, FREE_SHARE)
        for nodes in (64, 1_024):
            if options.small and nodes > middle // 4:
                continue
            gangs = [clusters.gang(nodes, kind) for kind in range(3)]
            times, cpu = decide(world, gangs, repeats if nodes == 64 else repeats // 4)
            floor = counting_loop_ms(world)
            yield row(
                f"decide_{nodes}_p99_ms",
                percentile(times, 0.99),
                "ms",
                floor,
                nodes=middle,
                gang_nodes=nodes,
                decisions=len(times),
                free_share=FREE_SHARE,
                rules="pp in leaf required; dp in leaf, job in block preferred; none",
                mean_ms=round(statistics.mean(times), 4),
                p99_ms_of_cpu=round(percentile(cpu, 0.99), 4),
            )
    few, many = (512, 2_048) if options.small else (5_120, 100_096)
    if options.wants("decide_8_mean_ms", "growth_5k_100k"):
        yield from growth(few, many, repeats)
    yield from verdict_rows.measure(options)
    yield from passes.measure(options)


def growth(few: int, many: int, repeats: int) -> Iterator[Row]:
    """Small gangs on a large cluster, and the time there over that on a small one."""
    sizes = [clusters.gang(nodes, kind) for nodes in range(1, 9) for kind in range(3)]
    small, large = (clusters.world(count, FREE_SHARE) for count in (few, many))
    on_few, on_many = (statistics.mean(decide(w, sizes, repeats * 4)[0]) for w in (small, large))
    said = {"gang_nodes": "1 to 8", "free_share": FREE_SHARE, "decisions": repeats * 4}
    yield row("decide_8_mean_ms", on_many, "ms", counting_loop_ms(large), nodes=many, **said)
    yield row("growth_5k_100k", on_many / on_few, "ratio", 1.0, nodes=f"{few} and {many}", **said)


def decide(world: World, gangs: list[JobSpec], repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each decision; each is bound and taken back, so that counts move.

    Returns:
        By the clock, and of the processor: the same where nothing else runs beside.
    """
    for spec in gangs:
        place(world.trial, spec)
    gc.freeze()  # as the service does once the cluster is loaded
    times, cpu = [], []
    for number in range(repeats):
        began, cpu_began = time.perf_counter(), time.thread_time()
        found = place(world.trial, gangs[number % len(gangs)])
        times.append((time.perf_counter() - began) * 1e3)
        cpu.append((time.thread_time() - cpu_began) * 1e3)
        if not isinstance(found, Placement):
            raise SystemExit(f"does not fit: {found.message}")
        mark = world.trial.mark()
        clusters.hold(world, found)
        world.trial.roll_back(mark)
    return times, cpu


def counting_loop_ms(world: World, repeats: int = 5) -> float:
    """Milliseconds to count the free nodes of every leaf once, the best of a few runs."""
    leaf = world.topology.place[1]
    free = world.table.free
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        counts = [0] * len(world.topology.levels[1].names)
        for node, mask in enumerate(free):
            if mask == clusters.H100_MASK:
                counts[leaf[node]] += 1
        best = min(best, time.perf_counter() - began)
    return best * 1e3


if __name__ == "__main__":
    sys.exit(run("placement", measure, ROWS))
