"""The real `kubectl` works as people expect of it."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.k8s.battery import run_all, run_few
from tests.k8s.kubectl import Kubectl, Served, kubectls
from tests.k8s.page import PAGE, column, said

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(
        not kubectls(), reason="no kubectl of version 1.27 or newer on PATH or in /usr/bin"
    ),
]

VERSIONS = list(kubectls())
BEAT = {"session": "s1", "boot_id": "b1", "pods": []}


def test_kubectl_does_what_people_type_most(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        rows = run_few(Kubectl(kubectls()[VERSIONS[-1]], served.url, tmp_path), served)
    assert [(row.command, row.why) for row in rows if row.why] == []


def test_kubectl_asks_again_for_a_log_whose_agent_speaks_late(tmp_path: Path) -> None:
    """The agent hears of it after so long that the first question has been answered with 429."""
    node = "/v1/nodes/a1"
    with Served(tmp_path) as served:
        kubectl = Kubectl(kubectls()[VERSIONS[-1]], served.url, tmp_path)
        job = {"name": "talks", "parallelism": {"tp": 8}, "nodes": ["a1"]}
        assert served.call("POST", "/v1/jobs?wait=bound", job)[0] == 201
        assert served.call("POST", f"{node}/heartbeat", BEAT)[0] == 200
        with kubectl.running("logs", "talks-0", "-v=8") as reading:
            reading.until("429")
            (log,) = served.call("POST", f"{node}/heartbeat", BEAT)[1]["logs"]
            content = b64encode(b"step 1\n").decode()
            served.call("POST", f"{node}/logs/{log['id']}", {"content": content})
            reading.until("(?m)^step 1$")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_kubectl_does_as_the_page_of_commands_says(version: str, tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        rows = run_all(Kubectl(kubectls()[version], served.url, tmp_path), served)
    assert [(row.command, row.why) for row in rows if row.why] == []
    assert said(rows) == column(PAGE.read_text(), version)
