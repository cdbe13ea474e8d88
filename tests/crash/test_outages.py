"""The database is shut down, freezes, runs out of connections or of room; then all goes on."""

import os
import resource
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from api.store.schema import migrate, open_database
from tests.api.store.build import load_cluster
from tests.checks import Seen, broken_promises
from tests.crash.server import OwnServer, own_server
from tests.crash.service import Service, until
from tests.crash.takeovers import Rounds

SEED = int(os.environ.get("PODYARD_CRASH_SEED", "9"))

JOB = {"parallelism": {"tp": 1}}


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with own_server() as found:
        migrate(found.url)
        yield found


def is_refused(service: Service) -> bool:
    """Whether a submission is answered with 503, and with when to try again."""
    status, told = service.call("POST", "/v1/jobs", {"name": "refused", **JOB})
    assert status in {0, 201, 409, 503}, told
    assert status != 503 or told["retry_after"] == "1", told
    return status == 503


def without_it(server: OwnServer, folder: Path, seconds: float, *, frozen: bool) -> None:
    """Three replicas under load while PostgreSQL is away for a time."""
    rounds = Rounds(server.url, folder, SEED)
    with rounds.running():
        until(lambda: rounds.probers[0].placed > 2, "something is placed")
        if frozen:
            server.freeze()
        else:
            server.shut_down()
        try:
            for service in rounds.replicas.services:
                until(lambda s=service: is_refused(s), "it is told")  # type: ignore[misc]  # bound now
                assert service.call("GET", "/healthz")[0] == 200
                assert service.call("GET", "/readyz")[0] == 503
            threading.Event().wait(seconds)
        finally:
            if frozen:
                server.thaw()
            else:
                server.start()
        placed = sum(p.placed for p in rounds.probers)
        until(lambda: sum(p.placed for p in rounds.probers) > placed + 2, "it goes on")
    assert rounds.check() == []
    found = Counter[int]()
    for caller in rounds.callers:
        found += Counter(caller.tally.statuses)
        assert caller.tally.impatient == 0
    assert {status for status in found if status >= 500} == {503}


@pytest.mark.timeout(300)
def test_shutdown_of_postgresql_under_load_is_survived(server: OwnServer, tmp_path: Path) -> None:
    without_it(server, tmp_path, 0.5, frozen=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("frozen", [False, True])
def test_half_a_minute_without_postgresql_is_survived(
    server: OwnServer, tmp_path: Path, frozen: bool
) -> None:
    """Stopped in order, or frozen so that nothing is answered and no connection ends."""
    without_it(server, tmp_path, 30.0, frozen=frozen)


def submit_all(service: Service, names: list[str]) -> tuple[Counter[int], Seen]:
    """Many submissions at once: how each was answered, and what was acknowledged."""
    statuses, seen, lock = Counter[int](), Seen(), threading.Lock()

    def submit(name: str) -> None:
        body = {"name": name, **JOB}
        status, told = service.call("POST", "/v1/jobs", body, Idempotency_Key=name)
        with lock:
            statuses[status] += 1
            if status in {200, 201}:
                seen.jobs.add(str(told["uid"]))
                seen.keys[name].add(str(told["uid"]))
            elif status == 503:
                assert told["retry_after"] == "1"

    threads = [threading.Thread(target=submit, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, seen


END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND NOT pid = ANY(%s)"
)


def hold_all(url: str, held: ExitStack) -> list[psycopg.Connection[tuple[object, ...]]]:
    """Every connection that the server has left."""
    mine = []
    with suppress(psycopg.OperationalError):
        while True:
            mine.append(held.enter_context(psycopg.connect(url, autocommit=True)))
    return mine


@pytest.mark.timeout(300)
def test_server_without_a_free_connection_is_told_of_and_survived(
    server: OwnServer, tmp_path: Path
) -> None:
    with closing(open_database(server.url)) as database:
        load_cluster(database, 8)
    names = [f"j{number}" for number in range(60)]
    with Service(server.url, tmp_path / "log") as service:
        service.start()
        service.until_ready()
        with ExitStack() as held:
            mine = hold_all(server.url, held)
            # The service may do with those that it has; it loses them, and they are held too.
            mine[0].execute(END_OTHERS, ([other.info.backend_pid for other in mine],))
            hold_all(server.url, held)
            statuses, seen = submit_all(service, names)
            assert set(statuses) <= {201, 503}
            assert statuses[503], "some had to wait for a connection"
            assert service.call("GET", "/healthz")[0] == 200
        service.until_ready()
        again, more = submit_all(service, names)
        assert set(again) <= {200, 201}
        for name, uids in seen.keys.items():
            assert uids == more.keys[name]
        assert broken_promises(server.url, more) == []


@contextmanager
def small_files(process: int, size: int) -> Iterator[None]:
    """A process whose files cannot grow beyond a size: as good as a full disk."""
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_sqlite_whose_file_cannot_grow_is_told_of_and_survived(
    database_url: str, tmp_path: Path
) -> None:
    with closing(open_database(database_url)) as database:
        load_cluster(database, 8)
    path = Path(database_url.removeprefix("sqlite:///"))
    with Service(database_url, tmp_path / "log") as service:
        service.start()
        service.until_ready()
        first, seen = submit_all(service, ["before"])
        assert set(first) == {201}
        with small_files(service.process, 4096):
            until(lambda: is_refused(service), "it is told")
            assert service.call("GET", "/v1/jobs")[0] == 200
            assert service.call("GET", "/healthz")[0] == 200
        until(lambda: not is_refused(service), "it takes jobs again")
        again, more = submit_all(service, ["before", "after"])
        assert set(again) == {200, 201}
        assert more.keys["before"] == seen.keys["before"]
        until(lambda: is_placed(service, "after"), "it places again")
    assert path.is_file()
    assert broken_promises(database_url, more) == []


def is_placed(service: Service, name: str) -> bool:
    status, job = service.call("GET", f"/v1/namespaces/default/jobs/{name}")
    return status == 200 and job["state"] == "bound"


@pytest.fixture
def small_server() -> Iterator[tuple[OwnServer, Path]]:
    """A PostgreSQL on a disk of its own that is soon full, and that disk."""
    with TemporaryDirectory(prefix="podyard-disk-", ignore_cleanup_errors=True) as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("needs the right to mount a small disk")
        try:
            with closing(OwnServer(Path(folder, "pg"))) as server:
                migrate(server.url)
                yield server, Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_postgresql_on_a_full_disk_is_told_of_and_survived(
    small_server: tuple[OwnServer, Path], tmp_path: Path
) -> None:
    server, disk = small_server
    with closing(open_database(server.url)) as database:
        load_cluster(database, 8)
    with Service(server.url, tmp_path / "log") as service:
        service.start()
        service.until_ready()
        seen = Seen()
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))

        def is_full() -> bool:
            names = [f"j{len(seen.jobs)}-{number}" for number in range(20)]
            statuses, told = submit_all(service, names)
            assert set(statuses) <= {200, 201, 503}
            seen.jobs |= told.jobs
            return statuses[503] > 0

        until(is_full, "it is told", timeout_s=300.0)
        assert service.call("GET", "/healthz")[0] == 200
        filler.unlink()
        with suppress(psycopg.Error):
            psycopg.connect(server.url).close()

        def is_back() -> bool:
            if service.call("GET", "/readyz")[0] == 200:
                return True
            with suppress(Exception):  # it is up, or has ended for want of room
                server.start()
            return False

        until(is_back, "it is ready again", timeout_s=120.0)
        again, more = submit_all(service, ["after"])
        assert set(again) == {201}
        seen.jobs |= more.jobs
        assert broken_promises(server.url, seen) == []
