"""`yardctl whatif`: what it sends and what it says."""

import json
from pathlib import Path

import pytest

from client.shapes import WhatIf
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl, assert_golden

JOB = "name: a\nparallelism: {tp: 8}\n"
INVENTORY = """\
cluster: demo
levels: [leaf, rack, node]
nodes:
  - {names: "n[9-12]", type: hgx-h100, leaf: l3, rack: r9, labels: {zone: a}}
"""
ANSWER: WhatIf = {
    "revision": 41,
    "cycles": 2,
    "settled": True,
    "jobs": [
        {
            "job": "research/big",
            "state": "bound",
            "reason": None,
            "message": "",
            "never": False,
            "expected_start": None,
            "placement": {
                "pods": 16,
                "gpus": 128,
                "node_type": "hgx-h100",
                "domains": {
                    "block": {"count": 1, "names": ["b1"]},
                    "leaf": {"count": 2, "names": ["l1", "l2"]},
                    "node": {"count": 16, "names": ["n001"]},
                },
            },
        },
        {
            "job": "research/huge",
            "state": "pending",
            "reason": "room",
            "message": "the cluster lacks 60 nodes (480 GPUs)",
            "never": False,
            "expected_start": None,
            "placement": None,
        },
    ],
    "effects": {"ended": 1, "stopped": 3},
    "affected": [
        {
            "job": "default/small-7",
            "effect": "stopped",
            "state": "pending",
            "reason": "room",
            "message": "needs 4 pods of 8 GPUs each; 2 of 4 fit now",
            "gpus": 32,
            "placement": None,
        },
        {
            "job": "default/done",
            "effect": "ended",
            "state": None,
            "reason": None,
            "message": "",
            "gpus": 8,
            "placement": None,
        },
    ],
    "hidden": 2,
    "gpus_before": {"total": 1600, "used": 400, "free": 1200},
    "gpus_after": {"total": 1600, "used": 440, "free": 1150},
}


@pytest.fixture
def asked(server: FakeServer) -> FakeServer:
    server.replies["POST", "/v1/whatif"] = Answer(ANSWER)
    return server


def sent(server: FakeServer) -> dict[str, object]:
    (request,) = server.asked("POST", "/v1/whatif")
    body = json.loads(request.body)
    assert isinstance(body, dict)
    return body


def test_answer_is_told_in_tables(asked: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("whatif", "--drain", "n001")
    assert (result.exit_code, result.stderr) == (0, "")
    assert_golden("whatif.txt", result.stdout)


def test_answer_is_given_as_it_is_for_programs(asked: FakeServer, yardctl: Yardctl) -> None:
    assert json.loads(yardctl("whatif", "--drain", "n001", "-o", "json").stdout) == ANSWER
    assert yardctl("whatif", "--drain", "n1", "-o", "yaml").stdout.startswith("revision: 41\n")


def test_options_become_changes(asked: FakeServer, yardctl: Yardctl) -> None:
    words = "--drain n1 --drain n[2-3] --lose leaf/l3 --lose n9 --lose-set cdu/c1 --finish a"
    words += " --cancel other/b --priority a=5 --quota q=64 --limit q=128 --uncordon n4"
    result = yardctl("whatif", "-n", "research", *words.split())
    assert result.exit_code == 2, "the name in another namespace than -n is refused"
    result = yardctl("whatif", *words.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert sent(asked) == {
        "jobs": [],
        "changes": [
            {"kind": "drain", "nodes": ["n1", "n[2-3]"]},
            {"kind": "uncordon", "nodes": ["n4"]},
            {"kind": "lose_switch", "level": "leaf", "domain": "l3"},
            {"kind": "lose_node", "nodes": ["n9"]},
            {"kind": "lose_set", "set_kind": "cdu", "set": "c1"},
            {"kind": "finish", "job": "default/a"},
            {"kind": "cancel", "job": "other/b"},
            {"kind": "priority", "job": "default/a", "priority": 5},
            {"kind": "quota", "queue": "q", "quota_gpus": 64},
            {"kind": "quota", "queue": "q", "limit_gpus": 128},
        ],
    }


def test_files_of_jobs_nodes_and_bodies_are_sent_together(
    asked: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(JOB)
    (tmp_path / "b.yaml").write_text(INVENTORY)
    (tmp_path / "c.yaml").write_text("changes: [{kind: cordon, nodes: [n1]}]\n")
    result = yardctl("whatif", "-n", "research", "-f", str(tmp_path), "--drain", "n2")
    assert (result.exit_code, result.stderr) == (0, "")
    added = {
        "names": "n[9-12]",
        "type": "hgx-h100",
        "places": {"leaf": "l3", "rack": "r9"},
        "labels": {"zone": "a"},
    }
    assert sent(asked) == {
        "jobs": [{"name": "a", "namespace": "research", "parallelism": {"tp": 8}}],
        "changes": [
            {"kind": "add_nodes", "add": [added]},
            {"kind": "cordon", "nodes": ["n1"]},
            {"kind": "drain", "nodes": ["n2"]},
        ],
    }


@pytest.mark.parametrize(
    "words", ["", "--priority a", "--quota q=many", "--lose-set c1", "--limit =", "-f nosuch.yaml"]
)
def test_call_that_makes_no_sense_is_refused_before_anything_is_sent(
    asked: FakeServer, yardctl: Yardctl, words: str
) -> None:
    result = yardctl("whatif", *words.split())
    assert result.exit_code in {1, 2}
    assert result.stderr
    assert asked.requests == []


def test_file_whose_changes_are_no_list_is_refused(
    asked: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("changes: drain\n")
    result = yardctl("whatif", "-f", str(tmp_path / "a.yaml"))
    assert result.exit_code != 0
    assert "'changes' is not a list" in result.stderr
