"""Properties of placement on random small clusters."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, ParallelSizes, Rule
from scheduler.model.node import FabricLevel
from scheduler.model.placement import NoFit, Placement
from scheduler.parallel.groups import groups_of
from scheduler.place.kept import Member, broken_rules
from scheduler.place.search import place
from scheduler.topology.tree import Topology
from tests.builders import make_node, make_topology
from tests.core.gangs import gang, occupy, preferred, required, role, role_gang

LEVELS = ("block", "leaf", "rack", "node")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to 24 nodes in an uneven tree, some of them in use, some without a rack."""
    nodes = []
    for number in range(draw(st.integers(1, 24))):
        rack = draw(st.integers(0, 7))
        blank = draw(st.integers(0, 9)) == 0
        nodes.append(
            make_node(
                f"n{number}",
                rack=None if blank else f"r{rack}",
                leaf=f"l{rack // 2}",
                block=f"b{rack // 4}",
            )
        )
    world = World(make_topology(nodes, levels=LEVELS))
    if draw(st.booleans()):
        links = FabricLevel(400.0)
        object.__setattr__(world.topology, "fabric", {"leaf": links, "block": links})
    for node in nodes:
        mask = draw(st.sampled_from([0, 0, 0, 0x0F, 0xF0, 0xFF, 0x3C]))
        if mask:
            occupy(world, node.name, mask)
        if draw(st.integers(0, 15)) == 0:
            world.set_node(node.name, aside="cordoned")
    return world


RULES = st.lists(
    st.builds(
        lambda group, level, hard: (required if hard else preferred)(group, level),
        st.sampled_from(["pp", "dp", "tp", "ep", "job"]),
        st.sampled_from(["rack", "leaf", "block"]),
        st.booleans(),
    ),
    max_size=3,
)
SIZES = st.tuples(
    st.sampled_from([2, 4, 8, 16]), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2])
)


@st.composite
def gangs(draw: st.DrawFn) -> JobSpec:
    if draw(st.booleans()):
        tp, pp, dp, ep = draw(SIZES)
        rules = draw(RULES)
        fits = (tp * dp) % ep == 0
        return gang(tp, pp, dp, *rules, ep=ep if fits else 1, etp=1)
    rules = [Rule("job" if r.group != "pp" else "m", r.within, r.mode) for r in draw(RULES)]
    members = role("m", draw(st.integers(1, 6)), gpus=draw(st.sampled_from([1, 2, 3, 4, 8])))
    others = draw(st.lists(st.just(role("o", 2, gpus=2)), max_size=1))
    return role_gang(members, *others, rules=tuple(rules))


@settings(max_examples=200, deadline=None)
@given(worlds(), gangs())
def test_a_placement_keeps_every_required_rule_and_takes_only_what_is_free(
    world: World, spec: JobSpec
) -> None:
    found = place(world.trial, spec)
    if isinstance(found, NoFit):
        assert found.fitting < max(found.wanted, 1)
        return
    taken: dict[int, int] = {}
    for pod in found.pods:
        assert world.table.aside[pod.node_index] is None
        assert world.table.free[pod.node_index] & pod.gpu_mask == pod.gpu_mask
        assert not taken.get(pod.node_index, 0) & pod.gpu_mask
        taken[pod.node_index] = taken.get(pod.node_index, 0) | pod.gpu_mask
    members = [Member(p.role, p.index, p.node_index) for p in found.pods]
    broken = broken_rules(spec, world.topology, members, found.gpus_per_pod)
    assert all(rule.mode == "preferred" for rule in broken)
    if spec.parallelism is not None:
        assert len(found.pods) * found.gpus_per_pod == spec.parallelism.world
        assert len({pod.node_index for pod in found.pods}) == len(found.pods)


@settings(max_examples=100, deadline=None)
@given(worlds(), gangs(), st.data())
def test_more_free_gpus_never_turn_a_fit_into_a_nofit(
    world: World, spec: JobSpec, data: st.DataObject
) -> None:
    if isinstance(place(world.trial, spec), NoFit):
        return
    used = [n for n, free in enumerate(world.table.free) if free != 0xFF]
    for node in data.draw(st.lists(st.sampled_from(used), unique=True)) if used else []:
        world.table.free[node] = 0xFF
        world.table._touch(node)
    assert isinstance(place(world.trial, spec), Placement)


@settings(max_examples=150, deadline=None)
@given(worlds(), st.integers(1, 3), st.integers(1, 4), st.sampled_from(["rack", "leaf", "block"]))
def test_one_rule_fits_exactly_when_counting_whole_groups_says_so(
    world: World, pp: int, dp: int, level: str
) -> None:
    """Each domain holds floor(free nodes / pp) pipelines; a domain without a name holds none."""
    spec = gang(8, pp, dp, required("pp", level))
    topology = world.topology
    depth = topology.level_index[level]
    free: dict[int, int] = {}
    for node in range(topology.node_count):
        if world.table.free[node] == 0xFF and world.table.aside[node] is None:
            domain = topology.place[depth][node]
            if pp == 1 or not topology.levels[depth].is_blank(domain):
                free[domain] = free.get(domain, 0) + 1
    whole = sum(count // pp for count in free.values())
    assert isinstance(place(world.trial, spec), Placement) == (whole >= dp)


@settings(max_examples=60, deadline=None)
@given(worlds(), gangs())
def test_the_same_input_gives_the_same_answer(world: World, spec: JobSpec) -> None:
    first = place(world.trial, spec)
    again = World(world.topology)
    again.table.free[:] = world.table.free
    again.table.aside[:] = world.table.aside
    assert place(again.trial, spec) == first
    assert place(world.trial, spec) == first


def crossings(topology: Topology, spec: JobSpec, found: Placement, axis: str, level: str) -> int:
    sizes = spec.parallelism
    assert isinstance(sizes, ParallelSizes)
    place_of = topology.place[topology.level_index[level]]
    of_pod = [place_of[pod.node_index] for pod in found.pods]
    groups = (groups_of(sizes)[axis] // found.gpus_per_pod).tolist()
    return sum(len({of_pod[pod] for pod in group}) - 1 for group in groups)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([2, 3]), st.sampled_from([2, 3, 4]))
def test_a_rule_on_the_light_axis_never_crosses_more_than_no_rule(
    world: World, pp: int, dp: int
) -> None:
    ruled, free = gang(8, pp, dp, required("pp", "leaf")), gang(8, pp, dp)
    with_rule, without = place(world.trial, ruled), place(world.trial, free)
    if isinstance(with_rule, Placement):
        assert isinstance(without, Placement)
        assert crossings(world.topology, ruled, with_rule, "pp", "leaf") == 0
        heavy = crossings(world.topology, ruled, with_rule, "dp", "leaf")
        assert crossings(world.topology, free, without, "dp", "leaf") <= heavy
