"""GPUs that claims keep: never free, vacant once nobody holds them, as before after a roll-back."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.nodes import Held
from scheduler.cluster.world import World
from scheduler.errors import InvariantError
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.lifecycle import PodState
from scheduler.model.placement import Placement
from scheduler.model.resources import NOTHING, Resources
from scheduler.place.search import place
from tests.builders import make_cluster
from tests.core.gangs import cycle, gang, occupy, submit


def world_of(nodes: int = 1) -> World:
    return World(make_cluster(racks=1, nodes_per_rack=nodes))


def claim(node: str = "n001", mask: int = 0xFF, uid: str = "c", **fields: object) -> Claim:
    made = Claim(ClaimId(uid), ClaimWhy.PREEMPTION, NodeId(node), mask, JobId("j"))
    return replace(made, **fields)  # type: ignore[arg-type]  # by name


def test_what_a_claim_keeps_is_not_free_to_others() -> None:
    world = world_of()
    world.put_claims([claim(mask=0x0F)])
    assert world.table.free == [0xF0]
    assert not isinstance(place(world.trial, gang(8)), Placement)
    assert isinstance(place(world.trial, gang(4)), Placement)
    world.put_claims([], [ClaimId("c")])
    assert world.table.free == [0xFF]
    assert not world.table.claimed


def test_what_leaves_under_a_claim_is_vacant_and_not_free() -> None:
    world = world_of()
    occupy(world, "n001", 0x0F)
    held = claim(mask=0x3F)
    world.put_claims([held])
    assert (world.table.free, world.table.vacant) == ([0xC0], {0: 0x30})
    assert not world.table.is_vacant(world.claimed_by(held))
    (pod,) = world.on_node[NodeId("n001")].values()
    world.put_pod(replace(pod, state=PodState.STOPPED))
    assert (world.table.free, world.table.vacant) == ([0xC0], {0: 0x3F})
    assert world.table.is_vacant(world.claimed_by(held))


def test_claims_become_pods_in_either_order() -> None:
    for pods_first in (True, False):
        world = world_of()
        uid = submit(world, gang(8), "j")
        cycle(world)
        (pod,) = world.live_pods(uid)
        world.put_pod(replace(pod, state=PodState.STOPPED))
        world.put_claims([claim()])
        if pods_first:
            world.put_pod(pod)
            world.put_claims([], [ClaimId("c")])
        else:
            world.put_claims([], [ClaimId("c")])
            world.put_pod(pod)
        assert world.table.free == [0]
        assert not world.table.vacant


def test_a_known_claim_may_move_to_another_place() -> None:
    world = world_of(2)
    world.put_claims([claim("n001")])
    world.put_claims([claim("n002", 0x01)])
    assert world.table.free == [0xFF, 0xFE]


def test_claims_keep_cpus_and_memory_too() -> None:
    world = world_of()
    before = world.table.cpu_milli[0]
    world.put_claims([claim(mask=0, resources=Resources(cpu_milli=5_000))])
    assert world.table.cpu_milli[0] == before - 5_000
    assert world.table.pod_count == [0]
    world.put_claims([], [ClaimId("c")])
    assert world.table.cpu_milli[0] == before


def test_claims_are_kept_over_a_new_map_and_on_nodes_that_come_later() -> None:
    world = world_of(1)
    world.put_claims([claim("n001"), claim("n002", uid="d")])
    assert world.table.free == [0]
    world.set_topology(make_cluster(racks=1, nodes_per_rack=2))
    assert world.table.free == [0, 0]
    world.put_claims([], [ClaimId("c"), ClaimId("d")])
    assert world.table.free == [0xFF, 0xFF]


def test_two_claims_do_not_share_a_gpu() -> None:
    world = world_of()
    world.put_claims([claim(mask=0x03)])
    with pytest.raises(InvariantError, match="claimed already"):
        world.put_claims([claim(mask=0x02, uid="d")])


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "release", "claim", "unclaim"]),
        st.integers(0, 1),
        st.sampled_from([0x03, 0x0C, 0x0F, 0xF0, 0x30, 0xFF]),
    ),
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(EDITS)
def test_free_is_what_neither_pods_nor_claims_have_and_rolls_back(
    edits: list[tuple[str, int, int]],
) -> None:
    """Against masks that are counted anew; an edit that the table refuses is left out."""
    world = world_of(2)
    mark = world.trial.mark()
    held, kept = [0, 0], [0, 0]
    for verb, node, mask in edits:
        one = Held(node, mask, NOTHING)
        if verb == "hold" and not held[node] & mask:
            held[node] |= mask
            world.trial.hold(one)
        elif verb == "release" and held[node] & mask == mask:
            held[node] ^= mask
            world.trial.release(one)
        elif verb == "claim" and not kept[node] & mask:
            kept[node] |= mask
            world.trial.claim(one)
        elif verb == "unclaim" and kept[node] & mask == mask:
            kept[node] ^= mask
            world.trial.unclaim(one)
        for index in range(2):
            assert world.table.free[index] == 0xFF & ~(held[index] | kept[index])
            assert world.table.vacant.get(index, 0) == kept[index] & ~held[index]
            assert world.table.claimed.get(index, 0) == kept[index]
    world.trial.roll_back(mark)
    assert world.table.free == [0xFF, 0xFF]
    assert not world.table.claimed
