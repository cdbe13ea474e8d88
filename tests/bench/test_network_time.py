"""The comparison with peers: what it is made of, and that nobody is given more than is free."""

import pytest

from benchmarks import clusters, network_time
from benchmarks.harness import Options
from scheduler.cost.constants import CONSTANTS, numbers
from scheduler.parallel.traffic import TRAFFIC_DEFAULTS

SMALL = Options(frozenset(), small=True)


@pytest.mark.parametrize("fragment", [network_time.scattered, network_time.holes])
@pytest.mark.parametrize("fabric", network_time.FABRICS)
def test_a_tenth_of_the_nodes_is_free(fragment: network_time.Fragment, fabric: str) -> None:
    world = fragment(network_time.SMALL_NODES, 0, network_time.FABRICS[fabric])
    free = sum(mask == clusters.H100_MASK for mask in world.table.free)
    assert free == pytest.approx(0.1 * network_time.SMALL_NODES, abs=1)
    assert all(mask in (0, clusters.H100_MASK) for mask in world.table.free)


def test_every_scheduler_places_every_pod_on_a_free_node_of_its_own() -> None:
    fabric = network_time.FABRICS["leaf uplinks 2:1"]
    found = network_time.meetings(SMALL, fabric)
    assert found
    for meeting in found:
        assert set(meeting.placements) == {"own", "slurm", "kueue"}
        for placement in meeting.placements.values():
            nodes = [pod.node_index for pod in placement.pods]
            assert len(set(nodes)) == len(nodes) == meeting.spec.gpu_count // 8
            assert all(meeting.world.table.free[n] == clusters.H100_MASK for n in nodes)
            assert [pod.first_rank for pod in placement.pods] == [8 * i for i in range(len(nodes))]


def test_each_constant_is_changed_both_ways_and_alone() -> None:
    tables = list(network_time.changed())
    axes = ("tp", "ep", "cp", "dp", "pp")
    assert len(tables) == 2 * (len(numbers()) + len(axes))
    for name, table in tables:
        differ = [n for n in numbers() if getattr(table, n) != getattr(CONSTANTS, n)]
        differ += [f"{a}_gb" for a in axes if table.traffic.gb(a) != TRAFFIC_DEFAULTS.gb(a)]
        assert differ in ([], [name.partition(" ")[0]])


def test_the_row_has_every_fabric_and_axis() -> None:
    (found,) = network_time.rows(SMALL)
    assert found.what == "inter_node_time_gain"
    fabrics = found.conditions["fabrics"]
    assert isinstance(fabrics, dict)
    assert set(network_time.FABRICS) <= set(fabrics)
    assert found.value <= found.conditions["most_on_these_nodes"]  # type: ignore[operator]  # both are floats
    assert {"dp", "pp"} <= set(fabrics["non-blocking"]["axes"])


@pytest.mark.parametrize("fabric", network_time.OVERSUBSCRIBED)
def test_nobody_is_faster_than_what_is_said_to_be_the_least(fabric: str) -> None:
    for meeting in network_time.meetings(SMALL, network_time.FABRICS[fabric]):
        least_s = meeting.bound_s()
        assert all(seconds >= least_s * (1 - 1e-9) for seconds in meeting.seconds().values())


@pytest.mark.slow
def test_no_gang_takes_longer_than_with_a_peer_where_nothing_is_oversubscribed() -> None:
    fabric = network_time.FABRICS["non-blocking"]
    gains = network_time.gains(network_time.meetings(Options(frozenset(), small=False), fabric))
    assert min(min(values) for values in gains.values()) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("fabric", network_time.OVERSUBSCRIBED)
def test_the_order_of_schedulers_stands_whatever_constant_is_half_or_half_again(
    fabric: str,
) -> None:
    options = Options(frozenset(), small=False)
    found = network_time.meetings(options, network_time.FABRICS[fabric])
    for name, constants in network_time.changed():
        for peer, values in network_time.gains(found, constants).items():
            assert network_time.mean(values) >= 1.0, (name, peer)
