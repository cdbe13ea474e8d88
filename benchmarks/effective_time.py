"""Effective training time over simulated months, against the bound without any scheduler.

The real cycle under a virtual clock: gangs fill the cluster but for its spares, nodes fail at a
published rate and come back after four hours on average. The bound has the same losses at the same
moments, with every lost member placed in the moment it was lost and spares without end.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks import clusters
from benchmarks.harness import Options, Row, row
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.job import Failure, JobSpec, ParallelSizes, Scope
from scheduler.model.plan import Plan
from scheduler.policy import Policy
from scheduler.recover.spares import spares_needed
from scheduler.sim.engine import EPOCH_S, Engine
from scheduler.sim.faults import (
    DAY_S,
    NODE_FAULTS_PER_NODE_DAY,
    REPAIR_S,
    Kind,
    Rates,
    incidents,
)
from scheduler.sim.goodput import Goodput, shares_of
from scheduler.sim.workload import Submission
from scheduler.topology.build import build

ROWS = ("effective_time_gap_points",)
START_S, SAVE_S = 180.0, 900.0
"""From when members start anew until the gang makes progress, and between saves. Our assumptions:
a checkpoint every quarter of an hour, three minutes to stop, load and warm up."""
GANG_NODES = 256


def measure(options: Options) -> Iterator[Row]:
    if not options.wants(*ROWS):
        return
    nodes, days = (256, 10.0) if options.small else (2_048, 90.0)
    yield simulated(nodes, days)


def simulated(nodes: int, days: float, seed: int = 1) -> Row:
    """The row for a cluster of so many nodes in use, and spares by the stated formula."""
    spares = spares_needed(nodes, NODE_FAULTS_PER_NODE_DAY, REPAIR_S)
    topology = build(clusters.inventory(nodes + spares)).topology
    seen, spent = Goodput(), list[float]()

    def decide(world: World, policy: Policy, now_s: float) -> Plan:
        began = time.perf_counter()
        plan = run_cycle(world, policy, now_s)
        if plan.pods:
            spent.append(time.perf_counter() - began)
        return plan

    engine = Engine(World(topology), Policy(), decide=decide, observers=[seen], start_s=START_S)
    engine.load(_gangs(nodes))
    names = [node.name for node in topology.nodes]
    for incident in incidents(names, Rates(), days * DAY_S, seed):
        what = engine.lose_node if incident.kind is Kind.NODE_LOST else engine.bring_back
        engine.at(EPOCH_S + incident.at_s, partial(what, incident.node))
    until_s = EPOCH_S + days * DAY_S
    engine.run(until_s=until_s)
    shares = shares_of(seen.lives.values(), EPOCH_S, until_s, START_S, SAVE_S)
    # A decision stops no gang but the one that it is for.
    deciding = sum(spent) / (len(seen.lives) * days * DAY_S)
    return row(
        "effective_time_gap_points",
        100.0 * (shares.gap + deciding),
        "points",
        nodes=nodes,
        spares=spares,
        days=days,
        losses=shares.hits,
        effective_percent=round(100 * shares.useful, 3),
        bound_percent=round(100 * shares.bound, 3),
        redone_points=round(100 * shares.redone, 3),
        down_points=round(100 * shares.down, 3),
        waiting_points=round(100 * shares.gap, 4),
        deciding_points=round(100 * deciding, 5),
    )


def _gangs(nodes: int) -> list[Submission]:
    """Gangs that fill the cluster and outlast the simulation."""
    size = min(GANG_NODES, nodes)
    sizes = ParallelSizes(tp=8, pp=8, dp=size // 8)
    failure = Failure(Scope.GANG, hold_s=30 * DAY_S)
    spec = JobSpec(name="", parallelism=sizes, failure=failure)
    return [
        Submission(0.0, replace(spec, name=f"gang-{n}"), run_s=1e9) for n in range(nodes // size)
    ]
