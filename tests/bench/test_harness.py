"""The benchmarks themselves: shapes of rows, and small runs that end."""

import json
import subprocess
import sys

import pytest

from benchmarks import clusters
from benchmarks.harness import Options, percentile, row
from scheduler.model.placement import Placement
from scheduler.place.search import place


def test_a_row_has_its_ratio_to_the_floor() -> None:
    assert row("x", 6.0, "ms", 2.0, nodes=8).ratio == 3.0
    assert row("x", 6.0, "ms").ratio is None


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


def test_rows_are_chosen_by_name() -> None:
    assert Options(frozenset(), small=True).wants("anything")
    assert not Options(frozenset({"a"}), small=True).wants("b")


@pytest.mark.parametrize("nodes", [1, 6, 8])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_gangs_of_every_kind_have_the_nodes_asked_for(nodes: int, kind: int) -> None:
    world = clusters.world(64, 1.0)
    found = place(world.trial, clusters.gang(nodes, kind))
    assert isinstance(found, Placement)
    assert len(found.pods) == nodes


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["placement", "preemption", "throughput", "restart", "ledger", "quality", "heartbeats"]
)
def test_a_small_run_prints_one_json_object(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json", "--size", "small"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["name"] == name
    assert {"what", "value", "unit", "floor", "ratio", "conditions"} <= set(told["rows"][0])
