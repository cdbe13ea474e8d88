from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.podyard_yaml import parse, render
from scheduler.model.node import (
    FabricLevel,
    Inventory,
    NodeRecord,
    NodeType,
    RackRecord,
    Taint,
    TaintEffect,
)
from scheduler.model.resources import Resources

NAMES = st.from_regex(r"[a-z]{1,2}[0-9]{0,3}(-[0-9]{1,2})?", fullmatch=True)
PLACES = st.one_of(st.none(), NAMES, st.sampled_from(("a/b", "no", "12", "1e5", "0x1", "null")))
LABELS = st.dictionaries(NAMES, st.sampled_from(("", "a", "007", "1e9", "true")), max_size=2)


def gbps() -> st.SearchStrategy[float]:
    return st.floats(0.001, 1e6, allow_nan=False)


@st.composite
def node_types(draw: st.DrawFn, name: str) -> NodeType:
    gpus = draw(st.integers(0, 62))
    rails = draw(st.integers(0, 8))
    return NodeType(
        name=name,
        gpu=draw(st.sampled_from(("X1", "H100-80GB", "12"))) if gpus else "",
        gpus=gpus,
        rails=rails,
        rail_of_gpu=tuple(draw(st.integers(0, (rails or 62) - 1)) for _ in range(gpus)),
        nic_gbps=draw(gbps()),
        scale_up=draw(st.sampled_from((None, "row", "node"))),
        scale_up_gbps=draw(gbps()),
        power_w=draw(st.integers(0, 100_000)),
        capacity=Resources(
            draw(st.integers(0, 10**6)),
            draw(st.integers(0, 10**7)),
            draw(st.sampled_from(((), (("a/b", 1), ("c", 2))))),
        ),
        nvme_gb=draw(st.integers(0, 10**6)),
        source=draw(st.sampled_from(("", "a: b # c", "yes", "'\"", "é" * 120))),
    )


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    types = {name: draw(node_types(name)) for name in draw(st.sets(NAMES, min_size=1, max_size=2))}
    types |= {"gb200-tray": draw(node_types("gb200-tray"))}
    types |= {"dgx-h100": BUILT_IN["dgx-h100"]}
    taints = st.sets(
        st.builds(Taint, NAMES, st.just("x"), st.sampled_from(TaintEffect)), max_size=2
    )
    nodes = [
        NodeRecord(
            name,
            draw(st.sampled_from(sorted(types))),
            {level: draw(PLACES) for level in ("row", "shelf")},
            draw(LABELS),
            tuple(sorted(draw(taints))),
        )
        for name in draw(st.sets(NAMES, max_size=8))
    ]
    names = tuple(node.name for node in nodes)
    return Inventory(
        cluster=draw(NAMES),
        levels=("row", "shelf", "node"),
        scale_up=draw(st.sampled_from(("row", "node"))),
        node_types=types,
        nodes=tuple(nodes),
        racks=tuple(
            RackRecord(name, draw(st.integers(0, 10**6)), draw(PLACES))
            for name in draw(st.sets(NAMES, max_size=3))
        ),
        sets={"ups": {"a": names, "b": ()}} if draw(st.booleans()) else {},
        fabric={"row": FabricLevel(draw(gbps()), draw(st.floats(1, 1_000)))},
    )


def canonical(inventory: Inventory) -> Inventory:
    """Without the order that a text does not keep."""
    return replace(
        inventory,
        nodes=tuple(sorted(inventory.nodes, key=lambda node: node.name)),
        racks=tuple(sorted(inventory.racks, key=lambda rack: rack.name)),
        sets={
            kind: {name: tuple(sorted(members)) for name, members in by_name.items()}
            for kind, by_name in inventory.sets.items()
        },
    )


@settings(max_examples=25, deadline=None)
@given(inventories())
def test_rendered_inventory_reads_as_it_was(inventory: Inventory) -> None:
    assert canonical(parse(render(inventory))) == canonical(inventory)


@settings(max_examples=25, deadline=None)
@given(inventories())
def test_rendering_what_was_read_changes_nothing(inventory: Inventory) -> None:
    text = render(parse(render(inventory)))
    assert render(parse(text)) == text


def test_nodes_that_differ_in_names_alone_share_an_entry() -> None:
    nodes = tuple(
        NodeRecord(f"n{i}", "dgx-h100", {"rack": "r1" if i < 4 else None}) for i in range(6)
    )
    types = {"dgx-h100": BUILT_IN["dgx-h100"]}
    assert render(Inventory("c", ("rack", "node"), "node", types, nodes)) == (
        "cluster: c\n"
        "levels: [rack, node]\n"
        "scale_up: node\n"
        "nodes:\n"
        "- {names: 'n[0-3]', type: dgx-h100, rack: r1}\n"
        "- {names: 'n[4-5]', type: dgx-h100, rack: null}\n"
    )


@pytest.mark.parametrize("place", ["no", "1e5", "1e400", ".nan", "~x", "012", "true", "5", "a:b"])
def test_place_that_looks_like_something_else_is_quoted(place: str) -> None:
    node = NodeRecord("n1", "cpu", {"rack": place})
    text = render(Inventory("c", ("rack", "node"), "node", {"cpu": BUILT_IN["cpu"]}, (node,)))
    assert yaml.safe_load(text)["nodes"][0]["rack"] == place


def test_built_in_type_is_written_only_where_it_was_changed() -> None:
    changed = replace(BUILT_IN["gb200-tray"], scale_up=None, power_w=6_000)
    inventory = Inventory(
        "c", ("node",), "node", {"gb200-tray": changed}, (NodeRecord("n1", "gb200-tray"),)
    )
    written = yaml.safe_load(render(inventory))
    assert written["node_types"] == {"gb200-tray": {"scale_up": None, "power_kw": 6}}
