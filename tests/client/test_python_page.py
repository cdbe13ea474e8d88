"""Every block of the page about the Python client, run against a real service."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.http import Client
from tests.client.typed import service

PAGE = Path(__file__).parents[2] / "docs" / "python-client.md"
INVENTORY = b"""
cluster: page
levels: [leaf, rack, node]
scale_up: node
nodes:
  - {names: "n[001-012]", type: hgx-h100, leaf: l1, rack: r1}
"""


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with service(tmp_path_factory.mktemp("page")) as running:
        with Client(running) as client:
            client.import_inventory(INVENTORY)
        yield running


@pytest.mark.slow
def test_page_of_the_python_client_runs_from_top_to_bottom(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = blocks()
    assert len(there) == 4
    for number, block in enumerate(there):
        code = block.replace("http://127.0.0.1:8080", url)
        exec(compile(code, f"{PAGE.name}, block {number + 1}", "exec"), {"__name__": "page"})
    said = capsys.readouterr().out
    assert "bound ['n0" in said
    assert "422 [" in said
    assert "needs 512 GPUs" in said or "never" in said
    assert "node.cordoned" in said
    assert "['bound', 'bound', 'bound', 'bound']" in said
