"""Random small clusters and gangs, each made from one seed and told in plain values."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Parts, Role, Rule
from scheduler.model.node import FabricLevel, Inventory, NodeRecord, NodeType
from scheduler.model.resources import NOTHING, Resources
from scheduler.topology.build import build
from scheduler.topology.dead_rails import DEAD_RAILS
from tests.builders import make_type

MAPS = (
    ("leaf", "node"),
    ("leaf", "rack", "node"),
    ("zone", "leaf", "node"),
    ("block", "leaf", "rack", "node"),
    ("row", "supernode", "node"),
)
ORDERS = (
    ("tp", "cp", "ep", "dp", "pp"),
    ("tp", "cp", "ep", "dp", "pp"),
    ("tp", "pp", "dp", "ep", "cp"),
    ("tp", "cp", "pp", "ep", "dp"),
)
CPUS = 112_000


@dataclass(frozen=True, slots=True)
class CaseNode:
    """A node and what is in use of it.

    Attributes:
        places: Domain at each level but the last; None where it has no place.
        used: Mask of GPUs that others hold.
        used_cpu_milli: CPUs that others hold.
        dead_rails: Mask of rails that the node has lost; GPU i is next to rail i.
    """

    name: str
    kind: NodeType
    places: Mapping[str, str | None]
    used: int = 0
    used_cpu_milli: int = 0
    cordoned: bool = False
    dead_rails: int = 0

    @property
    def free(self) -> int:
        """Mask of GPUs that nobody holds."""
        return (1 << self.kind.gpus) - 1 & ~self.used


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster, and the gang to be placed on it.

    Attributes:
        levels: Outermost first, `node` last.
        scale_up: Level that `scale_up` in a rule means, unless a node type says otherwise.
        fabric: Links by level; empty = the defaults of an inventory that says nothing.
    """

    seed: int
    levels: tuple[str, ...]
    scale_up: str
    nodes: tuple[CaseNode, ...]
    spec: JobSpec
    fabric: Mapping[str, FabricLevel] = field(default_factory=dict)


def world_of(case: Case) -> World:
    """The case as the scheduler knows it."""
    inventory = Inventory(
        cluster="oracle",
        levels=case.levels,
        scale_up=case.scale_up,
        node_types={node.kind.name: node.kind for node in case.nodes},
        nodes=tuple(NodeRecord(n.name, n.kind.name, n.places, _labels(n)) for n in case.nodes),
        fabric=case.fabric,
    )
    world = World(build(inventory).topology)
    for node in case.nodes:
        index = world.topology.node_index[node.name]
        if node.used or node.used_cpu_milli:
            world.table.hold(Held(index, node.used, Resources(cpu_milli=node.used_cpu_milli)))
        if node.cordoned:
            world.set_node(node.name, aside="cordoned")
    return world


def _labels(node: CaseNode) -> dict[str, str]:
    dead = [str(rail) for rail in range(node.kind.gpus) if node.dead_rails >> rail & 1]
    return {DEAD_RAILS: "_".join(dead)} if dead else {}


def rail_case(seed: int) -> Case:
    """The random case of a seed, with a parallel gang and dead rails on some nodes."""
    case, chance = random_case(3 * seed + 1), random.Random(seed)
    nodes = tuple(
        replace(node, dead_rails=chance.choice((1, 1 << node.kind.gpus - 1, 0b11, 0b1010)))
        if chance.random() < 0.3
        else node
        for node in case.nodes
    )
    return replace(case, nodes=nodes, spec=replace(case.spec, rails_required=chance.random() < 0.4))


def random_case(seed: int) -> Case:
    """Two cases in three hold a parallel gang, the others a role."""
    chance = random.Random(seed)
    levels = chance.choice(MAPS)
    scale_up = chance.choice(("node", "node", "node", levels[-2]))
    kinds = _kinds(chance, scale_up)
    nodes = _nodes(chance, levels, kinds)
    spec = _parallel(chance, levels) if seed % 3 else _role(chance, levels)
    if chance.random() < 0.15:
        names = [n.name for n in nodes]
        chosen = chance.sample(names, chance.randint(max(1, len(names) // 2), len(names)))
        spec = replace(spec, nodes=tuple(sorted(chosen)))
    return Case(seed, levels, scale_up, nodes, spec, _fabric(chance, levels))


def _kinds(chance: random.Random, scale_up: str) -> list[NodeType]:
    """One type of node, in one case of six two."""
    gpus = 8 if scale_up == "node" else 4
    kinds = [make_type(f"a{gpus}", gpus=gpus)]
    if chance.random() < 1 / 6:
        kinds.append(make_type("b4", gpus=4))
    return kinds


def _nodes(
    chance: random.Random, levels: tuple[str, ...], kinds: list[NodeType]
) -> tuple[CaseNode, ...]:
    """4 to 16 nodes in an uneven tree, part of them in use; some cordoned, few without a place."""
    busy = chance.choice((0.1, 0.3, 0.5))
    ragged = chance.random() < 0.15
    halves = chance.random() < 0.5
    inner = chance.randint(2, 6)
    out = []
    for number in range(chance.randint(4, 16)):
        branch = chance.randrange(inner)
        places: dict[str, str | None] = {}
        for depth, level in enumerate(reversed(levels[:-1])):
            places[level] = f"{level}{branch >> depth}"
        if ragged and chance.random() < 0.15:
            places[levels[-2]] = None
        kind = chance.choice(kinds)
        full = (1 << kind.gpus) - 1
        half = full >> kind.gpus // 2
        used = chance.choice((full, half, full ^ half, 0b0110)) if halves else full
        taken = chance.random() < busy
        out.append(
            CaseNode(
                name=f"n{number:02d}",
                kind=kind,
                places=places,
                used=used if taken else 0,
                used_cpu_milli=chance.choice((0, CPUS // 2)) if taken else 0,
                cordoned=chance.random() < 0.06,
            )
        )
    return tuple(out)


def _fabric(chance: random.Random, levels: tuple[str, ...]) -> dict[str, FabricLevel]:
    """Links of every level above the node; those further out may be oversubscribed."""
    if chance.random() < 0.2:
        return {}
    return {
        level: FabricLevel(400.0, chance.choice((1.0, 1.0, 2.0, 4.0, 7.0))) for level in levels[:-1]
    }


def _parallel(chance: random.Random, levels: tuple[str, ...]) -> JobSpec:
    """A layout of 1 to 8 pods with up to three rules."""
    tp, per_pod = chance.choice(((8, None), (4, 4), (4, None), (2, 4), (8, 4), (16, None)))
    pp, dp = chance.choice((1, 2, 3, 4)), chance.choice((1, 2, 3, 4))
    cp = chance.choice((1, 1, 1, 2))
    while tp * pp * dp * cp > 8 * (per_pod or min(tp, 8)):
        pp, dp = (pp, dp - 1) if dp > 1 else (pp - 1, dp)
        if pp == 0:
            pp, cp = 1, 1
            break
    ep = chance.choice((1, 1, 2, 4))
    sizes = ParallelSizes(tp=tp, pp=pp, dp=dp, cp=cp, order=chance.choice(ORDERS))
    if tp * dp * cp % ep == 0:
        sizes = replace(sizes, ep=ep, etp=1)
    if per_pod is not None and sizes.world % per_pod:
        per_pod = None
    return JobSpec(
        name="j",
        parallelism=sizes,
        gpus_per_pod=per_pod,
        rules=_rules(chance, ("tp", "cp", "ep", "dp", "pp", "job"), levels),
        resources_per_pod=Resources(cpu_milli=chance.choice((0, 0, CPUS // 2 + 1))),
    )


def _rules(
    chance: random.Random, groups: tuple[str, ...], levels: tuple[str, ...]
) -> tuple[Rule, ...]:
    named = levels[:-1] if chance.random() < 0.9 else (*levels[:-1], "scale_up")
    out = []
    for group in chance.sample(groups, min(len(groups), chance.choice((0, 1, 1, 2, 2, 3)))):
        mode = chance.choice((Mode.REQUIRED, Mode.PREFERRED))
        out.append(Rule(group, chance.choice(named), mode))
        if mode is Mode.REQUIRED and chance.random() < 0.2:
            out.append(Rule(group, chance.choice(named), Mode.PREFERRED))
    return tuple(out)


def _role(chance: random.Random, levels: tuple[str, ...]) -> JobSpec:
    """One role of up to 8 members, some in parts, some with fewer that must run."""
    size = chance.choice((1, 1, 2, 3))
    count = chance.randint(1, 8 // size)
    least = chance.choice((count, count, chance.randint(1, count)))
    parts = None
    if size > 1:
        parts = Parts(size, count, least, _rules(chance, ("",), levels))
    cpu = chance.choice((0, 0, CPUS // 4))
    role = Role(
        name="m",
        replicas=size * count,
        min=size * least,
        gpus=chance.choice((1, 2, 3, 4, 8)),
        resources=Resources(cpu_milli=cpu) if cpu else NOTHING,
        one_per_node=chance.random() < 0.3,
        rules=_rules(chance, ("m",), (*levels[:-1], "node", "node")),
        parts=parts,
    )
    rules = _rules(chance, ("job",), levels) if chance.random() < 0.5 else ()
    return JobSpec(name="j", roles=(role,), rules=rules)
