"""Verdicts against brute force: every way to put a small gang on a small cluster is tried."""

import itertools
import random
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, Mode, Role, default_gpus_per_pod
from scheduler.model.placement import Placement
from scheduler.place.bounds import rules_of_parallel
from scheduler.place.kept import Member, broken_rules
from scheduler.place.search import place
from tests.builders import make_node, make_topology
from tests.core.gangs import gang, occupy, parts, required, role, role_gang

CASES = 150
LEVELS = ("leaf", "rack")


def small_world(chance: random.Random) -> World:
    """2 to 7 nodes in up to 4 racks of 2 leaves; some without a rack, some in use."""
    nodes = []
    for number in range(chance.randint(2, 7)):
        rack = chance.randrange(4)
        name = None if chance.random() < 0.1 else f"r{rack}"
        nodes.append(make_node(f"n{number}", rack=name, leaf=f"l{rack // 2}"))
    world = World(make_topology(nodes, levels=(*LEVELS, "node")))
    for node in nodes:
        mask = chance.choice([0, 0, 0, 0, 0xFF, 0x0F])
        if mask:
            occupy(world, node.name, mask)
    return world


def parallel_job(chance: random.Random) -> JobSpec:
    tp, pp, dp = chance.choice([4, 8, 16]), chance.randint(1, 3), chance.randint(1, 3)
    cp, ep = chance.choice([1, 1, 2]), chance.choice([1, 1, 2])
    rules = [
        required(chance.choice(["pp", "dp", "tp", "ep", "cp", "job"]), chance.choice(LEVELS))
        for _ in range(chance.randint(0, 2))
    ]
    return gang(tp, pp, dp, *rules, cp=cp, ep=1 if tp * dp * cp % ep else ep, etp=1)


def role_job(chance: random.Random) -> JobSpec:
    roles = [any_role(chance, name) for name in "ab"[: chance.randint(1, 2)]]
    rules = tuple(required("job", chance.choice(LEVELS)) for _ in range(chance.randint(0, 1)))
    return role_gang(*roles, rules=rules)


def any_role(chance: random.Random, name: str) -> Role:
    members = chance.randint(1, 3)
    rule = required(name, chance.choice([*LEVELS, "node"]))
    return role(
        name,
        members,
        gpus=chance.choice([1, 2, 3, 4, 5, 8]),
        one_per_node=chance.random() < 0.3,
        rules=(rule,) if chance.random() < 0.3 else (),
        parts=parts(1, 2, None, required("", "rack")) if members == 2 else None,
    )


def parallel_fits(world: World, spec: JobSpec, gpus: int, pods: int) -> bool:
    """Whether some order of some nodes keeps every rule."""
    topology = world.topology
    ruled = replace(spec, rules=rules_of_parallel(spec))
    roomy = [n for n, free in enumerate(world.table.free) if free.bit_count() >= gpus]
    for nodes in itertools.permutations(roomy, pods):
        members = [Member("", index, node) for index, node in enumerate(nodes)]
        if not broken_rules(ruled, topology, members, gpus):
            return True
    return False


def roles_fit(world: World, spec: JobSpec) -> bool:
    """Whether some assignment of every member keeps every rule."""
    members = [(r, index) for r in spec.roles for index in range(r.min)]
    free = [mask.bit_count() for mask in world.table.free]
    chosen: list[Member] = []

    def place_from(position: int) -> bool:
        if position == len(members):
            broken = broken_rules(spec, world.topology, chosen, 0)
            return not any(rule.mode is Mode.REQUIRED for rule in broken)
        wanted, index = members[position]
        for node, left in enumerate(free):
            alone = all(m.role != wanted.name or m.node != node for m in chosen)
            if left >= wanted.gpus and (alone or not wanted.one_per_node):
                free[node] -= wanted.gpus
                chosen.append(Member(wanted.name, index, node))
                if place_from(position + 1):
                    return True
                chosen.pop()
                free[node] += wanted.gpus
        return False

    return place_from(0)


@pytest.mark.parametrize("seed", range(3))
def test_parallel_gangs_fit_exactly_when_brute_force_says_so(seed: int) -> None:
    chance = random.Random(seed)
    for number in range(CASES):
        world, spec = small_world(chance), parallel_job(chance)
        assert spec.parallelism is not None
        gpus = default_gpus_per_pod(spec.parallelism, 8)
        pods = spec.parallelism.world // gpus
        if pods > 5:
            continue
        wanted = parallel_fits(world, spec, gpus, pods)
        assert isinstance(place(world.trial, spec), Placement) == wanted, (seed, number, spec)


@pytest.mark.parametrize("seed", range(3))
def test_role_gangs_fit_exactly_when_brute_force_says_so(seed: int) -> None:
    chance = random.Random(seed)
    for number in range(CASES):
        world, spec = small_world(chance), role_job(chance)
        found = place(world.trial, spec)
        assert isinstance(found, Placement) == roles_fit(world, spec), (seed, number, spec)
