"""How long the search for victims takes, and how near to the cheapest set it comes.

`search_ms` is a whole cycle for one gang that has to make others leave: candidates, victims, place
and plan. Its floor is one pass over all pods that sums what each would cost, the least that any
search looks at. `cost_over_optimum` is the worst of many small clusters, against every set there
is; its floor is 1.
"""

import gc
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations

from benchmarks import clusters
from benchmarks.harness import Options, Row, percentile, row, run
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Role, Rule
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.placement import Placement
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.shares import shares_of
from scheduler.order.use import least_use
from scheduler.place.search import place
from scheduler.policy import Policy
from scheduler.preempt.choose import choose
from scheduler.preempt.taken import cost_of
from scheduler.preempt.victims import Permission, Unit, spare_members, units_of
from scheduler.topology.build import build

ROWS = ("search_ms", "cost_over_optimum")
NOW_S = 100_000.0
SMALL_NODES = 8
CANDIDATES_MAX = 12
"""Units on a small cluster; every set of them is tried."""


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    if options.wants("search_ms"):
        yield searches(*((256, 90, 9) if options.small else (2_000, 700, 100)))
    if options.wants("cost_over_optimum"):
        yield against_optimum(60 if options.small else 1_000)


# -- speed ----------------------------------------------------------------------------------------


def searches(nodes: int, gangs: int, repeats: int) -> Row:
    """Whole cycles of single gangs of several kinds, on a full cluster of gangs that may leave."""
    world = full_world(nodes, gangs)
    claimants = [claimant(size, kind) for size in (1, 4, 16, 32, 64) for kind in range(4)]
    times, victims = [], []
    # Counts of a shape are built when it is first asked for; later they only follow.
    warm_up = len(claimants) if repeats > len(claimants) else 1
    gc.freeze()  # as the service does once the cluster is loaded
    for number in range(-warm_up, repeats):
        spec = claimants[number % len(claimants)]
        job = JobRecord(JobId("claimant"), spec, JobState.PENDING, 10**9, submitted_s=NOW_S)
        world.put_job(job)
        began = time.perf_counter()
        plan = run_cycle(world, Policy(), NOW_S)
        took_ms = (time.perf_counter() - began) * 1e3
        if not plan.claims:
            raise SystemExit(f"found nobody for {spec.name}")
        world.put_job(replace(job, state=JobState.CANCELLED))
        if number >= 0:
            times.append(took_ms)
            victims.append(sum(m.state is JobState.EVICTING for m in plan.job_moves))
    return row(
        "search_ms",
        percentile(times, 0.99),
        "ms",
        summing_loop_ms(world),
        nodes=nodes,
        candidates=gangs,
        gang_nodes="1 to 64",
        rules="pp in leaf required; dp in leaf, job in block preferred; none; job in leaf or block",
        decisions=repeats,
        mean_ms=round(statistics.mean(times), 2),
        victims_mean=round(statistics.mean(victims), 1),
    )


def full_world(nodes: int, gangs: int) -> World:
    """A cluster whose nodes are all in use by gangs of low priority, mixed by chance."""
    world = World(build(clusters.inventory(nodes)).topology)
    chance = random.Random(7)
    cuts = sorted(chance.sample(range(1, nodes), gangs - 1))
    sizes = [hi - lo for lo, hi in zip([0, *cuts], [*cuts, nodes], strict=True)]
    # Half of the gangs lie together, half wherever there was room.
    together = list(range(nodes))
    scattered = sorted(chance.sample(together, nodes // 2))
    together = [n for n in together if n not in set(scattered)]
    chance.shuffle(scattered)
    for number, size in enumerate(sizes):
        first, other = (together, scattered) if number % 2 else (scattered, together)
        taken = [(first or other).pop() for _ in range(size)]
        least = max(1, size - number % 3)
        ran_s = chance.uniform(0.0, 80_000.0)
        add(world, f"low{number}", sorted(taken), clusters.H100_MASK, least, ran_s)
    return world


def claimant(nodes: int, kind: int) -> JobSpec:
    """A gang of high priority."""
    if kind == 3:
        level = "leaf" if nodes <= clusters.NODES_PER_RACK * clusters.RACKS_PER_LEAF else "block"
        sizes = ParallelSizes(tp=8, dp=nodes)
        spec = JobSpec(name=f"whole{nodes}", parallelism=sizes, rules=(Rule("job", level),))
    else:
        spec = clusters.gang(nodes, kind)
    return replace(spec, priority=100)


def add(world: World, name: str, nodes: list[int], mask: int, least: int, ran_s: float) -> None:
    """A running gang with a member on each of these nodes."""
    members = Role("m", len(nodes), least, mask.bit_count())
    spec = JobSpec(name=name, roles=(members,))
    age = len(world.jobs) + 1
    job = JobRecord(JobId(name), spec, JobState.RUNNING, age, started_s=NOW_S - ran_s)
    world.put_job(job)
    world.put_pods(
        PodRecord(
            PodId(f"{name}-{i}"),
            job.uid,
            f"{name}-{i}",
            "m",
            i,
            NodeId(world.topology.nodes[node].name),
            mask,
            0,
            PodState.RUNNING,
        )
        for i, node in enumerate(nodes)
    )


def summing_loop_ms(world: World, repeats: int = 5) -> float:
    """Milliseconds to sum up once what every job would lose, the best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        total = 0.0
        for uid, job in world.jobs.items():
            lost_s = NOW_S - (job.started_s or NOW_S)
            for pod in world.pods[uid].values():
                total += lost_s * pod.gpu_mask.bit_count()
        best = min(best, time.perf_counter() - began)
    return best * 1e3


# -- cost -----------------------------------------------------------------------------------------


def against_optimum(count: int) -> Row:
    """The worst cost over the least of all sets, and whether both agree on who has a place."""
    ratios, wrong = [], 0
    for seed in range(count):
        world, spec = small_world(seed)
        found, least = victims_cost(world, spec), optimum(world, spec)
        wrong += (found is None) != (least is None)
        if found is not None and least:
            ratios.append(found / least)
    return row(
        "cost_over_optimum",
        max(ratios),
        "ratio",
        1.0,
        clusters=count,
        nodes=f"2 to {SMALL_NODES}",
        with_victims=len(ratios),
        mean=round(statistics.mean(ratios), 6),
        wrong_verdicts=wrong,
    )


def small_world(seed: int) -> tuple[World, JobSpec]:
    """A few nodes in racks and leaves, mostly in use, and a gang that wants in."""
    chance = random.Random(seed)
    nodes = clusters.inventory(SMALL_NODES).nodes[: chance.randint(2, SMALL_NODES)]
    racks = [replace(n, places={**n.places, "rack": f"r{i // 2}"}) for i, n in enumerate(nodes)]
    inventory = replace(clusters.inventory(SMALL_NODES), nodes=tuple(racks))
    world = World(build(inventory).topology)
    candidates = 0
    for number in range(chance.randint(3, 8)):
        mask = chance.choice([0x0F, 0xF0, 0xFF, 0xFF])
        free = [n for n in range(len(nodes)) if world.table.free[n] & mask == mask]
        taken = chance.sample(free, min(len(free), chance.randint(1, 3)))
        least = chance.randint(1, max(1, len(taken)))
        candidates += 1 + (len(taken) if least < len(taken) else 0)
        if taken and candidates <= CANDIDATES_MAX:
            add(world, f"j{number}", taken, mask, least, chance.uniform(0.0, 5_000.0))
    rules: tuple[Rule, ...] = ()
    if chance.random() < 0.5:
        level, mode = chance.choice(["rack", "leaf"]), chance.choice(list(Mode))
        rules = (Rule("job", level, mode),)
    gpus = chance.choice([4, 8, 8])
    sizes = ParallelSizes(tp=gpus, dp=chance.randint(1, 4))
    spec = JobSpec(name="claimant", priority=100, parallelism=sizes, gpus_per_pod=gpus, rules=rules)
    return world, spec


def victims_cost(world: World, spec: JobSpec) -> float | None:
    """What the chosen victims cost; None if there is no place."""
    job = JobRecord(JobId("claimant"), spec, JobState.PENDING, 10**9)
    permission = Permission(shares_of(world), job, least_use(spec), world.topology, 1 << 30)
    found = choose(world, spec, units(world), permission)
    return None if found is None else found.cost


def units(world: World) -> list[Unit]:
    """Everybody who may leave."""
    return [
        unit
        for uid, job in world.jobs.items()
        for unit in units_of(job, world.pods[uid].values(), NOW_S, Policy())
    ]


def optimum(world: World, spec: JobSpec) -> float | None:
    """The least cost of all sets of candidates with which the gang has a place."""
    found = units(world)
    sets = chain.from_iterable(combinations(found, n) for n in range(len(found) + 1))
    for some in sorted((s for s in sets if _is_allowed(world, s)), key=cost_of):
        mark = world.trial.mark()
        for unit in some:
            for pod in unit.pods:
                world.trial.release(world.held_by(pod))
        fits = isinstance(place(world.trial, spec), Placement)
        world.trial.roll_back(mark)
        if fits:
            return cost_of(some)
    return None


def _is_allowed(world: World, some: tuple[Unit, ...]) -> bool:
    """Whether each gang leaves wholly, or keeps its minimum."""
    whole = {unit.job.uid for unit in some if unit.is_whole}
    members: dict[JobId, int] = {}
    for unit in some:
        if not unit.is_whole:
            members[unit.job.uid] = members.get(unit.job.uid, 0) + 1
    return not whole & members.keys() and all(
        count <= spare_members(world.jobs[uid].spec.roles[0], world.pods[uid].values())
        for uid, count in members.items()
    )


if __name__ == "__main__":
    sys.exit(run("preemption", measure, ROWS))
