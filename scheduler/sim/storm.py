"""Everything at once, from one seed: mixed jobs, faults, crashes and people who change their minds.

Meant to break promises, not to resemble a cluster.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.claim import Window
from scheduler.model.ids import NodeId
from scheduler.model.job import (
    JOB_GROUP,
    Failure,
    IfNeverFits,
    JobSpec,
    Mode,
    ParallelSizes,
    Parts,
    Role,
    Rule,
    Scope,
)
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import FactKind, JobRecord
from scheduler.model.queue import QueueRecord
from scheduler.model.resources import Resources
from scheduler.policy import QUEUE_ORDERS, Policy
from scheduler.sim.checks import Checks
from scheduler.sim.engine import EPOCH_S, Decide, Engine
from scheduler.sim.faults import Incident, Kind, Rates, incidents
from scheduler.sim.workload import Submission, estimate, offered
from scheduler.topology.tree import Topology

HOUR_S = 3_600.0
QUEUES = ("root", "left", "right", "leftmost")

RATES = Rates(
    node_faults_per_node_day=0.5,
    repair_s=HOUR_S,
    people=(
        (Kind.CORDON, 12.0),
        (Kind.SILENCE, 24.0),
        (Kind.DRAIN, 12.0),
        (Kind.CRASH, 40.0),
        (Kind.CANCEL, 60.0),
        (Kind.PRIORITY, 60.0),
        (Kind.HOLD, 20.0),
        (Kind.SUSPEND, 30.0),
        (Kind.REQUEUE, 30.0),
        (Kind.QUOTA, 40.0),
        (Kind.PAUSE, 2.0),
        (Kind.WINDOW, 6.0),
        (Kind.POD_CRASH, 60.0),
    ),
)
"""Far above what any cluster sees: a day of this holds months of trouble."""


@dataclass(slots=True)
class Storm:
    """A simulation about to run.

    Attributes:
        checks: Of every promise, as observer of the engine.
        happened: Incidents so far, by kind.
    """

    seed: int
    engine: Engine
    checks: Checks
    happened: Counter[Kind] = field(default_factory=Counter)


def storm(topology: Topology, seed: int, jobs: int, *, decide: Decide = run_cycle) -> Storm:
    """A storm over a small cluster; the same for the same seed and number of jobs.

    A job makes about eleven steps: it comes, starts, runs and ends, and then there is the trouble.
    """
    chance = random.Random(f"storm-{seed}")
    world = World(topology)
    world.set_queues(_queues(chance, topology))
    checks = Checks(decide)
    policy = Policy(
        order=chance.choice(QUEUE_ORDERS),
        reserve_after_s=chance.choice([60.0, 600.0]),
        breaker_share=chance.choice([0.2, 1.0]),
    )
    policy = replace(policy, **_turns(seed))  # type: ignore[arg-type]  # floats by name
    policy = replace(policy, spare_pool=_pools(topology, seed))
    engine = Engine(world, policy, decide=decide, observers=[checks])
    drawn = [_job(topology, chance) for _ in range(jobs)]
    meek = random.Random(f"meek-{seed}")
    drawn = [_maybe_meek(job, meek) for job in drawn]
    gpus = sum(kind.gpus for kind in topology.types)
    span_s = offered(drawn) / (gpus * chance.choice([0.7, 1.0, 1.3]))
    times = sorted(chance.uniform(0.0, span_s) for _ in drawn)
    engine.load(
        [
            replace(job, at_s=at_s, spec=replace(job.spec, name=f"s{number}"))
            for number, (at_s, job) in enumerate(zip(times, drawn, strict=True))
        ]
    )
    names = [node.name for node in topology.nodes]
    found = Storm(seed, engine, checks)
    for incident in incidents(names, RATES, span_s, seed):
        engine.at(EPOCH_S + incident.at_s, Happening(engine, incident, found.happened))
    return found


def _turns(seed: int) -> dict[str, float]:
    """When gangs are promised a place: at once, after a wait, or large ones at once."""
    chance = random.Random(f"turns-{seed}")
    after = chance.choice([0.0, 0.5, 1.0])
    return {
        "reserve_at_once_share": chance.choice([0.0, 0.1, 0.1, 1.0]),
        "reserve_after_run_times": after,
        "start_by_run_times": after + chance.choice([0.0, 1.0, 2.0]),
    }


def _pools(topology: Topology, seed: int) -> dict[str, int]:
    """Nodes kept for gangs in recovery: in every second storm, in each domain above the nodes."""
    chance = random.Random(f"pools-{seed}")
    level = chance.choice(topology.level_names[:-1] or topology.level_names)
    return chance.choice([{}, {level: 1}])


# -- jobs -----------------------------------------------------------------------------------------


def _queues(chance: random.Random, topology: Topology) -> list[QueueRecord]:
    gpus = sum(kind.gpus for kind in topology.types)
    quota = gpus // 4
    return [
        QueueRecord("root", quota_gpus=2 * quota, limit_gpus=chance.choice([None, 3 * quota])),
        QueueRecord("left", "root", quota_gpus=quota, weight=2.0),
        QueueRecord("leftmost", "left", quota_gpus=quota // 2, limit_gpus=quota),
        QueueRecord("right", quota_gpus=quota),
    ]


def _job(topology: Topology, chance: random.Random) -> Submission:
    run_s = HOUR_S * 2.0 ** chance.uniform(-6.0, 3.0)
    spec = chance.choice([_gang, _gang, _gang, _few_gpus, _members, _members])(topology, chance)
    declared = chance.random() < 0.7
    spec = replace(
        spec,
        queue=chance.choice([*QUEUES, "default"]),
        priority=chance.choice([0, 0, 0, 1, 2, 3]),
        preemptible=chance.random() < 0.85,
        spares=chance.choice([0, 0, 0, 0, 1]),
        duration_s=estimate(run_s, 3.0, chance) if declared else None,
        time_limit_s=run_s * chance.uniform(0.5, 4.0) if chance.random() < 0.1 else None,
        patience_s=chance.choice([None, None, 0.0, 120.0]),
        failure=Failure(
            chance.choice(list(Scope)),
            max_restarts=chance.choice([0, 1, 3, 10]),
            hold_s=chance.choice([0.0, 60.0, 600.0]),
        ),
        if_never_fits=IfNeverFits.WAIT,
    )
    return Submission(
        at_s=0.0,
        spec=spec,
        run_s=run_s,
        stop_s=chance.choice([0.0, 5.0, 60.0]),
        # Some jobs never fit, or not while a window or a limit lasts: nobody waits for ever.
        cancel_s=48 * HOUR_S if chance.random() < 0.8 else chance.uniform(0.0, 6 * HOUR_S),
    )


def _maybe_meek(job: Submission, chance: random.Random) -> Submission:
    """Some jobs make nobody leave."""
    is_meek = chance.random() < 0.1
    return replace(job, spec=replace(job.spec, preempts=False)) if is_meek else job


def _gang(topology: Topology, chance: random.Random) -> JobSpec:
    gpus = max(kind.gpus for kind in topology.types)
    most = max(1, topology.node_count // 3)
    pp, dp = chance.choice([1, 1, 2, 3, 4]), chance.randint(1, max(1, most // 2))
    while pp * dp > most:
        dp = max(1, dp // 2)
        pp = 1 if dp == 1 else pp
    sizes = ParallelSizes(tp=gpus, pp=pp, dp=dp)
    return JobSpec(name="s", parallelism=sizes, rules=_rules(topology, chance, ("pp", "dp")))


def _few_gpus(topology: Topology, chance: random.Random) -> JobSpec:
    tp = chance.choice([1, 1, 2, 4])
    return JobSpec(name="s", parallelism=ParallelSizes(tp=tp, dp=chance.choice([1, 1, 2])))


def _members(topology: Topology, chance: random.Random) -> JobSpec:
    """Roles: elastic members, parts that start whole, members without GPUs."""
    gpus = chance.choice([0, 1, 2, 4, 8])
    if chance.random() < 0.4:
        size, count = chance.choice([2, 3]), chance.choice([2, 3])
        least = chance.randint(1, count)
        rules = tuple(Rule("", r.within, r.mode) for r in _rules(topology, chance, ()))
        role = Role(
            "member", size * count, size * least, gpus, parts=Parts(size, count, least, rules)
        )
    else:
        replicas = chance.randint(1, 6)
        role = Role(
            "member",
            replicas,
            chance.randint(1, replicas),
            gpus,
            Resources(cpu_milli=chance.choice([0, 4_000]), memory_mib=chance.choice([0, 8_192])),
            one_per_node=chance.random() < 0.3,
        )
    return JobSpec(name="s", roles=(role,), rules=_rules(topology, chance, ()))


def _rules(topology: Topology, chance: random.Random, groups: tuple[str, ...]) -> tuple[Rule, ...]:
    if chance.random() < 0.5:
        return ()
    level = chance.choice(topology.level_names[:-1])
    group = chance.choice([JOB_GROUP, *groups])
    return (Rule(group, level, chance.choice([Mode.REQUIRED, Mode.PREFERRED])),)


# -- what happens ---------------------------------------------------------------------------------


class Happening:
    """One incident, when its time comes."""

    def __init__(
        self, engine: Engine, incident: Incident, happened: Counter[Kind] | None = None
    ) -> None:
        self._engine = engine
        self._incident = incident
        self._happened = happened

    def __call__(self) -> None:
        if self._happened is not None:
            self._happened[self._incident.kind] += 1
        happen(self._engine, self._incident)


def happen(engine: Engine, incident: Incident) -> None:
    """Let one incident happen to whatever is there now; nothing where it makes no sense."""
    kind = incident.kind
    if kind is Kind.NODE_LOST:
        engine.lose_node(incident.node)
    elif kind is Kind.NODE_BACK:
        engine.bring_back(incident.node)
    elif kind is Kind.SILENCE:
        engine.silence(incident.node)
    elif kind is Kind.SPEAK:
        engine.speak(incident.node)
    elif kind is Kind.DRAIN:
        deadline_s = (
            None
            if incident.amount < 0.3
            else engine.now_s + 600.0 * (incident.amount - 0.3) * (incident.amount > 0.6)
        )
        engine.drain(incident.node, deadline_s)
    elif kind is Kind.UNDRAIN:
        engine.undrain(incident.node)
    elif kind in {Kind.CORDON, Kind.UNCORDON}:
        engine.cordon(incident.node, on=kind is Kind.CORDON)
    elif kind is Kind.CRASH:
        engine.crash()
    elif kind in {Kind.PAUSE, Kind.UNPAUSE}:
        engine.policy = replace(engine.policy, paused=kind is Kind.PAUSE)
    elif kind is Kind.QUOTA:
        _change_queue(engine, incident)
    elif kind is Kind.WINDOW:
        _plan_window(engine, incident)
    else:
        _to_a_job(engine, incident)


def _to_a_job(engine: Engine, incident: Incident) -> None:
    job = _pick(engine, incident)
    if job is None:
        return
    kind, world = incident.kind, engine.world
    if kind is Kind.CANCEL:
        engine.cancel(job.uid)
    elif kind is Kind.PRIORITY:
        spec = replace(job.spec, priority=int(incident.amount * 4))
        world.revision += 1
        world.put_job(replace(job, spec=spec))
    elif kind is Kind.POD_CRASH:
        running = [p for p in world.live_pods(job.uid) if p.state is PodState.RUNNING]
        if running and running[0].node not in engine.lost:
            engine.crash_pod(running[0])
    elif kind in FACTS:
        engine.tell(FACTS[kind], job.uid)


FACTS = {
    Kind.HOLD: FactKind.HOLD,
    Kind.RELEASE: FactKind.RELEASE,
    Kind.SUSPEND: FactKind.SUSPEND,
    Kind.RESUME: FactKind.RESUME,
    Kind.REQUEUE: FactKind.REQUEUE,
}


def _pick(engine: Engine, incident: Incident) -> JobRecord | None:
    """One of the jobs that the incident could be about."""
    jobs = [engine.world.jobs[uid] for uid in sorted(engine.world.jobs)]
    if incident.kind is Kind.RELEASE:
        jobs = [job for job in jobs if job.held]
    elif incident.kind is Kind.RESUME:
        jobs = [job for job in jobs if job.state is JobState.SUSPENDED]
    return jobs[int(incident.pick * len(jobs))] if jobs else None


def _change_queue(engine: Engine, incident: Incident) -> None:
    gpus = sum(kind.gpus for kind in engine.world.topology.types)
    queues = dict(engine.world.queues)
    name = QUEUES[int(incident.pick * len(QUEUES))]
    quota = int(incident.amount * gpus / 2)
    limit = None if incident.amount < 0.3 else max(quota, gpus // 4)
    queues[name] = replace(queues[name], quota_gpus=quota, limit_gpus=limit)
    engine.world.revision += 1
    engine.world.set_queues(queues.values())


def _plan_window(engine: Engine, incident: Incident) -> None:
    """Some neighbouring nodes, some hours from now; windows that are over are forgotten."""
    world, now_s = engine.world, engine.now_s
    first = world.topology.node_index[incident.node]
    count = 1 + int(incident.amount * 4)
    names = tuple(NodeId(n.name) for n in world.topology.nodes[first : first + count])
    starts_s = now_s + HOUR_S * 8 * incident.pick
    window = Window(f"w{int(incident.at_s)}", names, starts_s, starts_s + HOUR_S)
    kept = [w for w in world.windows.values() if w.ends_s > now_s]
    if any(set(w.nodes) & set(names) for w in kept):
        return
    world.revision += 1
    world.set_windows([*kept, window])
