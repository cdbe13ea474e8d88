"""What the documents tell people to type, typed against a real service, page by page."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from client.errors import ClientError
from client.http import Client
from tests.client.typed import PATIENCE_S, ROOT, environment_of, free_port, service

PAGES = ("README.md", "docs/inventory.md", "docs/placements.md", "docs/dashboards.md",
         "docs/running.md", "docs/faults.md")  # fmt: skip
"""Whose commands are run as they stand. The quick start, the training example and the page of the
Python client have tests of their own; those of kubectl and of backups are with theirs."""

NOT_HERE = {
    r"^make |^export PATH": "sets up a clone; the tests run in one that is",
    r"podyard serve": "a service runs already",
    r"nvidia-smi topo": "needs NVIDIA's driver",
    r"srun|mpirun": "starts a training run",
}
"""Commands that are left out, and why."""

ENDS = {"podyard replay --at": {0, 2}, "yardctl fence": {0, 1}}
"""Exit codes other than 0: a revision of an example is not in this log; who is fenced must be lost
or silent, and here it works."""

TOPOLOGY = """\
SwitchName=leaf1 Nodes=s[001-004]
SwitchName=leaf2 Nodes=s[005-008]
SwitchName=spine Switches=leaf[1-2]
"""

_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: str) -> Iterator[str]:
    """The commands of a page, in order; of a transcript, the lines behind a `$`."""
    for block in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        lines = block.splitlines()
        shown = any(line.startswith("$ ") for line in lines)
        for line in lines:
            text = line.removeprefix("$ ") if line.startswith("$ ") or not shown else ""
            if text.strip() and not text.startswith("#"):
                yield text


def is_left_out(command: str) -> bool:
    return any(re.search(pattern, command) for pattern in NOT_HERE)


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with what the pages speak of, and a service with the example cluster and job.

    Each page has its own: what one imports takes the levels that another speaks of.
    """
    folder, port = tmp_path_factory.mktemp("pages"), free_port()
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "topology.conf").write_text(TOPOLOGY)
    environment = environment_of(folder, port) | {"PODYARD_NAMESPACE": "research"}
    with service(folder, port):
        for text in (
            "yardctl apply -f examples/h100-superpod.yaml",
            "yardctl create -f examples/jobs/llama-70b-pp.yaml --wait bound",
        ):
            done = typed(text, folder, environment)
            assert done.returncode == 0, done.stdout + done.stderr
        stop = threading.Event()
        nodes = threading.Thread(target=play_nodes, args=(environment["PODYARD_SERVER"], stop))
        nodes.start()
        try:
            yield folder, environment
        finally:
            stop.set()
            nodes.join()


def play_nodes(url: str, stop: threading.Event) -> None:
    """What nodes do: pods run, and those that are told to stop do."""
    with Client(url) as client:
        while not stop.wait(0.2):
            for pod in list(client.pods()):
                state = {"bound": "running", "terminating": "stopped"}.get(pod.get("state", ""))
                if state is not None:
                    where = (pod.get("namespace", ""), pod.get("name", ""))
                    with suppress(ClientError):
                        client.report_pod(*where, attempt=pod.get("attempt", 1), state=state)


def typed(text: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment,
        input="y\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES[1:])
def test_commands_of_a_page_can_be_typed(page: str, shell: tuple[Path, dict[str, str]]) -> None:
    folder, environment = shell
    run = [command for command in commands(page) if not is_left_out(command)]
    assert run
    # The example's job has every node; whoever drains one waits until there is another.
    run = ["yardctl delete job llama-70b", *run] if page == "docs/faults.md" else run
    for command in run:
        done = typed(command, folder, environment)
        fine = next((codes for start, codes in ENDS.items() if command.startswith(start)), {0})
        assert done.returncode in fine, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_of_the_readme_can_be_typed(tmp_path: Path) -> None:
    """From an empty service on, as its reader does."""
    port = free_port()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with service(tmp_path, port):
        environment = environment_of(tmp_path, port)
        for command in commands("README.md"):
            if not is_left_out(command):
                done = typed(command, tmp_path, environment)
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_what_is_left_out_has_a_reason_and_is_there() -> None:
    typed_anywhere = [command for page in PAGES for command in commands(page)]
    for pattern in NOT_HERE:
        assert any(re.search(pattern, command) for command in typed_anywhere), pattern
