"""`yardctl explain` as people see it."""

import pytest

from client.cli.drawing import draw_changes, draw_nodes
from client.cli.verdict import change_text, commands_of, holder_text
from client.shapes import Change, Node
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl
from tests.client.sample import make_job, make_node, make_verdict, make_waiting_job

PATH = "/v1/namespaces/research/jobs/big-1"


def nodes(count: int, gpus: int = 8) -> list[Node]:
    """The first is free, the second half in use, the third in use, the fourth cordoned."""
    made = []
    for number in range(count):
        node = make_node(number + 1, free=(gpus, gpus // 2, 0, gpus)[number % 4])
        node["gpus"] = gpus
        if number % 4 == 3:
            node["cordoned"] = {"reason": "fan", "by": "", "at": None}
        made.append(node)
    return made


def drawn(there: list[Node], width: int) -> list[str]:
    return list(draw_nodes(make_verdict(), there, width))


def test_nearest_domain_is_drawn_with_a_cell_for_each_gpu() -> None:
    assert drawn(nodes(4), 100) == [
        "leaf 'l3', the nearest",
        "  n001 [........]  n002 [####....]  n003 [########]  n004 [xxxxxxxx]",
        "  . free GPU   # in use   x on a node that takes no new pods",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_of_nodes_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(nodes(32), width)[1:-1]
    assert sum(line.count("[") for line in lines) == 32
    assert all(len(line) < max(width, 18) for line in lines)


def test_large_domain_is_drawn_with_a_cell_for_each_node() -> None:
    lines = drawn(nodes(200), 100)
    assert "".join(line.strip() for line in lines[1:-1]) == ".+#x" * 50
    assert all(len(line) <= 66 for line in lines[1:-1])


def test_nodes_with_many_gpus_are_one_cell_each() -> None:
    assert drawn(nodes(4, gpus=32), 100)[1] == "  .+#x"


def test_nothing_is_drawn_where_no_domain_is_near() -> None:
    assert list(draw_nodes(make_verdict(nearest=None), nodes(4), 80)) == []
    assert drawn([], 80) == []


def test_long_changes_are_broken_at_words() -> None:
    change: Change = {"kind": "finish", "message": "when " + "'default/job' " * 9, "verified": True}
    lines = list(draw_changes([change], "a/b", 50))
    assert len(lines) > 3
    assert all(len(line) <= 50 for line in lines[1:])


@pytest.mark.parametrize(
    ("change", "typed"),
    [
        ({"kind": "uncordon", "nodes": ["n1", "n2"]}, ["yardctl uncordon n1 n2"]),
        ({"kind": "preempt", "jobs": ["a/x"]}, ["yardctl requeue a/x"]),
        ({"kind": "preempt", "jobs": ["a/x"], "hidden": 1}, []),
        (
            {"kind": "limit", "queues": [{"queue": "q", "limit_gpus": 32, "model": None}]},
            ["yardctl queue set q --limit 32"],
        ),
        (
            {"kind": "limit", "queues": [{"queue": "q", "limit_gpus": 32, "model": "H100"}]},
            ["yardctl queue set q --limit-of H100=32"],
        ),
        ({"kind": "shrink", "dp": 6}, ["in the file of a/b: parallelism: {dp: 6}"]),
        (
            {"kind": "shrink", "role": "w", "min": 2},
            ["in the file of a/b: roles: [{name: w, min: 2}]"],
        ),
        (
            {
                "kind": "relax",
                "rules": [
                    {
                        "role": "w",
                        "before": {"group": "", "within": "rack", "mode": "required"},
                        "after": {"group": "", "within": "rack", "mode": "preferred"},
                    }
                ],
            },
            [
                "in the file of a/b: roles: [{name: w, parts: {topology: "
                "[{within: rack, mode: preferred}]}}]"
            ],
        ),
        ({"kind": "finish", "jobs": ["a/x"]}, []),
    ],
)
def test_each_change_says_what_to_type(change: Change, typed: list[str]) -> None:
    assert list(commands_of(change, "a/b")) == typed


def test_holders_that_are_hidden_or_past_the_list_are_numbers() -> None:
    hidden = holder_text({"job": None, "gpus": 24, "hidden": 3, "more": 0})
    assert hidden == "3 jobs of other tenants: 24 GPUs"
    assert holder_text({"job": None, "gpus": 1, "more": 1}) == "1 more job: 1 GPU"


def test_change_of_an_older_service_is_still_told() -> None:
    assert change_text({"kind": "finish", "job": "a/x"}) == "finish a/x (not verified)"


def test_what_could_steer_a_terminal_is_made_visible(cluster: FakeServer, yardctl: Yardctl) -> None:
    evil: Change = {"kind": "finish", "message": "when '\x1b[2J' ends", "verified": True}
    cluster.replies["GET", PATH] = Answer(make_waiting_job())
    cluster.replies["GET", f"{PATH}/explain"] = Answer(make_verdict(changes=[evil]))
    assert "\x1b" not in yardctl("explain", "research/big-1").stdout


def test_explanation_without_the_nodes_of_the_domain_is_given_all_the_same(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", PATH] = Answer(make_waiting_job())
    server.replies["GET", f"{PATH}/explain"] = Answer(make_verdict())
    result = yardctl("explain", "research/big-1")
    assert result.exit_code == 0
    assert "Held by" in result.stdout


def test_explanation_of_a_placed_job_says_where_and_what_does_not_hold(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", PATH] = Answer(make_job("big-1"))
    server.replies["GET", f"{PATH}/explain"] = Answer(
        {
            "fits": True,
            "when": "now",
            "message": "the job is running, in its place: 4 pods on 4 nodes in leaf 'l1'",
            "domains": {"leaf": 1, "node": 4},
            "rules_broken": [{"group": "pp", "within": "rack"}],
        }
    )
    assert yardctl("explain", "research/big-1").stdout.splitlines() == [
        "job 'research/big-1' is running; it does not wait",
        "  the job is running, in its place: 4 pods on 4 nodes in leaf 'l1'",
        "  Domains used:  leaf 1, node 4",
        "  Rules broken:  pp:rack",
        "  See: yardctl placement research/big-1",
    ]
