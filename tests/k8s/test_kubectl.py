"""The real `kubectl` works as people expect of it."""

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


def test_kubectl_does_what_people_type_most(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        rows = run_few(Kubectl(kubectls()[VERSIONS[-1]], served.url, tmp_path), served)
    assert [(row.command, row.why) for row in rows if row.why] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_kubectl_does_as_the_page_of_commands_says(version: str, tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        rows = run_all(Kubectl(kubectls()[version], served.url, tmp_path), served)
    assert [(row.command, row.why) for row in rows if row.why] == []
    assert said(rows) == column(PAGE.read_text(), version)
