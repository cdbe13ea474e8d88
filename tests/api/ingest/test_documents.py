"""The examples of the page about inventories can be imported, each without naming its format."""

import re

import pytest

from api.ingest.topology import read_inventory
from scheduler.topology.build import build
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- imports (\w+) (\d+) -->\n```\w*\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize(("name", "nodes", "text"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_example_is_of_the_format_it_is_shown_for(name: str, nodes: str, text: str) -> None:
    read = read_inventory(text.encode())
    assert (read.format, len(read.inventory.nodes)) == (name, int(nodes))
    assert build(read.inventory).topology.node_count == int(nodes)


def test_every_format_with_nodes_has_an_example() -> None:
    assert {example[0] for example in EXAMPLES} == {
        *("podyard", "slurm", "topograph", "kubernetes", "csv", "ibnetdiscover"),
    }
