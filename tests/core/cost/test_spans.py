"""Domains that groups touch, and the fewest they could."""

import numpy as np

from scheduler.cost.spans import least_possible, spans_of
from tests.builders import make_node, make_topology, make_type
from tests.core.cost.yards import job, price, yard


def test_spans_count_domains_of_every_level() -> None:
    """Groups 0-1 and 2-3: the first in one leaf, the second over two blocks."""
    topology = yard()
    spans = spans_of(np.array([[0, 1], [2, 3]]), [0, 1, 4, 8], topology, topology.kinds[0], 8)
    leaf = spans["leaf"]
    assert (leaf.max, leaf.mean, leaf.one, leaf.least_possible) == (2, 1.5, 1, 1)
    assert (spans["block"].max, spans["node"].max, spans["node"].least_possible) == (2, 2, 2)


def test_groups_alike_down_to_their_pods_all_count() -> None:
    topology = yard()
    found = price(job(tp=8, dp=2), topology, [0, 4]).axes["dp"]
    assert found.count == 8
    assert found.spans["leaf"].one == 0
    assert price(job(tp=8, dp=2), topology, [0, 1]).axes["dp"].spans["leaf"].one == 8


def test_least_possible_fills_the_largest_domains_first() -> None:
    """Leaves of 3 and 2 nodes that hold the pod, and one whose node is too small."""
    small = make_type("small", gpus=4)
    nodes = [make_node(f"a{i}", leaf="l1") for i in range(3)]
    nodes += [make_node(f"b{i}", leaf="l2") for i in range(2)] + [make_node("c", small, leaf="l3")]
    kind = make_type()
    topology = make_topology(nodes, {kind.name: kind, small.name: small}, levels=("leaf", "node"))
    depth = topology.level_index["leaf"]
    assert [least_possible(topology, kind, 8, depth, n) for n in (1, 3, 4, 5, 6)] == [1, 1, 2, 2, 2]
