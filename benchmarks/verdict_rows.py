"""How long the full answer on a gang that cannot run takes, and a what-if.

The cluster is fragmented: no node is whole, each has one or two jobs of a few GPUs, and gangs of
four nodes lie across some of them. The floor is a loop over all pods that adds up their GPUs by
leaf: the least that naming those who are in the way takes.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import clusters
from benchmarks.harness import Options, Row, row
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.explain.answer import Answer
from scheduler.explain.explain import ask
from scheduler.explain.whatif import Supposed, apply, play, standing, suppose
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, Mode, Role, Rule
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobRecord, Plan, PodRecord
from scheduler.policy import Policy
from scheduler.topology.build import build

ROWS = ("verdict_8k_s", "whatif_8k_s")
NOW_S = 1_000.0


def measure(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants(*ROWS):
        return
    nodes, largest = (512, 32) if options.small else (8_192, 256)
    world = fragmented(nodes)
    floor_s = loop_over_pods_s(world)
    if options.wants("verdict_8k_s"):
        gangs = [_with_priority(clusters.gang(size, kind)) for size, kind in _sizes(largest)]
        found = [verdict(world, spec) for spec in gangs]
        yield row(
            "verdict_8k_s",
            max(seconds for seconds, *_ in found),
            "s",
            floor_s,
            nodes=nodes,
            jobs=len(world.jobs),
            gangs=len(gangs),
            gang_nodes=f"4 to {largest}",
            figure="the slowest",
            cpu_s=round(max(cpu_s for _, cpu_s, _ in found), 3),
            changes=sum(len(answer.changes) for *_, answer in found),
            bounded=sum(answer.bounded for *_, answer in found),
        )
    if options.wants("whatif_8k_s"):
        waiting = nodes
        _queue_up(world, waiting)
        seconds, cpu_s, affected = lose_a_leaf(world)
        yield row(
            "whatif_8k_s",
            seconds,
            "s",
            floor_s,
            nodes=nodes,
            jobs=len(world.jobs),
            waiting=waiting,
            change="a leaf switch is lost, one gang is submitted",
            cpu_s=round(cpu_s, 3),
            affected=affected,
        )


def _sizes(largest: int) -> list[tuple[int, int]]:
    return [(size, kind) for size in (4, 16, 64, largest) for kind in range(3)]


def _with_priority(spec: JobSpec) -> JobSpec:
    """Above the jobs that run, so that victims are looked for too; all in a block, by one rule."""
    return replace(spec, priority=10, rules=(*spec.rules, Rule("job", "block", Mode.PREFERRED)))


def fragmented(node_count: int, seed: int = 1) -> World:
    """No node is whole; half of the jobs have said how long they run, a few nodes are cordoned."""
    topology = build(clusters.inventory(node_count)).topology
    world = World(topology)
    chance = random.Random(seed)
    pods: list[PodRecord] = []
    for node in range(node_count):
        used = 0
        for _ in range(chance.randint(1, 2)):
            gpus = chance.randint(1, 3)
            _run(world, pods, chance, [node], ((1 << gpus) - 1) << used)
            used += gpus
    for first in range(0, node_count - 4, 16):
        _run(world, pods, chance, list(range(first, first + 4)), 0b1100_0000)
    world.put_pods(pods)
    for node in range(0, node_count, 97):
        world.set_node(topology.nodes[node].name, aside="cordoned")
    world.map_changed = False
    return world


def _run(
    world: World, pods: list[PodRecord], chance: random.Random, nodes: list[int], mask: int
) -> None:
    """One more job that runs, a pod on each of these nodes."""
    number = len(world.jobs)
    uid = JobId(f"job-{number:06d}")
    role = Role("m", len(nodes), len(nodes), gpus=mask.bit_count())
    spec = JobSpec(
        name=uid, roles=(role,), duration_s=chance.choice([None, chance.uniform(2e3, 2e5)])
    )
    world.put_job(
        JobRecord(uid, spec, JobState.RUNNING, number + 1, attempt=1, bound_s=0.0, started_s=0.0)
    )
    for index, node in enumerate(nodes):
        name = NodeId(world.topology.nodes[node].name)
        pods.append(
            PodRecord(
                PodId(f"{uid}-m-{index}"),
                uid,
                f"{uid}-m-{index}",
                "m",
                index,
                name,
                mask,
                0,
                PodState.RUNNING,
            )
        )


def _queue_up(world: World, count: int, seed: int = 2) -> None:
    """Gangs that wait: none of them fits."""
    chance = random.Random(seed)
    for number in range(count):
        spec = clusters.gang(chance.choice([1, 2, 4, 8, 16, 32]), chance.randrange(3))
        uid = JobId(f"waits-{number:06d}")
        record = JobRecord(
            uid, replace(spec, name=uid), JobState.PENDING, 1_000_000 + number, submitted_s=NOW_S
        )
        world.put_job(record)
    # As in a service that runs: a cycle has looked at all of them.
    apply(world, _decide(world, NOW_S), NOW_S)


def verdict(world: World, spec: JobSpec) -> tuple[float, float, Answer]:
    """Seconds of the full answer, those of the processor, and the answer."""
    began, cpu_s = time.perf_counter(), time.process_time()
    found = ask(world, spec, Policy(), NOW_S)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    if not isinstance(found, Answer) or not found.changes:
        raise SystemExit(f"a gang of {spec.gpu_count} GPUs fits, or nothing would help it")
    return seconds, cpu_s, found


def lose_a_leaf(world: World) -> tuple[float, float, int]:
    """Seconds of one what-if, copy and all, those of the processor, and how many are affected."""
    level = world.topology.levels[1]
    nodes = world.topology.nodes[level.node_lo[3] : level.node_hi[3]]
    lost = frozenset(NodeId(node.name) for node in nodes)
    wanted = Supposed((clusters.gang(16),), dict.fromkeys(lost, "lost"), lost)
    began, cpu_s = time.perf_counter(), time.process_time()
    before = standing(world)
    found = play(before, suppose(world, wanted, NOW_S), 1, _decide, NOW_S)
    return time.perf_counter() - began, time.process_time() - cpu_s, len(found.others)


def _decide(world: World, now_s: float) -> Plan:
    return run_cycle(world, Policy(), now_s)


def loop_over_pods_s(world: World, repeats: int = 5) -> float:
    """Seconds to add up the GPUs of all pods by leaf, the best of a few runs."""
    index, leaf = world.topology.node_index, world.topology.place[1]
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        counts = [0] * len(world.topology.levels[1].names)
        for mine in world.pods.values():
            for pod in mine.values():
                counts[leaf[index[pod.node]]] += pod.gpu_mask.bit_count()
        best = min(best, time.perf_counter() - began)
    return best
