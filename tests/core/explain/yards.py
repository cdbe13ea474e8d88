"""Small worlds at random, full enough that gangs do not fit; and changes made to them for real."""

import random
from dataclasses import replace

from scheduler.cluster.world import World
from scheduler.explain.answer import Change, ChangeKind
from scheduler.explain.demands import with_dp, with_min, with_rule
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec, Mode, Parts, Role, Rule
from scheduler.model.lifecycle import PodState
from tests.builders import make_node, make_topology
from tests.core.gangs import cancel, cycle, gang, report, report_all, role, role_gang, submit

LEVELS = ("rack", "leaf", "block")


def random_world(chance: random.Random) -> World:
    """8 to 40 nodes in an uneven tree, most of them in use by gangs that the cycle placed."""
    nodes = [
        make_node(
            f"n{number:02d}",
            rack=None if chance.random() < 0.05 else f"r{number // 4}",
            leaf=f"l{number // chance.choice([8, 8, 9])}",
            block=f"b{number // 18}",
        )
        for number in range(chance.randint(8, 40))
    ]
    world = World(make_topology(_one_parent(nodes)))
    for number in range(chance.randint(2, 25)):
        spec = random_gang(chance, small=True)
        spec = replace(
            spec,
            duration_s=chance.choice([None, chance.uniform(100, 9_000)]),
            preemptible=chance.random() < 0.7,
        )
        submit(world, spec, f"old-{number}", priority=chance.choice([0, 0, 5, 10]))
        cycle(world)
    settle(world)
    for uid in sorted(world.jobs):
        if chance.random() < 0.2:
            report_all(world, uid, PodState.SUCCEEDED, 0)
        else:
            began = chance.uniform(0, 50)
            world.put_job(replace(world.jobs[uid], bound_s=began, started_s=began))
    cycle(world)
    share = chance.choice([0.0, 0.1, 0.4])
    for node in nodes:
        if chance.random() < share:
            world.set_node(node.name, aside=chance.choice(["cordoned", "cordoned", "suspect"]))
    return world


def settle(world: World) -> None:
    """Whoever waits goes away, whoever is to leave has left, and all others run."""
    for _ in range(4):
        for uid in sorted(world.jobs):
            if not world.live_pods(uid):
                cancel(world, uid)
        stop(world)
        cycle(world)
    for uid in sorted(world.jobs):
        report_all(world, uid, PodState.RUNNING)
    cycle(world)


def stop(world: World) -> None:
    """Pods that were told to stop have stopped."""
    for uid in sorted(world.jobs):
        for pod in world.live_pods(uid):
            if pod.state is PodState.TERMINATING:
                report(world, pod, PodState.STOPPED)


def _one_parent(nodes: list) -> list:  # type: ignore[type-arg]  # node records
    """A rack lies in the leaf of its first node, a leaf in the block of its first."""
    leaf_of: dict[str, str] = {}
    block_of: dict[str, str] = {}
    out = []
    for node in nodes:
        places = dict(node.places)
        if places.get("rack"):
            places["leaf"] = leaf_of.setdefault(places["rack"], places["leaf"])
        places["block"] = block_of.setdefault(places["leaf"], places["block"])
        out.append(replace(node, places=places))
    return out


def random_gang(chance: random.Random, *, small: bool = False) -> JobSpec:
    """A parallel gang or one of roles, with rules of every kind."""
    if chance.random() < 0.6:
        pp, dp = (chance.randint(1, 2), chance.randint(1, 2 if small else 6))
        rules = [
            Rule(chance.choice(["pp", "dp", "job"]), chance.choice(LEVELS), _mode(chance))
            for _ in range(chance.randint(0, 2))
        ]
        return gang(chance.choice([2, 4, 8, 8]), pp, dp, *rules)
    count = 1 if chance.random() < 0.7 else 2
    return role_gang(
        *(_role(chance, f"m{number}", small=small) for number in range(count)),
        rules=tuple(
            Rule("job", chance.choice(LEVELS), _mode(chance)) for _ in range(chance.randint(0, 1))
        ),
    )


def _role(chance: random.Random, name: str, *, small: bool) -> Role:
    size, number = chance.randint(1, 3), chance.randint(1, 2 if small else 6)
    rules = tuple(Rule("", chance.choice(LEVELS)) for _ in range(chance.randint(0, 1)))
    if chance.random() < 0.3:
        parts = Parts(size, number, chance.randint(1, number), rules)
        return role(
            name, size * number, chance.choice([2, 4, 8]), min=parts.min * size, parts=parts
        )
    return role(name, number, chance.choice([1, 3, 4, 8]), one_per_node=chance.random() < 0.2)


def _mode(chance: random.Random) -> Mode:
    return chance.choice([Mode.REQUIRED, Mode.REQUIRED, Mode.PREFERRED])


def make(world: World, waiting: JobId, change: Change) -> None:
    """Make a change as people would; the next cycle is to bind the gang that waits."""
    for ref in change.jobs:
        if change.kind is ChangeKind.PREEMPT:
            cancel(world, ref.uid)
        else:
            report_all(world, ref.uid, PodState.SUCCEEDED, 0)
    for node in change.nodes:
        world.set_node(node, aside=None)
    job = world.jobs[waiting]
    spec = job.spec
    for rules in change.rules:
        spec = with_rule(spec, rules.role, rules.before, rules.after)
    if change.size is not None:
        spec = (
            with_min(spec, change.role, change.size) if change.role else with_dp(spec, change.size)
        )
    if spec is not job.spec:
        world.put_job(replace(job, spec=spec))
