"""Other schedulers' choices, on cases small enough to follow by hand."""

from collections.abc import Sequence

import pytest

from scheduler.cluster.world import World
from scheduler.errors import JobError
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState
from scheduler.policy import Policy
from scheduler.sim.apply import apply, submit
from scheduler.sim.checks import Checks
from scheduler.sim.compare import POLICIES, Levels, decider
from scheduler.sim.engine import Engine
from scheduler.sim.peers.cycle import Discipline, PeerCycle
from scheduler.sim.peers.kueue import Kueue, most_free
from scheduler.sim.peers.placer import NodePlacer, Placer
from scheduler.sim.peers.plain import AnyFit, FirstFit
from scheduler.sim.peers.slurm import Slurm
from scheduler.sim.peers.volcano import Volcano
from scheduler.sim.workload import GANGS, Demand, generate
from tests.builders import make_tree
from tests.core.gangs import gang, occupy, preferred, required, role, role_gang

SWITCHES = ("block", "leaf")


def world_with(free: Sequence[int], *, blocks: int = 1, node: int = 4) -> World:
    """Leaves of `node` nodes with so many of them free, the first ones."""
    world = World(make_tree({"block": blocks, "leaf": len(free) // blocks, "node": node}))
    for leaf, count in enumerate(free):
        for i in range(count, node):
            occupy(world, world.topology.nodes[leaf * node + i].name)
    return world


def leaves(world: World, placer: Placer, spec: JobSpec) -> list[int] | None:
    """Index of each pod's leaf, in rank order."""
    found = placer.place(world.trial, spec)
    if found is None:
        return None
    return [world.topology.place[1][pod.node_index] for pod in found.pods]


def test_slurm_takes_the_tightest_leaf_that_suffices() -> None:
    assert leaves(world_with([4, 2, 3]), NodePlacer(Slurm(SWITCHES)), gang(8, 2)) == [1, 1]


def test_slurm_takes_the_lowest_switch_and_then_leaves_by_best_fit() -> None:
    """No leaf holds 5. Block 1 has 9 free, block 2 has 6: there the leaf of 4, then one of 1."""
    world = world_with([3, 3, 3, 4, 1, 1], blocks=2)
    assert leaves(world, NodePlacer(Slurm(SWITCHES)), gang(8, 5)) == [3, 3, 3, 3, 4]


def test_slurm_numbers_ranks_along_the_sorted_node_list() -> None:
    """The leaf of 4 is taken first, but its nodes come last in the list."""
    world = world_with([1, 4])
    assert leaves(world, NodePlacer(Slurm(SWITCHES)), gang(8, 5)) == [0, 1, 1, 1, 1]


def test_slurm_waits_for_one_switch_when_the_whole_job_must_be_in_one() -> None:
    placer = NodePlacer(Slurm(SWITCHES))
    assert leaves(world_with([2, 2]), placer, gang(8, 3, 1, required("job", "leaf"))) is None
    assert leaves(world_with([2, 3]), placer, gang(8, 3, 1, required("job", "leaf"))) == [1, 1, 1]


def test_kueue_chooses_as_its_published_example_does() -> None:
    """Nodes for 3, 3, 2 and 1 pods, 7 pods: the two largest, then the one that holds exactly 1."""
    assert most_free([3, 3, 2, 1], range(4), 7) == [0, 1, 3]


def test_kueue_goes_up_from_the_preferred_level_until_one_domain_fits() -> None:
    placer = NodePlacer(Kueue(SWITCHES))
    assert leaves(world_with([4, 2, 3]), placer, gang(8, 3)) == [2, 2, 2]
    assert leaves(world_with([4, 1, 3]), placer, gang(8, 5)) == [0, 0, 0, 0, 1]


def test_kueue_waits_when_the_required_level_has_no_domain_that_fits() -> None:
    placer = NodePlacer(Kueue(SWITCHES))
    assert leaves(world_with([2, 2]), placer, gang(8, 3, 1, required("job", "leaf"))) is None
    assert leaves(world_with([2, 2]), placer, gang(8, 3, 1, preferred("job", "leaf"))) == [0, 0, 1]


def test_volcano_tries_tiers_from_the_lowest_up_and_fills_from_one_node_on() -> None:
    placer = NodePlacer(Volcano(SWITCHES))
    assert leaves(world_with([4, 2, 3]), placer, gang(8, 2)) == [1, 1]
    assert leaves(world_with([1, 4, 2]), placer, gang(8, 6)) == [0, 1, 1, 1, 1, 2]
    assert leaves(world_with([2, 2]), placer, gang(8, 3, 1, required("job", "leaf"))) is None


def test_first_fit_and_chance_know_no_leaf() -> None:
    world = world_with([1, 4, 4])
    assert leaves(world, NodePlacer(FirstFit()), gang(8, 3)) == [0, 1, 1]
    spec = gang(8, 3)
    chosen = [leaves(world, NodePlacer(AnyFit(seed)), spec) for seed in range(8)]
    assert len({tuple(c or ()) for c in chosen}) > 1
    assert chosen[3] == leaves(world, NodePlacer(AnyFit(3)), spec)


@pytest.mark.parametrize("chooser", [Slurm(SWITCHES), Kueue(SWITCHES), Volcano(SWITCHES)])
def test_peers_take_the_lowest_free_gpus_of_a_node_in_part_use(
    chooser: Slurm | Kueue | Volcano,
) -> None:
    world = World(make_tree({"block": 1, "leaf": 1, "node": 1}))
    occupy(world, world.topology.nodes[0].name, 0b0000_0101)
    found = NodePlacer(chooser).place(world.trial, gang(2))
    assert found is not None
    assert [pod.gpu_mask for pod in found.pods] == [0b0000_1010]


def test_peers_refuse_jobs_of_roles() -> None:
    with pytest.raises(JobError, match="peers place parallel jobs"):
        NodePlacer(FirstFit()).place(world_with([4]).trial, role_gang(role("m", 2)))


def _behind_a_large_one(discipline: Discipline, small_s: float | None) -> set[str]:
    """Who starts: 4 nodes, 2 of them busy for 100 s more, one gang of 4, a small one behind it."""
    world = World(make_tree({"block": 1, "leaf": 1, "node": 4}))
    decide = PeerCycle(NodePlacer(FirstFit()), discipline)
    submit(world, gang(8, 2, duration_s=100.0), JobId("busy"), 0.0)
    apply(world, decide(world, Policy(), 0.0), 0.0)
    submit(world, gang(8, 4, duration_s=100.0), JobId("large"), 0.0)
    submit(world, gang(8, 1, duration_s=small_s), JobId("small"), 0.0)
    apply(world, decide(world, Policy(), 0.0), 0.0)
    return {uid for uid, job in world.jobs.items() if job.state is JobState.BOUND}


def test_disciplines_differ_in_who_may_overtake() -> None:
    assert _behind_a_large_one(Discipline.STRICT, 50.0) == {"busy"}
    assert _behind_a_large_one(Discipline.GREEDY, None) == {"busy", "small"}
    assert _behind_a_large_one(Discipline.EASY, 50.0) == {"busy", "small"}
    assert _behind_a_large_one(Discipline.EASY, 150.0) == {"busy"}
    assert _behind_a_large_one(Discipline.EASY, None) == {"busy"}


@pytest.mark.parametrize("policy", [name for name in POLICIES if not name.startswith("podyard")])
def test_peers_break_none_of_the_promises_that_hold_for_all(policy: str) -> None:
    """No GPU twice, whole gangs, every job ends, the same input gives the same plan."""
    topology = make_tree({"block": 2, "leaf": 4, "rack": 2, "node": 4})
    levels = Levels(SWITCHES, ("block", "leaf", "rack"), "leaf")
    jobs = generate(GANGS, Demand(jobs=60, load=0.9, gpus=512, largest=256), seed=3)
    decide = decider(policy, levels, jobs, 1)
    checks = Checks(decide, replay_every=10, stops=False)
    engine = Engine(World(topology), decide=decide, observers=[checks])
    engine.load(jobs)
    engine.at(engine.now_s + 9_000.0, engine.crash)
    engine.at(engine.now_s + 9_500.0, lambda: engine.lose_node(topology.nodes[0].name))
    engine.run()
    checks.finished(engine.world)
    assert engine.stats.ended == {JobState.SUCCEEDED: 60}
    assert checks.replays
