"""Figures, plots and the page they are shown on."""

import math
import re
from xml.etree import ElementTree as ET

import pytest

from scheduler.cluster.world import World
from scheduler.sim.compare import POLICIES, Levels, Outcome, check_policies, simulate
from scheduler.sim.engine import Engine
from scheduler.sim.measures import Measures, fewest, jain, percentile
from scheduler.sim.plots import POINTS_MAX, Axis, Curve, line_plot
from scheduler.sim.report import COLUMNS, duration, html_page, rows
from scheduler.sim.workload import GANGS, Demand, Submission, WorkloadError, generate
from tests.builders import make_tree
from tests.core.gangs import gang, occupy
from tests.simulation.clusters import regular, uneven

LEVELS = Levels(("block", "leaf"), ("block", "leaf", "rack"), "leaf")


def outcomes(*names: str) -> list[Outcome]:
    topology = make_tree({"block": 1, "leaf": 2, "rack": 2, "node": 4})
    jobs = generate(GANGS, Demand(jobs=30, load=0.8, gpus=128, largest=64, queues=2), seed=1)
    return [simulate(name, topology, jobs, levels=LEVELS, seed=1) for name in names]


def measured(*jobs: Submission) -> Measures:
    topology = regular()
    measures = Measures(topology, "leaf")
    engine = Engine(World(topology), observers=[measures], start_s=0.0)
    engine.load(jobs)
    engine.run()
    return measures


def test_waits_and_slowdowns_are_those_of_the_jobs() -> None:
    """The second waits 60 s for the first, runs 60 s: its slowdown is 2."""
    whole = gang(8, 1, 32, patience_s=0.0)
    found = measured(Submission(0.0, whole, 60.0), Submission(0.0, whole, 60.0)).summary()
    assert (found.wait_mean_s, found.wait_p99_s, found.slowdown_mean) == (30.0, 60.0, 1.5)
    assert found.longest_wait_runs == 1.0
    assert (found.jobs, found.ended, found.starved) == (2, 2, 0)


def test_waits_are_told_by_size_with_their_edges_in_the_class_below() -> None:
    whole, small = gang(8, 1, 32, patience_s=0.0), gang(8, 1, 1, patience_s=0.0)
    jobs = [Submission(0.0, whole, 60.0), Submission(0.0, small, 60.0), Submission(0.0, whole, 9.0)]
    assert measured(*jobs).waits_by_gpus((8, 255, 300)) == {
        "1-8": [60.0],
        "9-255": [],
        "256-300": [0.0, 120.0],
        "301-": [],
    }


def test_use_is_counted_until_the_last_submission() -> None:
    """Half of the GPUs in use from 20 s, the warm-up's end, to 100 s."""
    half = gang(8, 1, 16, patience_s=0.0)
    found = measured(Submission(0.0, half, 500.0), Submission(100.0, half, 10.0)).summary()
    assert found.utilisation == pytest.approx(0.5)


def test_spread_compares_with_the_empty_cluster() -> None:
    """8 nodes to a leaf; with 5 of each in use, a gang of 4 lies in two instead of one."""
    topology = regular()
    world = World(topology)
    for node in range(32):
        if node % 8 < 5:
            occupy(world, topology.nodes[node].name)
    measures = Measures(topology, "leaf")
    engine = Engine(world, observers=[measures], start_s=0.0)
    engine.load([Submission(0.0, gang(8, 4, patience_s=0.0), 60.0)])
    engine.run()
    found = measures.summary()
    assert (found.spread, found.single_share) == (2.0, 0.0)


def test_the_fewest_domains_are_those_of_the_largest() -> None:
    """Leaves of 3, 7 and 13 nodes."""
    assert [fewest(uneven(), "leaf", n) for n in (1, 13, 14, 20, 21, 23)] == [1, 1, 2, 2, 3, 3]


def test_a_job_that_never_began_has_starved() -> None:
    found = measured(Submission(0.0, gang(8, 1, 64), 60.0)).summary()
    assert (found.starved, found.ended, found.wait_max_s) == (1, 0, math.inf)


def test_jains_index_is_one_when_even_and_one_part_when_one_has_all() -> None:
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 1.0


def test_percentiles_are_values_that_were_seen() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 0.99)] == [1, 2, 4]
    assert percentile([], 0.5) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (59.4, "59 s"), (90.0, "1.5 min"), (7_200.0, "2.0 h"), (2e5, "2.3 d")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert duration(math.inf) == "never"


def test_a_table_has_one_row_for_each_policy() -> None:
    found = rows(outcomes("fifo", "random"))
    assert [row[0] for row in found] == ["fifo", "random"]
    assert all(len(row) == len(COLUMNS) + 1 for row in found)


def test_a_page_stands_by_itself() -> None:
    """Nothing is loaded from elsewhere, nothing runs, and what was asked for is escaped."""
    page = html_page("a <b>", {"workload": "x & y"}, outcomes("podyard", "slurm"))
    assert "<script" not in page
    assert not re.search(r"(?:src|href|@import|url)\s*[=(]", page)
    assert "a &lt;b&gt;" in page
    assert "x &amp; y" in page
    assert page.count("<svg") == 5
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert ET.fromstring(svg).find("title") is not None


def test_a_plot_keeps_its_points_inside_and_few() -> None:
    xs = [float(i) for i in range(5 * POINTS_MAX)]
    curves = [Curve("a", xs, xs), Curve("b", [1.0], [math.inf]), Curve("empty", [], [])]
    svg = ET.fromstring(line_plot("t", curves, Axis("x"), Axis("y", logarithmic=True, least=1.0)))
    points = [p for line in svg.iter("polyline") for p in line.attrib["points"].split()]
    assert len(points) <= POINTS_MAX + 1
    for point in points:
        x, y = map(float, point.split(","))
        assert 0 <= x <= 640
        assert 0 <= y <= 280


def test_progress_is_told_job_by_job() -> None:
    topology = make_tree({"block": 1, "leaf": 1, "rack": 1, "node": 4})
    jobs = generate(GANGS, Demand(jobs=5, load=0.8, gpus=32, largest=32), seed=1)
    told: list[tuple[int, int]] = []
    simulate(
        "fifo", topology, jobs, levels=LEVELS, seed=1,
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(i, 5) for i in range(1, 6)]


def test_shortest_first_with_true_run_times_has_the_shortest_mean_wait() -> None:
    found = {o.policy: o.summary.wait_mean_s for o in outcomes("sjf", "kueue", "fifo")}
    assert found["sjf"] == min(found.values())


def test_policies_that_do_not_exist_are_refused() -> None:
    check_policies(list(POLICIES))
    with pytest.raises(WorkloadError, match="no policy 'lsf'; there are podyard"):
        check_policies(["slurm", "lsf"])
    with pytest.raises(WorkloadError, match="no policy named"):
        check_policies([])
