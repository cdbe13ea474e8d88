"""`podyard export`, `import` and `restored`, as a person runs them."""

import fcntl
import gzip
import hashlib
import json
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from api.command import app
from api.store.epoch import read_leader, take_epoch
from api.store.errors import Gone
from api.store.events import current_revision, list_events
from api.store.policy import load_policy
from api.store.schema import known_versions, migrate, open_database
from tests.api.store.build import NOW_S, bind, load_cluster, submit
from tests.api.store.raw import execute

cli = CliRunner()

Lines = list[bytes]


def run(*arguments: object) -> tuple[int, str]:
    result = cli.invoke(app, [str(word) for word in arguments])
    return result.exit_code, result.output


def export(url: str, path: Path) -> str:
    status, said = run("export", "--out", path, "--database-url", url)
    assert status == 0, said
    return said


def take_in(url: str, path: Path, *more: object) -> tuple[int, str]:
    return run("import", path, "--database-url", url, *more)


@pytest.fixture
def full_url(database_url: str) -> str:
    """A database with a gang that is bound, and a leader of epoch 3."""
    with closing(open_database(database_url)) as db:
        load_cluster(db)
        bind(db, submit(db, "a"), ["n001", "n002"])
        submit(db, "b")
        for epoch in range(3):
            take_epoch(db, epoch, "somebody", now_s=NOW_S)
    return database_url


@pytest.fixture
def archive(full_url: str, tmp_path: Path) -> Path:
    export(full_url, tmp_path / "state.gz")
    return tmp_path / "state.gz"


def test_state_moves_to_a_database_that_does_not_exist_yet(archive: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    status, said = take_in(url, archive)
    assert status == 0
    assert said.startswith("took in ")
    assert said.endswith(
        "2 live pods agree with the ledger of 4 nodes; revision 7, watches resume; epoch 4\n"
    )
    with closing(open_database(url)) as db:
        assert current_revision(db) == 7
        assert [event.revision for event in list_events(db, 5).items] == [6, 7]
        assert (read_leader(db).epoch, read_leader(db).holder) == (4, "")
    assert run("doctor", "--database-url", url)[0] == 0


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_database_that_a_newer_program_has_migrated_is_left_to_it(
    full_url: str, archive: Path
) -> None:
    """This program may serve it, and does not know of the tables that came with it."""
    with closing(open_database(full_url)) as db:
        execute(db, "UPDATE alembic_version SET version_num = '2999_01_01_0000'")
    with closing(open_database(full_url)):
        pass
    for given in (["export", "--out", archive], ["import", archive, "--replace"]):
        status, said = run(*given, "--database-url", full_url)
        assert status == 1
        assert "has schema 2999_01_01_0000" in said
        assert "use the podyard that migrated it" in said


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_file_can_be_read_by_its_owner_alone_and_is_the_same_each_time(
    full_url: str, archive: Path, tmp_path: Path
) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    export(full_url, tmp_path / "again.gz")
    assert (tmp_path / "again.gz").read_bytes() == archive.read_bytes()
    assert not list(tmp_path.glob("*.part-*"))


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_head_says_what_is_in_the_file(archive: Path) -> None:
    with gzip.open(archive) as file:
        head = json.loads(file.readline())
        rows = [json.loads(line)[0] for line in file if line.startswith(b"[")]
    assert (head["podyard"], head["schema"]) == ("export", known_versions()[-1])
    assert (head["revision"], head["epoch"]) == (7, 3)
    assert {name: t["rows"] for name, t in head["tables"].items() if t["rows"]} == {
        name: rows.count(name) for name in set(rows)
    }


def test_database_with_rows_is_left_alone_unless_told_to_replace_them(
    full_url: str, archive: Path
) -> None:
    before = dump(full_url)
    status, said = take_in(full_url, archive)
    assert (status, dump(full_url)) == (1, before)
    assert "the database is not empty; name another, or say --replace" in said
    status, said = take_in(full_url, archive, "--replace")
    assert status == 0, said
    assert dump(full_url) == before


def test_watcher_of_what_was_replaced_is_told_to_begin_anew(full_url: str, archive: Path) -> None:
    with closing(open_database(full_url)) as db:
        submit(db, "later")
        later = current_revision(db)
    status, said = take_in(full_url, archive, "--replace")
    assert status == 0
    assert f"revision {later + 1}, watches begin anew; epoch 4" in said
    with closing(open_database(full_url)) as db:
        with pytest.raises(Gone):
            list_events(db, later)
        assert not list_events(db, later + 1).items


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_copy_that_is_older_than_what_ran_leaves_revisions_out(
    archive: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert take_in(url, archive, "--skip-revisions", 1000)[0] == 0
    with closing(open_database(url)) as db:
        assert current_revision(db) == 1007
        with pytest.raises(Gone):
            list_events(db, 50)
        assert submit(db, "c").revision == 1008


def test_restored_copy_deposes_leaves_revisions_out_and_may_begin_paused(full_url: str) -> None:
    status, said = run("restored", "--database-url", full_url, "--paused")
    assert status == 0
    assert "revision 1000007, watches begin anew; epoch 4; the scheduler is paused" in said
    with closing(open_database(full_url)) as db:
        assert load_policy(db).paused
        assert take_epoch(db, 3, "the old one", now_s=NOW_S) is None


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("command", ["import", "restored"])
def test_database_of_a_running_service_is_refused(
    full_url: str, archive: Path, command: str
) -> None:
    with Path(f"{full_url.removeprefix('sqlite:///')}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        given = [archive, "--replace"] if command == "import" else []
        status, said = run(command, *given, "--database-url", full_url)
    assert status == 1
    assert "a service runs on this database; stop it first" in said


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("command", ["import", "restored"])
def test_database_that_somebody_is_connected_to_is_refused(
    full_url: str, archive: Path, command: str
) -> None:
    given = [archive, "--replace"] if command == "import" else []
    with psycopg.connect(full_url, application_name="podyard elsewhere:1"):
        status, said = run(command, *given, "--database-url", full_url)
    assert status == 1
    assert "a service runs on this database; stop it first" in said


def rewritten(lines: Lines) -> bytes:
    """The file of other lines, with a checksum that is right."""
    body = b"".join(lines[:-1])
    end = {"rows": len(lines) - 2, "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + json.dumps(end).encode() + b"\n")


def with_head(**changes: object) -> Callable[[Lines], bytes]:
    def change(lines: Lines) -> bytes:
        head = json.loads(lines[0]) | changes
        return rewritten([json.dumps(head).encode() + b"\n", *lines[1:]])

    return change


def without(table: str) -> Callable[[Lines], bytes]:
    """Without the rows of a table, all counted and summed up anew."""

    def change(lines: Lines) -> bytes:
        head = json.loads(lines[0])
        head["tables"][table]["rows"] = 0
        kept = [line for line in lines[1:] if not line.startswith(f'["{table}"'.encode())]
        return rewritten([json.dumps(head).encode() + b"\n", *kept])

    return change


def replaced(old: bytes, new: bytes, *, sums: bool = True) -> Callable[[Lines], bytes]:
    def change(lines: Lines) -> bytes:
        changed = [lines[0], *(line.replace(old, new) for line in lines[1:])]
        assert changed != lines
        return rewritten(changed) if sums else gzip.compress(b"".join(changed))

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: b"".join(lines), "was not written by `podyard export`"),
        (lambda _: b"", "was not written by `podyard export`"),
        (lambda _: gzip.compress(b"[]\n"), "was not written by `podyard export`"),
        (lambda _: gzip.compress(b'{"podyard": 1}\n'), "was not written by `podyard export`"),
        (lambda _: gzip.compress(b"[" * 10**5 + b"\n"), "was not written by `podyard export`"),
        (lambda lines: gzip.compress(b"".join(lines))[:-300], "is cut off"),
        (lambda lines: gzip.compress(b"".join(lines)[:-3]), "is cut off"),
        (lambda lines: gzip.compress(b"".join(lines[:-1])), "is cut off"),
        (lambda lines: gzip.compress(b"".join(lines[:-4])), "is cut off"),
        (lambda lines: gzip.compress(b"".join(lines[:-4] + lines[-1:])), "it ends before all rows"),
        (lambda lines: gzip.compress(b"".join([*lines, b"[]\n"])), "there is more after its last"),
        (lambda lines: gzip.compress(b"".join([*lines[:9], *lines[10:]])), "comes next"),
        (lambda lines: gzip.compress(b"".join([*lines[:9], b"1\n", *lines[10:]])), "not a row"),
        (lambda lines: gzip.compress(b"".join([*lines[:9], b"{]\n", *lines[10:]])), "not JSON"),
        (lambda lines: gzip.compress(b"".join(lines))[:60] + b"\xff" * 40, "damaged or changed"),
        (replaced(b"n001", b"n009", sums=False), "its checksum is another"),
        (with_head(revision=1), "the file contradicts itself"),
        (with_head(format=2), "is of format 2, this program knows format 1"),
        (with_head(schema="2999_01_01_0000"), "has schema 2999_01_01_0000"),
        (with_head(schema="2026_12_01_0900"), "import it with the podyard that wrote it"),
        (with_head(tables={}), "has other tables than schema"),
        (without("node_usage"), "ledger: the node of a live pod does not exist"),
        (without("counter"), "the file contradicts itself"),
        (replaced(b"n002", b"n001"), "the database refuses it"),
        (replaced(b'["nodes","n001"', b'["nodes",7'), "must be of kind str"),
        (replaced(b'["nodes","n001"', b'["nodes",null'), "must not be"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_file_that_is_not_as_it_was_written_changes_nothing(
    full_url: str, archive: Path, damage: Callable[[Lines], bytes], said: str
) -> None:
    with gzip.open(archive) as file:
        lines = file.readlines()
    before = dump(full_url)
    archive.write_bytes(damage(lines))
    status, output = take_in(full_url, archive, "--replace")
    assert status == 1
    assert said in output
    assert output.startswith("podyard: ")
    assert output.count("\n") == 1
    assert dump(full_url) == before


def test_postgresql_that_refuses_a_row_is_left_as_it_was(full_url: str, archive: Path) -> None:
    with gzip.open(archive) as file:
        archive.write_bytes(replaced(b"n002", b"n001")(file.readlines()))
    before = dump(full_url)
    status, output = take_in(full_url, archive, "--replace")
    assert (status, dump(full_url)) == (1, before)
    assert "the database refuses it" in output


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_export_that_cannot_be_written_leaves_the_last_one(
    full_url: str, archive: Path, tmp_path: Path
) -> None:
    status, said = run("export", "--out", tmp_path / "no" / "x.gz", "--database-url", full_url)
    assert (status, said.count("\n")) == (1, 1)
    assert "cannot write" in said
    status, said = run("import", tmp_path / "none.gz", "--database-url", full_url)
    assert "cannot read" in said
    status, said = run("export", "--out", archive, "--database-url", f"sqlite:///{tmp_path}/e.db")
    assert "is empty; run `podyard migrate" in said
    assert take_in(full_url, archive, "--replace")[0] == 0


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_database_of_an_older_schema_is_not_written_to(archive: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    migrate(url, known_versions()[0])
    for answer in (take_in(url, archive), run("export", "--out", archive, "--database-url", url)):
        assert answer[0] == 1
        assert "is older; run `podyard migrate" in answer[1]


def dump(url: str) -> list[object]:
    """Every row of the state, and what the ledger has."""
    with closing(open_database(url)) as db, db.read() as connection:
        tables = ("nodes", "node_usage", "jobs", "pods", "queues", "events", "counter", "facts")
        return [
            sorted(map(repr, connection.execute(sa.text(f"SELECT * FROM {table}"))))
            for table in tables
        ]
