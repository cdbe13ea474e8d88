"""Counts that follow edits, and edits that roll back."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster import nodes as nodes_module
from scheduler.cluster import view as view_module
from scheduler.cluster.buckets import Buckets
from scheduler.cluster.floors import Floors
from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.trial import VIEW_LIMIT, Trial
from scheduler.cluster.view import Shape, View, why_never
from scheduler.errors import InvariantError
from scheduler.model.resources import NOTHING, Resources, full_mask, indices_of, mask_of
from tests.builders import make_cluster, make_type

SHAPES = [
    Shape("h100-8", 8, single=True),
    Shape("h100-8", 4, single=True),
    Shape(None, 2),
    Shape(None, 0, Resources(cpu_milli=30_000)),
]

UNITS = [((2, 2),), ((1, 3),), ((0, 6), (2, 2)), ((1, 4), (3, 2))]


def test_masks_and_indices_are_two_spellings() -> None:
    assert mask_of([0, 3]) == 0b1001
    assert indices_of(0b1001) == [0, 3]
    assert full_mask(8) == 0xFF
    assert NOTHING.is_zero()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.booleans()), max_size=40))
def test_counts_kept_by_edits_equal_counts_made_anew(edits: list[tuple[int, int, bool]]) -> None:
    table = NodeTable(make_cluster(racks=2, nodes_per_rack=4, leaves=2))
    trial = Trial(table)
    views = [trial.view(shape) for shape in SHAPES]
    for view, units in product(views, UNITS):
        for level in range(units[-1][0] + 1):
            view.floors(units).buckets(level)
    for view in views:
        for level in range(len(view.counts)):
            view.buckets(level)
        list(view.tight_nodes())
    held: dict[tuple[int, int], Held] = {}
    for node, pair, aside in edits:
        if aside:
            table.set_aside(node, None if table.aside[node] else "cordoned")
        elif (node, pair) in held:
            trial.release(held.pop((node, pair)))
        else:
            held[node, pair] = Held(node, 0b11 << 2 * pair, Resources(cpu_milli=25_000))
            trial.hold(held[node, pair])
    for shape in SHAPES:
        kept, fresh = trial.view(shape), View(table, shape)
        assert (kept.counts, kept.total) == (fresh.counts, fresh.total)
        for level in range(len(fresh.counts)):
            assert kept.buckets(level).masks == fresh.buckets(level).masks
            assert kept.buckets(level).counts == fresh.buckets(level).counts
        assert list(kept.tight_nodes()) == list(fresh.tight_nodes())
        for units in UNITS:
            floors, anew = kept.floors(units), Floors(fresh, units)
            assert (floors.caps, floors.total) == (anew.caps, anew.total)
            for level in range(units[-1][0] + 1):
                assert floors.buckets(level).masks == anew.buckets(level).masks
        assert sum(fresh.set_aside().values()) == fresh.slots.count(0)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), unique=True, max_size=20))
def test_a_trial_rolls_back_exactly(edits: list[tuple[int, int]]) -> None:
    trial = Trial(NodeTable(make_cluster()))
    before = (list(trial.table.free), list(trial.table.cpu_milli), list(trial.table.pod_count))
    mark = trial.mark()
    for node, gpu in edits:
        trial.hold(Held(node, 1 << gpu, Resources(cpu_milli=5, other=(("x", 1),))))
    if edits:
        trial.release(Held(edits[0][0], 1 << edits[0][1], Resources(5, 0, (("x", 1),))))
    trial.roll_back(mark)
    after = (list(trial.table.free), list(trial.table.cpu_milli), list(trial.table.pod_count))
    assert after == before
    assert all(amounts.get("x", 0) == 0 for amounts in trial.table.other)


def test_buckets_give_the_tightest_first() -> None:
    buckets = Buckets([3, 1, 3, 0])
    assert list(buckets.at_least(1)) == [1, 0, 2]
    buckets.move(0, 3, 1)
    assert list(buckets.at_least(1)) == [0, 1, 2]
    buckets.move(2, 3, 5)
    assert (buckets.largest, buckets.counts) == (5, [0, 1, 5])
    assert Buckets([]).largest == 0


def test_a_gpu_cannot_be_held_twice_or_given_back_twice() -> None:
    table = NodeTable(make_cluster())
    table.hold(Held(0, 1, NOTHING))
    with pytest.raises(InvariantError):
        table.hold(Held(0, 1, NOTHING))
    table.release(Held(0, 1, NOTHING))
    with pytest.raises(InvariantError):
        table.release(Held(0, 1, NOTHING))


def test_counts_start_anew_when_the_log_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "LOG_LIMIT", 2)
    trial = Trial(NodeTable(make_cluster()))
    shape = Shape("h100-8", 8, single=True)
    assert trial.view(shape).total == 8
    for node in range(5):
        trial.hold(Held(node, 0xFF, NOTHING))
    assert trial.view(shape).total == 3


def test_a_trial_keeps_a_bounded_number_of_counts() -> None:
    trial = Trial(NodeTable(make_cluster()))
    first = trial.view(Shape(None, 1))
    for number in range(VIEW_LIMIT):
        trial.view(Shape(None, 0, Resources(cpu_milli=number + 1)))
    assert trial.view(Shape(None, 1)) is not first


def test_capacity_that_the_inventory_left_out_is_not_checked() -> None:
    bare = make_type("bare")
    bare = type(bare)("bare", "G", 8)
    table = NodeTable(make_cluster(node_type=bare))
    assert View(table, Shape(None, 1, Resources(cpu_milli=10**6, memory_mib=10**6))).slots[0] == 8


def test_memory_and_counted_resources_bound_a_node() -> None:
    kind = make_type()
    table = NodeTable(make_cluster(node_type=kind))
    third = Resources(memory_mib=kind.capacity.memory_mib // 3)
    assert View(table, Shape(None, 1, third)).slots[0] == 3
    assert View(table, Shape(None, 1, Resources(other=(("fpga", 1),)))).slots[0] == 0


def test_a_node_that_never_holds_a_shape_says_why() -> None:
    topology = make_cluster()
    assert why_never(topology, Shape("other", 1), 0) == "other_node_type"
    assert why_never(topology, Shape(None, 9), 0) == "too_few_gpus"
    assert why_never(topology, Shape(None, 1, nodes=frozenset({"x"})), 0) == "not_listed"
    assert why_never(topology, Shape(None, 1, labels=(("a", "b"),)), 0) == "labels"
    assert why_never(topology, Shape(None, 1, named=(0,)), 0) == "no_place_at_the_level"


def test_whole_units_start_anew_when_the_log_of_changes_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_module, "CHANGES_KEPT", 1)
    trial = Trial(NodeTable(make_cluster()))
    shape = Shape("h100-8", 8, single=True)
    assert trial.view(shape).floors(((2, 3),)).total == 6
    for node in (0, 1, 4):
        trial.hold(Held(node, 0xFF, NOTHING))
        trial.view(shape)
    assert trial.view(shape).changed_since(0) is None
    assert trial.view(shape).floors(((2, 3),)).total == 3


def test_a_view_keeps_a_bounded_number_of_unit_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "FLOORS_LIMIT", 1)
    view = Trial(NodeTable(make_cluster())).view(Shape("h100-8", 8, single=True))
    first = view.floors(((2, 2),))
    view.floors(((2, 3),))
    assert view.floors(((2, 2),)) is not first


def test_domains_of_several_chunks_are_found_in_order() -> None:
    counts = [1 if i in {5, 1_030, 5_000} else 0 for i in range(6_000)]
    buckets = Buckets(counts)
    assert list(buckets.at_least(1)) == [5, 1_030, 5_000]
    assert buckets.size(0) == 5_997
    buckets.move(1_030, 1, 2)
    assert list(buckets.at_least(1)) == [5, 5_000, 1_030]
