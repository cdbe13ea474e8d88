"""What only shows after very many edits."""

import pytest

from scheduler.cluster import nodes
from scheduler.cluster.nodes import Held
from scheduler.cluster.view import Shape, View
from scheduler.cluster.world import World
from scheduler.model.resources import NOTHING
from tests.simulation.clusters import regular


def test_counts_of_whole_units_follow_when_the_log_of_edits_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A simulation of days came upon it: 200,000 edits, and counts of units stood still."""
    monkeypatch.setattr(nodes, "LOG_LIMIT", 20)
    world = World(regular())
    shape, units = Shape(node_type="h100-8", gpus=8, single=True), ((1, 2),)
    for turn in range(40):
        held = [Held((turn * 5 + i) % 32, 0xFF, NOTHING) for i in range(1 + turn % 9)]
        for one in held:
            world.trial.hold(one)
        kept = world.trial.view(shape).floors(units)
        fresh = View(world.table, shape).floors(units)
        assert (kept.caps, kept.total) == (fresh.caps, fresh.total)
        if turn % 3:
            world.trial.roll_back(0)
            continue
        world.trial.roll_back(0)
        assert world.trial.view(shape).floors(units).total == 32
