"""Predicted seconds between nodes where gangs meet a fragmented cluster: ours and the peers'.

Each gang is placed by itself in the same holes by every scheduler, then taken out again; what a
placement costs is what the cost model says of it, with ranks numbered as that scheduler numbers
them. Tensor groups are inside a node and left out; nothing is taken off for overlap.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from benchmarks import clusters
from benchmarks.harness import Options, Row, row
from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.cost.constants import CONSTANTS, Constants, numbers
from scheduler.cost.step import Prediction, predict
from scheduler.model.job import JobSpec, ModelShape, ParallelSizes
from scheduler.model.node import FabricLevel, Inventory
from scheduler.model.placement import Placement
from scheduler.model.resources import NOTHING
from scheduler.parallel.traffic import TRAFFIC_DEFAULTS
from scheduler.place.arrange import SAME_SECONDS
from scheduler.sim.peers.cycle import OwnPlacer
from scheduler.sim.peers.kueue import Kueue
from scheduler.sim.peers.placer import NodePlacer, Placer
from scheduler.sim.peers.slurm import Slurm
from scheduler.topology.build import build

ROWS = ("inter_node_time_gain",)

LOAD = 0.9
NODES, SMALL_NODES = 4_096, 512
SEEDS, SMALL_SEEDS = range(5), range(1)

SWITCHES = ("block", "leaf")
"""Levels that are switches, which is what the peers are told of."""


def _fabric(leaf_uplinks: float, above_block: float) -> Mapping[str, FabricLevel]:
    """Links of 400 Gbit/s per GPU; how many times the ports below exceed the uplinks."""
    return {
        "leaf": FabricLevel(400.0),
        "block": FabricLevel(400.0, leaf_uplinks),
        "core": FabricLevel(400.0, above_block),
    }


FABRICS: Mapping[str, Mapping[str, FabricLevel]] = {
    "non-blocking": _fabric(1.0, 1.0),
    "leaf uplinks 2:1": _fabric(2.0, 1.0),
    # The 24k-GPU RoCE cluster of Llama 3: pods of 3,072 GPUs with full bisection bandwidth inside,
    # joined by aggregation switches with an oversubscription of 1:7 (Grattafiori et al., "The Llama
    # 3 herd of models", arXiv:2407.21783, section 3.3.1).
    "7:1 above the block": _fabric(1.0, 7.0),
}

OVERSUBSCRIBED = ("leaf uplinks 2:1", "7:1 above the block")


def _gang(name: str, sizes: ParallelSizes, model: ModelShape | None) -> JobSpec:
    return JobSpec(name=name, parallelism=sizes, gpus_per_pod=8, model=model)


def _gpt(params: float, layers: int, hidden: int, micro: int, batch: int) -> ModelShape:
    return ModelShape(params, layers, hidden, 2_048, micro, batch)


MIXTRAL = ModelShape(46.7e9, 32, 4_096, 4_096, 1, 256, experts=8, top_k=2)
DEEPSEEK = ModelShape(671e9, 61, 7_168, 4_096, 1, 2_048, experts=256, top_k=8)
LLAMA = ModelShape(70e9, 80, 8_192, 131_072, 1, 64)

GANGS = (
    # Weak scaling of Narayanan et al., SC 2021, table 1: all ten rows; A100s there.
    _gang("1.7B", ParallelSizes(tp=1, dp=32), _gpt(1.7e9, 24, 2_304, 16, 512)),
    _gang("3.6B", ParallelSizes(tp=2, dp=32), _gpt(3.6e9, 30, 3_072, 16, 512)),
    _gang("7.5B", ParallelSizes(tp=4, dp=32), _gpt(7.5e9, 36, 4_096, 16, 512)),
    _gang("18B", ParallelSizes(tp=8, dp=32), _gpt(18.4e9, 40, 6_144, 8, 1_024)),
    _gang("39B", ParallelSizes(tp=8, pp=2, dp=32), _gpt(39.1e9, 48, 8_192, 4, 1_536)),
    _gang("76B", ParallelSizes(tp=8, pp=4, dp=32), _gpt(76.1e9, 60, 10_240, 2, 1_792)),
    _gang("145B", ParallelSizes(tp=8, pp=8, dp=24), _gpt(145.6e9, 80, 12_288, 2, 2_304)),
    _gang("310B", ParallelSizes(tp=8, pp=16, dp=15), _gpt(310.1e9, 96, 16_384, 1, 2_160)),
    _gang("530B", ParallelSizes(tp=8, pp=35, dp=9), _gpt(529.6e9, 105, 20_480, 1, 2_520)),
    _gang("1T", ParallelSizes(tp=8, pp=64, dp=6), _gpt(1_008e9, 128, 25_600, 1, 3_072)),
    # Figure 12 of the same paper.
    _gang("162B", ParallelSizes(tp=8, pp=12), _gpt(162e9, 96, 12_288, 1, 32)),
    # Sizes of Megatron's own scripts and tests for models with experts.
    _gang("mixtral", ParallelSizes(pp=4, dp=32, ep=8, etp=1), MIXTRAL),
    _gang("mixtral-tp", ParallelSizes(tp=2, pp=4, dp=16, ep=8, etp=1), MIXTRAL),
    _gang("deepseek", ParallelSizes(tp=2, pp=4, dp=64, ep=16, etp=1), DEEPSEEK),
    _gang("deepseek-wide", ParallelSizes(pp=8, dp=64, ep=64, etp=1), DEEPSEEK),
    # Long sequences, cut over context ranks.
    _gang("llama-long", ParallelSizes(tp=8, cp=8, pp=4), LLAMA),
    _gang("llama-long-dp", ParallelSizes(tp=8, cp=4, pp=4, dp=4), LLAMA),
    # Nothing known of the model: the traffic of each axis is assumed.
    _gang("assumed", ParallelSizes(tp=8, pp=4, dp=8), None),
    _gang("assumed-large", ParallelSizes(tp=8, pp=8, dp=16), None),
)
"""Published layouts of 4 to 384 nodes."""


def _under_one_core(inventory: Inventory, fabric: Mapping[str, FabricLevel]) -> Inventory:
    """The same nodes with a level above the blocks, whose links can then be told."""
    nodes = tuple(replace(node, places={"core": "core", **node.places}) for node in inventory.nodes)
    return replace(inventory, levels=("core", *inventory.levels), nodes=nodes, fabric=fabric)


def scattered(nodes: int, seed: int, fabric: Mapping[str, FabricLevel]) -> World:
    """A cluster in which one node in ten is free, wherever it is."""
    world = World(build(_under_one_core(clusters.inventory(nodes), fabric)).topology)
    chance = random.Random(seed)
    free = frozenset(chance.sample(range(nodes), round((1.0 - LOAD) * nodes)))
    for node in range(nodes):
        if node not in free:
            world.table.hold(Held(node, clusters.H100_MASK, NOTHING))
    return world


def holes(nodes: int, seed: int, fabric: Mapping[str, FabricLevel]) -> World:
    """A cluster filled from end to end by gangs of 1 to 64 nodes, a tenth of which have left.

    Every gang lies in one piece, as a scheduler that knows the fabric would have put it; so what is
    free lies in holes of the sizes that jobs have.
    """
    world = World(build(_under_one_core(clusters.inventory(nodes), fabric)).topology)
    chance = random.Random(seed)
    gangs, at = [], 0
    while at < nodes:
        size = min(chance.choice((1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64)), nodes - at)
        gangs.append(range(at, at + size))
        at += size
    chance.shuffle(gangs)
    left = round((1.0 - LOAD) * nodes)
    for node in [node for gang in gangs for node in gang][left:]:
        world.table.hold(Held(node, clusters.H100_MASK, NOTHING))
    return world


Fragment = Callable[[int, int, Mapping[str, FabricLevel]], World]


@dataclass(frozen=True, slots=True)
class Meeting:
    """One gang in one fragmented cluster, as each scheduler places it.

    Attributes:
        placements: By scheduler; "own" is ours.
    """

    spec: JobSpec
    world: World
    placements: Mapping[str, Placement]

    def seconds(self, constants: Constants = CONSTANTS) -> dict[str, float]:
        """Predicted between nodes, by scheduler."""
        return {who: self.predict(who, constants).inter_node_s for who in self.placements}

    def bound_s(self) -> float:
        """No layout takes less on the nodes that are free here: what our answer proves.

        One that says `exact` is at most 1 % above it, one that says `bounded` tells by how much.
        """
        found = self.placements["own"]
        own_s = self.seconds()["own"]
        return own_s / SAME_SECONDS if found.gap is None else own_s * (1.0 - found.gap)

    def predict(self, who: str, constants: Constants = CONSTANTS) -> Prediction:
        pods = self.placements[who].pods
        return predict(
            self.spec,
            self.world.topology,
            clusters.H100,
            8,
            [pod.node_index for pod in pods],
            [pod.gpu_mask for pod in pods],
            constants=constants,
        )


def meetings(
    options: Options, fabric: Mapping[str, FabricLevel], fragment: Fragment = scattered
) -> list[Meeting]:
    """Every gang that fits in every cluster."""
    nodes, seeds = (SMALL_NODES, SMALL_SEEDS) if options.small else (NODES, SEEDS)
    placers: list[Placer] = [
        OwnPlacer(),
        NodePlacer(Slurm(SWITCHES)),
        NodePlacer(Kueue(SWITCHES)),
    ]
    out = []
    for seed in seeds:
        world = fragment(nodes, seed, fabric)
        for spec in GANGS:
            found = {placer.name: placer.place(world.trial, spec) for placer in placers}
            placements = {who: place for who, place in found.items() if place is not None}
            if len(placements) == len(placers):
                out.append(Meeting(spec, world, placements))
    return out


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def gains(found: Sequence[Meeting], constants: Constants = CONSTANTS) -> dict[str, list[float]]:
    """For each peer, its seconds over ours, gang by gang; 1.0 where neither leaves a node."""
    out: dict[str, list[float]] = {}
    for meeting in found:
        seconds = meeting.seconds(constants)
        own = seconds.pop("own")
        for peer, theirs in seconds.items():
            out.setdefault(peer, []).append(theirs / own if own else 1.0)
    return out


def changed() -> Iterator[tuple[str, Constants]]:
    """Every table in which one constant is half or one and a half of what it is.

    Shares stay at most 1 and oversubscription at least 1.
    """
    for factor in (0.5, 1.5):
        for name in numbers():
            value = getattr(CONSTANTS, name) * factor
            if name.endswith(("_efficiency", "_share")):
                value = min(1.0, value)
            if name.endswith(("_oversubscription", "_factor")):
                value = max(1.0, value)
            yield f"{name} x {factor}", replace(CONSTANTS, **{name: value})
        for name in ("tp", "ep", "cp", "dp", "pp"):
            assumed = getattr(TRAFFIC_DEFAULTS, f"{name}_gb") * factor
            traffic = replace(TRAFFIC_DEFAULTS, **{f"{name}_gb": assumed})
            yield f"{name}_gb x {factor}", replace(CONSTANTS, traffic=traffic)


def axis_gains(found: Sequence[Meeting]) -> dict[str, dict[str, float]]:
    """Axis -> peer -> its seconds over ours, of gangs whose axis takes time with both."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for meeting in found:
        own = meeting.predict("own").axes
        for peer in meeting.placements:
            if peer == "own":
                continue
            for axis, theirs in meeting.predict(peer).axes.items():
                if axis != "tp" and own[axis].seconds and theirs.seconds:
                    ratio = theirs.seconds / own[axis].seconds
                    ratios.setdefault(axis, {}).setdefault(peer, []).append(ratio)
    return {
        axis: {peer: round(mean(values), 3) for peer, values in by_peer.items()}
        for axis, by_peer in sorted(ratios.items())
    }


def gang_gains(found: Sequence[Meeting]) -> dict[str, float]:
    """Gang -> seconds of the best peer in each cluster over ours."""
    ratios: dict[str, list[float]] = {}
    for meeting, *by_peer in zip(found, *gains(found).values(), strict=True):
        ratios.setdefault(meeting.spec.name, []).append(min(by_peer))
    return {name: round(mean(values), 3) for name, values in ratios.items()}


def regret_ratios(found: Sequence[Meeting]) -> dict[str, list[float]]:
    """Seconds of each scheduler over ours on the empty cluster, gang by gang."""
    ratios: dict[str, list[float]] = {}
    for meeting in found:
        alone = OwnPlacer().place(meeting.world.emptied(), meeting.spec)
        if alone is None:
            continue
        least = replace(meeting, placements={"own": alone}).seconds()["own"]
        for who, seconds in meeting.seconds().items():
            ratios.setdefault(who, []).append(seconds / least if least else 1.0)
    return ratios


def regrets(found: Sequence[Meeting]) -> dict[str, float]:
    """Their means: no gain exceeds a peer's regret."""
    return {who: round(mean(values), 3) for who, values in regret_ratios(found).items()}


def ceilings(found: Sequence[Meeting]) -> dict[str, list[float]]:
    """For each scheduler, its seconds over the least on these nodes: no gain over it is larger."""
    out: dict[str, list[float]] = {}
    for meeting in found:
        bound_s = meeting.bound_s()
        for who, seconds in meeting.seconds().items():
            out.setdefault(who, []).append(seconds / bound_s if bound_s else 1.0)
    return out


def summary(found: Sequence[Meeting]) -> dict[str, object]:
    """Gains over each peer and those of each axis; beside them, what could be gained at most.

    `regret` is beside the empty cluster, `over_bound` beside what the nodes that are free allow.
    """
    ratios = gains(found)
    return {
        "gain": {peer: round(mean(values), 3) for peer, values in ratios.items()},
        "least": {peer: round(min(values), 3) for peer, values in ratios.items()},
        "regret": regrets(found),
        "over_bound": {who: round(mean(values), 3) for who, values in ceilings(found).items()},
        "exact": sum(meeting.placements["own"].search == "exact" for meeting in found),
        "axes": axis_gains(found),
        "by_gang": gang_gains(found),
        "gangs": len(found),
    }


def _least_mean(by_scheduler: Mapping[str, Sequence[float]]) -> float:
    """Of the better peer, as the gain is: no scheduler could have had a larger one."""
    return min(mean(values) for who, values in by_scheduler.items() if who != "own")


def rows(options: Options) -> Iterator[Row]:
    """The gain on the two oversubscribed fabrics over the better peer; all else beside it."""
    if not options.wants(*ROWS):
        return
    said: dict[str, object] = {}
    narrow: list[Meeting] = []
    weakest = (float("inf"), "")
    for name, fabric in FABRICS.items():
        found = meetings(options, fabric)
        said[name] = summary(found)
        said[f"{name}, holes left by whole gangs"] = summary(meetings(options, fabric, holes))
        if name in OVERSUBSCRIBED:
            narrow += found
        for change, constants in changed():
            least = min(mean(values) for values in gains(found, constants).values())
            weakest = min(weakest, (least, f"{name}, {change}"))
    yield row(
        "inter_node_time_gain",
        min(mean(values) for values in gains(narrow).values()),
        "ratio",
        1.0,
        nodes=SMALL_NODES if options.small else NODES,
        load=LOAD,
        most_on_these_nodes=round(_least_mean(ceilings(narrow)), 3),
        most_on_the_empty_cluster=round(_least_mean(regret_ratios(narrow)), 3),
        weakest_gain_of_any_change=round(weakest[0], 3),
        weakest_at=weakest[1],
        fabrics=said,
    )
