"""Which axis crosses leaves is a question of bytes, unless a rule decides it."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec, ModelShape
from scheduler.model.node import FabricLevel
from scheduler.parallel.traffic import traffic_of
from scheduler.topology.build import build
from tests.builders import make_inventory
from tests.core.gangs import gang, placed, required, spans

GANG = gang(tp=8, pp=4, dp=8)
"""32 pods; a leaf of 8 nodes holds one dp group of every tensor rank, or two pipelines."""

MODEL = ModelShape(70e9, 80, 8_192, 4_096, 1, 512)

UPLINKS = (1.0, 2.0, 7.0)


def weighted(heavy: str, light: str, model: ModelShape | None) -> JobSpec:
    """The gang with weights such that one axis carries ten times the bytes of the other."""
    spec = replace(GANG, model=model)
    carried = {axis: traffic_of(spec)[axis].bytes_per_step for axis in ("dp", "pp")}
    unit = 1.0 if model is None else carried[light] / carried[heavy]
    weighted = replace(spec, axis_weights={heavy: 10.0 * unit, light: 1.0})
    now = traffic_of(weighted)
    assert now[heavy].bytes_per_step == pytest.approx(10 * now[light].bytes_per_step)
    return weighted


def four_leaves(oversubscription: float) -> World:
    """Four leaves of eight nodes in one block; the leaves' uplinks may be narrower."""
    inventory = make_inventory({"block": 1, "leaf": 4, "node": 8})
    fabric = {"leaf": FabricLevel(400.0), "block": FabricLevel(400.0, oversubscription)}
    return World(build(replace(inventory, fabric=fabric)).topology)


def crossing(world: World, spec: JobSpec) -> set[str]:
    """Axes that have a group in more than one leaf."""
    found = placed(world, spec)
    return {
        axis for axis in ("dp", "pp") if max(spans(world.topology, spec, found, axis, "leaf")) > 1
    }


@pytest.mark.parametrize("uplinks", UPLINKS)
@pytest.mark.parametrize("model", [None, MODEL], ids=["assumed", "model"])
@pytest.mark.parametrize(("heavy", "light"), [("dp", "pp"), ("pp", "dp")])
def test_the_axis_with_a_tenth_of_the_bytes_is_the_one_that_crosses_leaves(
    heavy: str, light: str, model: ModelShape | None, uplinks: float
) -> None:
    assert crossing(four_leaves(uplinks), weighted(heavy, light, model)) == {light}


@pytest.mark.parametrize("uplinks", UPLINKS)
@pytest.mark.parametrize("model", [None, MODEL], ids=["assumed", "model"])
@pytest.mark.parametrize(("heavy", "light"), [("dp", "pp"), ("pp", "dp")])
def test_a_required_rule_makes_the_heavier_axis_cross(
    heavy: str, light: str, model: ModelShape | None, uplinks: float
) -> None:
    spec = replace(weighted(heavy, light, model), rules=(required(light, "leaf"),))
    assert crossing(four_leaves(uplinks), spec) == {heavy}
