"""The installed commands as processes: pipes, terminals, exit codes, quick starts."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.fake_server import Answer, FakeServer
from tests.client.sample import make_nodes, make_topology

ROOT = Path(__file__).parents[2]


def run(
    module: str, *words: str, server: str = "http://127.0.0.1:1", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env={**os.environ, "PODYARD_SERVER": server, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def yardctl(*words: str, server: str = "http://127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    return run("client.cli.main", *words, server=server)


def test_reader_that_leaves_ends_the_output_quietly(server: FakeServer) -> None:
    """Far more than a pipe holds; the reader takes one line and goes."""
    server.lists["/v1/nodes"] = list(make_nodes(20_000))
    with subprocess.Popen(
        [sys.executable, "-m", "client.cli.main", "get", "nodes"],
        cwd=ROOT,
        env={**os.environ, "PODYARD_SERVER": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"NAME")
        process.stdout.close()
        complaints = process.stderr.read()
        code = process.wait()
    assert complaints == b""
    assert code == 128 + signal.SIGPIPE
    assert len(server.requests) < 40, "pages after the reader left were still fetched"


def test_output_that_is_closed_from_the_start_ends_quietly(server: FakeServer) -> None:
    """The whole output fits the buffer, so that only the last flush meets the closed pipe."""
    server.lists["/v1/nodes"] = list(make_nodes(3))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        result = subprocess.run(
            [sys.executable, "-m", "client.cli.main", "get", "nodes"],
            cwd=ROOT,
            env={**os.environ, "PODYARD_SERVER": server.url},
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, b"")


def test_colours_are_for_terminals_alone(server: FakeServer) -> None:
    server.lists["/v1/nodes"] = list(make_nodes(30))
    assert "\x1b" not in yardctl("get", "nodes", server=server.url).stdout
    assert "\x1b[31mlost\x1b[0m" in on_terminal(server, {})
    assert "\x1b" not in on_terminal(server, {"NO_COLOR": "1"})
    assert "\x1b" not in on_terminal(server, {"TERM": "dumb"})


def on_terminal(server: FakeServer, environment: dict[str, str]) -> str:
    """What `get nodes` writes to a terminal."""
    keyboard, terminal = pty.openpty()
    settings = {"TERM": "xterm", "PODYARD_SERVER": server.url, **environment}
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-m", "client.cli.main", "get", "nodes"],
        cwd=ROOT,
        env={**inherited, **settings},
        stdout=terminal,
    ) as process:
        os.close(terminal)
        written = b""
        while chunk := read_some(keyboard):
            written += chunk
        process.wait()
    os.close(keyboard)
    return written.decode()


def read_some(descriptor: int) -> bytes:
    """What is there to read; nothing when the other end of the terminal is closed."""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


def test_name_that_the_encoding_lacks_is_still_written(server: FakeServer) -> None:
    node = make_nodes(1)[0]
    node["labels"] = {"owner": "Åsa 名前"}
    server.lists["/v1/nodes"] = [node]
    result = run(
        "client.cli.main",
        *("get", "nodes", "-o", "wide"),
        server=server.url,
        PYTHONIOENCODING="ascii",
    )
    assert result.returncode == 0
    assert r"owner=\xc5sa \u540d\u524d" in result.stdout


def test_tree_is_drawn_with_the_lines_that_the_encoding_has(server: FakeServer) -> None:
    server.replies["GET", "/v1/topology"] = Answer(make_topology())
    words = ("client.cli.main", "tree", "--level", "block")
    ascii_lines = run(*words, server=server.url, PYTHONIOENCODING="ascii").stdout.splitlines()
    assert [line.split()[0] for line in ascii_lines[2:4]] == ["|--", "`--"]
    lines = run(*words, server=server.url, PYTHONIOENCODING="utf-8").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["├──", "└──"]


@pytest.mark.parametrize("unwanted", ["httpx", "yaml", "rich", "pydantic_settings", "api"])
def test_start_imports_only_what_it_needs(unwanted: str) -> None:
    program = f"import client.cli.main, sys; sys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_agent_that_cannot_begin_says_why(tmp_path: Path) -> None:
    result = run("client.agent", "--state", str(tmp_path), "--user", "alice")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "podyard-agent: --user alice: give NAMESPACE=USER, as in research=alice or *=nobody\n"
    )


def test_unit_of_the_agent_lets_its_pods_outlive_it() -> None:
    unit = (ROOT / "deploy" / "systemd" / "podyard-agent.service").read_text()
    assert "\nKillMode=process\n" in unit
