"""Tables and drawings, as an operator sees them; each golden file was read before it was kept."""

import pytest

from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl, assert_golden
from tests.client.sample import (
    make_domain,
    make_job,
    make_placement,
    make_pods,
    make_verdict,
    make_waiting_job,
)

CASES = [
    ("nodes.txt", "get nodes"),
    ("nodes_wide.txt", "get no -o wide"),
    ("jobs.txt", "get jobs -n research"),
    ("jobs_all_wide.txt", "get jobs -A -o wide"),
    ("pods.txt", "get po -n research"),
    ("queues.txt", "get queues"),
    ("queues_wide.txt", "get q -o wide"),
    ("events.txt", "events --since 0"),
    ("tree.txt", "tree"),
    ("tree_leaf.txt", "tree --level leaf"),
    ("describe_job.txt", "describe job research/llama-70b"),
    ("describe_node.txt", "describe node n005"),
]


@pytest.mark.parametrize(("name", "words"), CASES, ids=[name for name, _ in CASES])
def test_output_is_the_one_that_was_read(
    cluster: FakeServer, yardctl: Yardctl, name: str, words: str
) -> None:
    result = yardctl(*words.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert_golden(name, result.stdout)


def test_domains_of_all_levels_are_listed_with_their_level(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    cluster.lists["/v1/domains"] = [
        make_domain(1, level="block", name="b1", parent=None, nodes=128, gpus=1024),
        make_domain(1),
        make_domain(2, health={"healthy": 32, "lost": 0}, gpus_free=0, nodes_free=0),
        make_domain(1, level="rack", name="r01", parent="l1", nodes=4, gpus=32, gpus_free=32),
    ]
    result = yardctl("get", "domains")
    assert result.exit_code == 0
    assert_golden("domains.txt", result.stdout)


def test_racks_are_listed_with_their_power(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.lists["/v1/racks"] = [
        make_domain(1, level="rack", name="r01", parent="l1", power_kw=45.0, power_used_kw=40.8),
        make_domain(1, level="rack", name="r02", parent="l1", power_kw=None, power_used_kw=10.2),
    ]
    result = yardctl("get", "racks")
    assert result.exit_code == 0
    assert_golden("racks.txt", result.stdout)


def test_placement_is_drawn_by_default(cluster: FakeServer, yardctl: Yardctl) -> None:
    path = "/v1/namespaces/research/jobs/llama-70b/placement"
    cluster.replies["GET", path] = Answer(make_placement(46))
    result = yardctl("placement", "research/llama-70b")
    assert result.exit_code == 0
    assert_golden("placement_map.txt", result.stdout)


def test_explanation_says_what_is_missing_and_who_holds_it(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    path = "/v1/namespaces/research/jobs/big-1/explain"
    cluster.replies["GET", path] = Answer(make_verdict())
    result = yardctl("explain", "big-1", "-n", "research")
    assert result.exit_code == 0
    assert_golden("explain.txt", result.stdout)


def test_waiting_job_is_described_with_its_verdict(cluster: FakeServer, yardctl: Yardctl) -> None:
    path = "/v1/namespaces/research/jobs/big-1"
    cluster.replies["GET", path] = Answer(make_waiting_job())
    cluster.replies["GET", f"{path}/explain"] = Answer(make_verdict())
    cluster.lists["/v1/pods"] = []
    result = yardctl("describe", "job/research/big-1")
    assert result.exit_code == 0
    assert_golden("describe_waiting_job.txt", result.stdout)


def test_queue_is_described_with_the_jobs_that_wait_first(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    cluster.replies["GET", "/v1/queues/research"] = Answer(cluster.lists["/v1/queues"][1])
    result = yardctl("describe", "queue", "research")
    assert result.exit_code == 0
    assert_golden("describe_queue.txt", result.stdout)


def test_large_job_is_described_with_its_first_pods(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.lists["/v1/pods"] = list(make_pods(60))
    result = yardctl("describe", "job", "research/llama-70b")
    assert "  ... and 20 more: yardctl get pods --job research/llama-70b\n" in result.stdout


def test_level_names_come_from_the_data(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists["/v1/nodes"] = [
        {
            "name": "tray-1",
            "type": "gb200-tray",
            "gpus": 4,
            "gpus_free": 4,
            "health": "healthy",
            "domains": {"hall": "h1", "supernode": None, "node": "tray-1"},
            "pods": 0,
        }
    ]
    heading, row = yardctl("get", "nodes").stdout.splitlines()
    assert " ".join(heading.split()) == "NAME TYPE GPUS FREE HEALTH HALL SUPERNODE PODS"
    assert " ".join(row.split()) == "tray-1 gb200-tray 4 4 healthy h1 - 0"


def test_later_page_widens_columns_without_the_earlier_rows_being_lost(
    server: FakeServer, yardctl: Yardctl
) -> None:
    """500 short names come first; the first block knows nothing of the long one."""
    server.lists["/v1/jobs"] = [
        *(make_job(f"j{n}", namespace="default") for n in range(500)),
        make_job("a-name-far-longer-than-all-before-it", namespace="default"),
    ]
    lines = yardctl("get", "jobs").stdout.splitlines()
    assert len(lines) == 502
    assert lines[-1].startswith("a-name-far-longer-than-all-before-it   running   16/16")


def test_recent_events_are_shown_without_since(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.revision = 231
    result = yardctl("events", "-o", "name")
    assert result.stdout.split() == ["event/32", "event/33"]
