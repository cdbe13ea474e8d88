"""The `podyard` command, as a person or a service manager runs it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.command import app
from api.settings import Role, Settings
from api.store.schema import known_versions, open_database
from tests.api.store.build import bind, load_cluster, submit
from tests.api.store.raw import execute

cli = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    result = cli.invoke(app, list(arguments))
    return result.exit_code, result.output


class Service:
    """`podyard serve` in a process of its own."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "api.command", "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )

    def get(self, path: str) -> dict[str, object]:
        return self._call(path)

    def post(self, path: str, body: object) -> dict[str, object]:
        return self._call(path, json.dumps(body).encode())

    def _call(self, path: str, data: bytes | None = None) -> dict[str, object]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=data,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            found = json.loads(reply.read())
        assert isinstance(found, dict)
        return found

    def wait(self) -> None:
        """Until it is ready."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.get("/readyz")
            except (OSError, urllib.error.URLError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise TimeoutError(self.process.communicate()[1]) from None
            else:
                return

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Status and standard error after a signal."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@contextmanager
def serving(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Service]:
    service = Service(*arguments, environment=environment)
    try:
        service.wait()
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.communicate()


def test_serve_makes_its_database_and_ends_cleanly_when_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with serving("--database-url", url, "--log-format", "json") as service:
        assert service.get("/healthz")["status"] == "ok"
        status, said = service.end()
    assert status == 0
    events = [json.loads(line)["event"] for line in said.splitlines()]
    assert "serving" in events
    assert "Traceback" not in said
    with closing(open_database(url)):
        pass


def test_manual_clock_goes_on_after_a_kill(tmp_path: Path) -> None:
    arguments = ("--database-url", f"sqlite:///{tmp_path / 'p.db'}", "--clock", "manual")
    with serving(*arguments) as service:
        before = service.post("/v1/test/clock", {"advance_s": 90.5})
        service.end(signal.SIGKILL)
    with serving(*arguments) as service:
        assert service.post("/v1/test/clock", {"advance_s": 0}) == before
        assert service.end(signal.SIGINT)[0] == 0


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_serve_finds_postgresql_in_the_environment(database_url: str) -> None:
    with serving(environment={"DATABASE_URL": database_url}) as service:
        assert service.get("/v1/jobs")["items"] == []
        assert service.end()[0] == 0


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_serve_does_not_migrate_postgresql_unasked(empty_database_url: str) -> None:
    status, said = run("serve", "--database-url", empty_database_url, "--port", "0")
    assert status == 1
    assert "is empty; run `podyard migrate" in said
    assert run("migrate", "--database-url", empty_database_url)[0] == 0
    with closing(open_database(empty_database_url)):
        pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "there are no tokens yet: make a token with `podyard token create"),
        (("--host", "0.0.0.0", "--auth", "off"), "other machines and auth is off"),
        (("--auth", "maybe"), "auth: "),
        (("--tls-cert", __file__, "--tls-key", __file__), "cannot be used for TLS"),
        (("--tls-client-ca", __file__), "tls_client_ca is of use with tls_cert and tls_key"),
        (("--oidc-issuer", "https://x.example"), "oidc_issuer needs oidc_audience"),
        (("--host", "192.0.2.1", "--insecure"), "cannot listen on 192.0.2.1:0"),
        (("--tls-cert", "/none.pem"), "'/none.pem' for TLS does not exist"),
        (("--tls-cert", __file__), "needs both a certificate and a key"),
        (("--clock", "sundial"), "clock: "),
        (("--log-format", "braille"), "log_format: "),
        (("--database-url", "oracle://x"), "'oracle' are not supported"),
    ],
)
def test_serve_says_in_one_line_why_it_cannot(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    base = ("--database-url", f"sqlite:///{tmp_path / 'p.db'}", "--port", "0")
    status, output = run("serve", *base, *arguments)
    assert status == 1
    assert said in output
    assert output.startswith("podyard: ")
    assert output.count("\n") == 1


def test_serve_says_that_its_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        status, said = run(
            "serve", "--port", str(port), "--database-url", f"sqlite:///{tmp_path / 'p.db'}"
        )
    assert status == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert not (tmp_path / "p.db").exists()


@pytest.mark.parametrize("command", ["serve", "migrate", "doctor"])
def test_database_that_is_not_ours_is_told_in_one_line(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODYARD_PORT", "0")
    (tmp_path / "p.db").write_text("no database " * 100)
    status, said = run(command, "--database-url", f"sqlite:///{tmp_path / 'p.db'}")
    assert status == 1
    assert "corrupt or of another kind" in said
    assert said.count("\n") == 1


def test_migrate_goes_down_and_up(empty_database_url: str) -> None:
    head = known_versions()[-1]
    for arguments, said in (((), head), (("--to", "base"), "base"), (("--to", head), head)):
        status, output = run("migrate", "--database-url", empty_database_url, *arguments)
        assert (status, output) == (0, f"the database is at {said}\n")
    status, output = run("migrate", "--database-url", empty_database_url, "--to", "x")
    assert status == 1
    assert "there is no version 'x'" in output


def test_doctor_tells_whether_the_ledger_agrees(database_url: str) -> None:
    with closing(open_database(database_url)) as database:
        load_cluster(database)
        bind(database, submit(database, "a"), ["n001", "n002"])
        status, said = run("doctor", "--database-url", database_url)
        assert (status, said) == (
            0,
            "the ledger agrees: 2 live pods and 0 claims on 4 nodes, revision 3\n",
        )
        execute(database, "UPDATE node_usage SET pods = 9 WHERE node = 'n003'")
    status, said = run("doctor", "--database-url", database_url)
    assert status == 1
    assert said.splitlines()[0] == "node 'n003': pods is 9, pods say 0"


def test_version_names_program_and_schema() -> None:
    status, said = run("version")
    assert status == 0
    assert said.startswith("podyard ")
    assert said.endswith(f", schema {known_versions()[-1]}\n")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://a")
    monkeypatch.setenv("PODYARD_ROLE", "runner")
    assert (Settings().database_url, Settings().role) == ("postgresql://a", Role.RUNNER)
    monkeypatch.setenv("PODYARD_DATABASE_URL", "sqlite:///b")
    assert Settings().database_url == "sqlite:///b"
    assert Settings(database_url="sqlite:///c").database_url == "sqlite:///c"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
    ],
)
def test_settings_know_what_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    assert Settings(host=host).is_loopback is loopback
