"""The drawing of a job's nodes, generic over the names and number of levels."""

from client.cli.map import draw_map
from client.shapes import Node, Pod
from tests.client.sample import make_nodes, make_pods


def make_plain(count: int, *levels: str, per_domain: int = 2) -> list[Node]:
    """Free nodes; the domains of each level hold `per_domain` of the level below."""
    nodes: list[Node] = []
    for number in range(count):
        domains: dict[str, str | None] = {}
        size = per_domain
        for level in reversed(levels):
            domains[level] = f"{level[0]}{number // size}"
            size *= per_domain
        nodes.append(
            {
                "name": f"n{number}",
                "gpus": 8,
                "gpus_free": 8,
                "health": "healthy",
                "domains": dict(reversed(domains.items())),
            }
        )
    return nodes


def make_pod(node: str, gpus: int = 8) -> Pod:
    return {"node": node, "gpus": list(range(gpus))}


def drawn(levels: list[str], nodes: list[Node], pods: list[Pod], width: int = 60) -> list[str]:
    return list(draw_map(levels, nodes, pods, width))


def test_cluster_without_levels_is_one_row() -> None:
    lines = drawn([], make_plain(4), [make_pod("n1"), make_pod("n2", 4)])
    assert lines == [".#+.", "", "# whole node   + part of the node   . has free GPUs"]


def test_one_level_is_one_row_of_domains() -> None:
    lines = drawn(["rack"], make_plain(6, "rack"), [make_pod("n0"), make_pod("n3")])
    assert lines[:2] == ["rack  r0 #.  r1 .#", "(1 other rack domain without this job)"]


def test_two_levels_are_one_row_for_each_outer_domain() -> None:
    lines = drawn(["leaf", "rack"], make_plain(8, "leaf", "rack"), [make_pod("n5")])
    assert lines[:2] == ["leaf l1  r2 .#  r3 ..", "(1 other leaf domain without this job)"]


def test_further_levels_are_headings() -> None:
    levels = ["hall", "pod", "shelf", "tray"]
    nodes = make_plain(16, *levels)
    lines = drawn(levels, nodes, [make_pod("n0"), make_pod("n15")])
    assert lines[:6] == [
        "hall h0",
        "  pod p0",
        "    shelf s0  t0 #.  t1 ..",
        "    (1 other shelf domain without this job)",
        "  pod p1",
        "    shelf s3  t6 ..  t7 .#",
    ]


def test_row_goes_on_below_itself_where_it_is_too_long() -> None:
    nodes = make_plain(16, "rack")
    lines = drawn(["rack"], nodes, [make_pod(f"n{i}") for i in range(16)], width=26)
    assert lines[:3] == [
        "rack  r0 ##  r1 ##  r2 ##",
        "      r3 ##  r4 ##  r5 ##",
        "      r6 ##  r7 ##",
    ]


def test_large_domain_is_cut_into_pieces() -> None:
    nodes = make_plain(100, "leaf", per_domain=100)
    lines = drawn(["leaf"], nodes, [make_pod(f"n{i}") for i in range(100)], width=80)
    assert lines[:2] == ["leaf  l0 " + "#" * 64, "      " + "#" * 36]


def test_node_without_a_place_is_drawn_under_a_dash() -> None:
    nodes = make_plain(2, "rack")
    nodes[1]["domains"] = {"rack": None}
    assert drawn(["rack"], nodes, [make_pod("n1")])[0] == "rack  - #"


def test_state_of_the_other_nodes_is_shown() -> None:
    nodes = make_plain(5)
    nodes[1]["gpus_free"] = 0
    nodes[2]["cordoned"] = {"reason": "loud"}
    nodes[3]["health"] = "lost"
    assert drawn([], nodes, [make_pod("n0")])[0] == "#oxx."


def test_several_pods_that_fill_a_node_hold_it_whole() -> None:
    assert drawn([], make_plain(1), [make_pod("n0", 4), make_pod("n0", 4)])[0] == "#"


def test_lines_of_a_large_drawing_stay_within_the_width() -> None:
    lines = drawn(["block", "leaf", "rack"], make_nodes(), make_pods(150), width=72)
    assert max(map(len, lines)) <= 72
