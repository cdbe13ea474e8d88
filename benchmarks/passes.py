"""How long whole cycles take with a long line: one over all of it, and one after each event.

The floor of a full pass is one look at every waiting gang and at every node; that of an event, one
look at every waiting gang.
"""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import clusters
from benchmarks.harness import Options, Row, percentile, row
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord
from scheduler.policy import Policy
from scheduler.sim.apply import apply, report

ROWS = ("full_pass_10k_s", "event_pass_ms")
FREE_SHARE = 0.6
NOW_S = 1_000.0
SIZES = (1, 1, 1, 2, 2, 4, 4, 8, 16, 64)
"""Nodes of the gangs in line; each size comes with the three sets of rules of `clusters.gang`."""


def measure(options: Options) -> Iterator[Row]:
    """Both rows."""
    nodes, gangs, events = (512, 600, 10) if options.small else (8_192, 10_000, 100)
    if not options.wants(*ROWS):
        return
    world = clusters.world(nodes, FREE_SHARE)
    line_up(world, gangs)
    floor = looks_s(world, with_nodes=True)
    began = time.perf_counter()
    plan = run_cycle(world, Policy(), NOW_S)
    took_s = time.perf_counter() - began
    said = {"nodes": nodes, "gangs": gangs, "gang_nodes": "1 to 64", "free_share": FREE_SHARE}
    bound = sum(move.state is JobState.BOUND for move in plan.job_moves)
    yield row("full_pass_10k_s", took_s, "s", floor, bound=bound, **said)
    apply(world, plan, NOW_S)
    # What waits is told so once; from then on each cycle is about what an event changes.
    apply(world, run_cycle(world, Policy(), NOW_S), NOW_S)
    times = list(after_events(world, events))
    yield row(
        "event_pass_ms",
        statistics.mean(times),
        "ms",
        looks_s(world, with_nodes=False) * 1e3,
        events=events,
        event="a gang ends",
        p99_ms=round(percentile(times, 0.99), 2),
        **said,
    )


def line_up(world: World, gangs: int) -> None:
    """So many gangs of all sizes and rules, equal in priority."""
    chance = random.Random(3)
    for number in range(gangs):
        spec = clusters.gang(chance.choice(SIZES), chance.randrange(3))
        uid = JobId(f"j{number:05d}")
        job = JobRecord(
            uid, replace(spec, name=uid), JobState.PENDING, number + 1, submitted_s=NOW_S
        )
        world.put_job(job)


def after_events(world: World, events: int) -> Iterator[float]:
    """Milliseconds of the cycle after each end of one running gang."""
    running = sorted(uid for uid, job in world.jobs.items() if job.state is JobState.BOUND)
    chance = random.Random(4)
    for uid in chance.sample(running, events):
        for pod in world.live_pods(uid):
            report(world, pod, PodState.SUCCEEDED, 0)
        began = time.perf_counter()
        plan = run_cycle(world, Policy(), NOW_S)
        yield (time.perf_counter() - began) * 1e3
        apply(world, plan, NOW_S)


def looks_s(world: World, repeats: int = 5, *, with_nodes: bool) -> float:
    """Seconds of one look at every waiting gang (and every node), the best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        waiting = sum(job.state is JobState.PENDING for job in world.jobs.values())
        free = sum(mask.bit_count() for mask in world.table.free) if with_nodes else 0
        best = min(best, time.perf_counter() - began)
        if waiting + free < 0:
            raise SystemExit("nothing waits")
    return best
