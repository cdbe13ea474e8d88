"""Inventories on the command line: other formats, what a dry run shows, the export, the tree."""

import json
from pathlib import Path

import pytest

from client.cli.files import is_foreign
from client.cli.tree import named, tree_rows
from client.http import Client
from client.shapes import Topology, TreeDomain
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl, assert_golden

TREE = "SwitchName=s1 Nodes=n[1-4]\n"
COUNTS = {"created": 2, "updated": 1, "unchanged": 0, "removed": 0, "kept": 1, "warnings": []}
DIFFERENCE = {
    "format": "slurm",
    **COUNTS,
    "cluster_changes": [
        {"field": "levels", "from": "leaf, node", "to": "block, leaf, node"},
        *({"field": f"sets.pdu.p{n}", "from": None, "to": "n1"} for n in range(60)),
    ],
    "changes": [
        {"node": "n1", "change": "kept", "fields": []},
        {
            "node": "n2",
            "change": "updated",
            "fields": [
                {"field": "leaf", "from": "l1", "to": "l2"},
                {"field": "labels.zone", "from": "a", "to": None},
            ],
        },
        *(
            {
                "node": f"n{n}",
                "change": "created",
                "fields": [
                    {"field": "type", "from": None, "to": "hgx-h100"},
                    {"field": "leaf", "from": None, "to": "l3"},
                ],
            }
            for n in (7, 8)
        ),
    ],
    "changes_left_out": 12,
}


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    return str(path)


@pytest.mark.parametrize(
    ("text", "is_other"),
    [
        ("", False),
        ("levels: [node]\n", False),
        ("# ours\nnodes:\n- {names: a, type: t}\n", False),
        ("name: a\nparallelism: {tp: 8}\n", False),
        ('{"nodes": []}', False),
        ('{"cluster": "a", "levels": ["node"]}', False),
        ("nodes: []\nblocks: []\n", True),
        (TREE, True),
        ("host,rack\na,r1\n", True),
        ('{"kind": "List", "items": [{"metadata": {"name": "n1"}}]}', True),
        ("kind: Node\nmetadata:\n  name: a\n", True),
        ("<system/>", True),
        ("- topology: a\n", True),
    ],
)
def test_file_without_a_sign_of_ours_is_of_another_format(text: str, *, is_other: bool) -> None:
    assert is_foreign(text.encode()) is is_other


def test_file_of_another_format_is_sent_without_one_and_told_by_the_one_it_was_read_as(
    server: FakeServer, yardctl: Yardctl, conf: str
) -> None:
    server.replies["POST", "/v1/inventory"] = Answer({"format": "slurm", **COUNTS})
    result = yardctl("apply", "-f", conf)
    assert result.stdout == (
        f"{conf} (slurm): nodes 2 created, 1 updated, 0 unchanged, 0 removed, "
        "1 kept for their pods\n"
    )
    (request,) = server.requests
    assert (request.query, request.body) == ({}, TREE.encode())
    assert request.headers["content-type"] == "text/plain"


def test_options_of_an_import_are_sent_by_their_names(
    server: FakeServer, yardctl: Yardctl, conf: str
) -> None:
    server.replies["POST", "/v1/inventory"] = Answer(COUNTS)
    words = ("--node-type", "ours", "--gpus", "8", "--option", "level_names=tor,row")
    assert yardctl("apply", "-f", conf, *words).exit_code == 0
    assert server.requests[0].query == {
        "node_type": "ours",
        "gpus": "8",
        "level_names": "tor,row",
    }
    result = yardctl("apply", "-f", conf, "--option", "level_names")
    assert (result.exit_code, len(server.requests)) == (2, 1)


def test_dry_run_shows_the_difference_as_a_table(
    server: FakeServer, yardctl: Yardctl, conf: str
) -> None:
    server.replies["POST", "/v1/inventory"] = Answer(DIFFERENCE)
    result = yardctl("apply", "-f", conf, "--dry-run")
    assert result.stderr == "12 more nodes would change\n"
    assert_golden("apply_dry_run.txt", result.stdout.replace(conf, "topology.conf"))
    assert "CHANGE" not in yardctl("apply", "-f", conf).stdout


def test_change_beside_the_nodes_is_counted(
    server: FakeServer, yardctl: Yardctl, conf: str
) -> None:
    fields = [{"field": "node_types.a.rails", "from": "0", "to": "8"}]
    answer = {"format": "nccl", "created": 0, "cluster_changes": fields}
    server.replies["POST", "/v1/inventory"] = Answer(answer)
    assert "0 removed, 1 change beside the nodes\n" in yardctl("apply", "-f", conf).stdout


def test_inventory_is_written_as_the_service_gives_it(server: FakeServer, yardctl: Yardctl) -> None:
    text = "cluster: a\nlevels: [node]\nnodes: []\n"
    server.replies["GET", "/v1/inventory"] = Answer(text, content_type="application/yaml")
    for words in (("inventory",), ("inv", "-o", "yaml")):
        assert yardctl("get", *words).stdout == text
    assert json.loads(yardctl("get", "inventory", "-o", "json").stdout) == {
        "cluster": "a",
        "levels": ["node"],
        "nodes": [],
    }
    assert yardctl("get", "inventory", "-o", "name").stdout == "inventory\n"
    assert yardctl("get", "inventory", "x").exit_code == 2
    with Client(server.url) as client:
        assert client.inventory() == text


def domain(level: str, name: str, nodes: int, *children: TreeDomain) -> TreeDomain:
    return {
        "level": level,
        "name": name,
        "nodes": nodes,
        "nodes_free": nodes,
        "gpus": 8 * nodes,
        "gpus_free": 8 * nodes,
        "children": list(children),
    }


def labels(levels: list[str], *domains: TreeDomain) -> list[tuple[str, int]]:
    topology: Topology = {"cluster": "c", "levels": [*levels, "node"], "tree": list(domains)}
    plain = ((row.label, row.nodes) for row in tree_rows(topology, len(levels)))
    return [(label.lstrip("│├└─ "), nodes) for label, nodes in plain][1:]


def test_tree_leaves_out_levels_at_which_nodes_have_no_place() -> None:
    levels = ["region", "block", "rack"]
    found = labels(
        levels,
        domain("region", "", 3, domain("block", "b1", 3, domain("rack", "", 3))),
        domain("region", "eu", 4, domain("block", "", 4, domain("rack", "r1", 4))),
        domain("region", "", 2, domain("block", "", 2, domain("rack", "", 2))),
    )
    assert found == [("block b1", 3), ("region eu", 4), ("rack r1", 4), ("no place", 2)]


def test_tree_counts_nodes_beside_named_domains_once() -> None:
    inner = (domain("rack", "r1", 2), domain("rack", "", 1), domain("rack", "", 1))
    assert labels(["leaf", "rack"], domain("leaf", "l1", 4, *inner)) == [
        ("leaf l1", 4),
        ("rack r1", 2),
        ("no place", 2),
    ]


def test_tree_shows_paths_by_what_the_domains_around_do_not_say() -> None:
    leaf = domain("leaf", "z/b1/l1", 2)
    block = domain("block", "z/b1", 2, domain("accelerator", "u.0", 2, leaf))
    assert labels(["zone", "block", "accelerator", "leaf"], domain("zone", "z", 2, block)) == [
        ("zone z", 2),
        ("block b1", 2),
        ("accelerator u.0", 2),
        ("leaf l1", 2),
    ]


def test_levels_that_are_not_drawn_are_not_counted_apart() -> None:
    inner = domain("leaf", "", 2, domain("rack", "r1", 2))
    assert named([inner], frozenset({"leaf"})) == []
