"""The watch over real HTTP: complete, in order, once, and at an end when it should be."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api.http import feed as feed_module
from api.http import sse
from api.store.engine import Database
from api.store.events import trim_history
from api.store.jobs import cancel_job, submit_job
from api.store.pods import report_pod
from api.store.schema import open_database
from scheduler.model.lifecycle import PodState
from tests.api.http.contract import Contract
from tests.api.http.live import Live
from tests.api.http.yard import Yard
from tests.api.store.build import NOW_S, bind, load_cluster, make_spec, submit


@pytest.fixture
def live(database: Database) -> Iterator[Live]:
    with Live(database) as served:
        yield served


@pytest.fixture
def small(tmp_path: Path, sqlite_template: Path) -> Iterator[Live]:
    """On one kind of database, for what does not depend on it."""
    path = shutil.copyfile(sqlite_template, tmp_path / "podyard.db")
    with closing(open_database(f"sqlite:///{path}")) as database, Live(database) as served:
        yield served


def fill(database: Database, count: int, message: str = "") -> None:
    """As many events, a few in each transaction."""
    left = count
    while left:
        with database.write(NOW_S) as tx:
            for _ in range(min(left, 7)):
                tx.emit("test.happened", subject_kind="test", message=message)
                left -= 1


def until(condition: threading.Event) -> None:
    assert condition.wait(30)


def test_watch_gives_what_happened_before_and_then_what_happens(live: Live) -> None:
    fill(live.database, 1_300)
    with live.watch("?since=10") as watch:
        assert watch.take(1_290) == list(range(11, 1_301))
        fill(live.database, 20)
        assert watch.take(20) == list(range(1_301, 1_321))


def test_watch_without_a_start_begins_now(live: Live) -> None:
    fill(live.database, 5)
    with live.watch() as watch:
        fill(live.database, 2)
        assert watch.take(2) == [6, 7]


def test_watch_is_taken_up_with_the_last_id(live: Live) -> None:
    """A browser sends the address as it was, and the id beside it."""
    fill(live.database, 10)
    with live.watch("?since=3", {"Last-Event-ID": "8"}) as watch:
        assert watch.take(2) == [9, 10]


def test_event_is_the_one_of_the_list(live: Live) -> None:
    load_cluster(live.database)
    submit(live.database, "a")
    with live.watch("?since=0&timeout_s=0.2") as watch:
        events = list(watch.events())
    with Yard(live.database, Contract({"paths": {}, "components": {}})) as yard:
        assert yard.client.get("/v1/events").json()["items"] == events


def test_two_watchers_share_what_is_read_and_each_sees_all(live: Live) -> None:
    with live.watch("?since=0") as first, live.watch("?since=0") as second:
        fill(live.database, 40)
        assert first.take(40) == second.take(40) == list(range(1, 41))
        assert live.service.feed.watchers == 2


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("kind=job", ["job.submitted", "job.submitted", "job.bound", "job.cancelled"]),
        ("kind=job.bound,pod", ["job.bound", "pod.reported"]),
        ("namespace=default&kind=job.submitted", ["job.submitted", "job.submitted"]),
        ("job=a", ["job.submitted", "job.bound", "pod.reported"]),
        ("job=b&namespace=default", ["job.submitted", "job.cancelled"]),
        ("job=b&namespace=other", []),
        ("job=a&kind=pod", ["pod.reported"]),
    ],
)
def test_watch_and_list_give_only_what_is_asked_for(
    live: Live, query: str, kinds: list[str]
) -> None:
    load_cluster(live.database)
    a, _ = submit(live.database, "a"), submit(live.database, "b")
    bind(live.database, a, ["n001", "n002"])
    report_pod(
        live.database,
        "default",
        "a-member-0",
        attempt=1,
        state=PodState.RUNNING,
        exit_code=None,
        now_s=NOW_S,
    )
    cancel_job(live.database, "default", "b", now_s=NOW_S)
    with live.watch(f"?since=0&timeout_s=0.2&{query}") as watch:
        assert watch.kinds() == kinds
    with Yard(live.database, Contract({"paths": {}, "components": {}})) as yard:
        items = yard.client.get(f"/v1/events?{query}").json()["items"]
    assert [item["kind"] for item in items] == kinds


def test_watch_of_a_job_follows_one_that_is_submitted_later(live: Live) -> None:
    load_cluster(live.database)
    with live.watch("?job=a") as watch:
        job = submit(live.database, "a")
        bind(live.database, job, ["n001", "n002"])
        report_pod(
            live.database,
            "default",
            "a-member-1",
            attempt=1,
            state=PodState.RUNNING,
            exit_code=None,
            now_s=NOW_S,
        )
        events = watch.events()
        kinds = [next(events)["kind"] for _ in range(3)]
    assert kinds == ["job.submitted", "job.bound", "pod.reported"]


def test_start_that_is_no_longer_kept_is_gone_and_one_ahead_is_refused(live: Live) -> None:
    fill(live.database, 20)
    trim_history(live.database, keep=10, now_s=NOW_S)
    assert live.refused("?since=9") == (410, "gone")
    assert live.refused("", {"Last-Event-ID": "9"}) == (410, "gone")
    assert live.refused("?since=21") == (400, "future-revision")
    assert live.refused("?since=x") == (422, "invalid-fields")
    assert live.refused("?since=1&kind=Job!") == (422, "invalid-fields")
    assert live.refused("", {"Last-Event-ID": "x"}) == (422, "invalid-fields")
    with live.watch("?since=10") as watch:
        assert watch.take(10) == list(range(11, 21))


def test_silence_is_filled_with_comments_that_say_how_far_it_is(live: Live) -> None:
    live.service.feed.heartbeat_s = 0.05
    with live.watch("?since=0&kind=other&timeout_s=0.5") as watch:
        fill(live.database, 9)
        assert watch.kinds() == []
    assert watch.comments[0] == "revision 0"
    assert "revision 9" in watch.comments


def test_stream_ends_cleanly_when_its_time_is_over(live: Live) -> None:
    with live.watch("?since=0&timeout_s=0") as watch:
        assert (watch.kinds(), watch.error) == ([], None)


def test_streams_end_cleanly_when_the_service_ends(live: Live) -> None:
    fill(live.database, 3)
    with live.watch("?since=0") as first, live.watch() as second:
        assert first.take(3) == [1, 2, 3]
        began_s = time.monotonic()
        live.stop()
        assert time.monotonic() - began_s < 5
        assert (first.kinds(), first.error) == ([], None)
        assert (second.kinds(), second.error) == ([], None)


def test_reader_that_leaves_is_forgotten_and_so_is_what_was_kept(live: Live) -> None:
    feed = live.service.feed
    with live.watch("?since=0") as watch:
        fill(live.database, 5)
        assert watch.take(5) == [1, 2, 3, 4, 5]
        assert feed.watchers == 1
    deadline_s = time.monotonic() + 20
    while feed.watchers or feed._reader is not None:
        assert time.monotonic() < deadline_s
        fill(live.database, 1)
    assert feed._count == 0


def slow_reader(live: Live) -> socket.socket:
    """A watch whose connection holds next to nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", live.port))
    connection.sendall(b"GET /v1/watch?since=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return connection


def test_reader_that_does_not_keep_up_is_cut_off_with_a_last_word(small: Live) -> None:
    """What it is behind is not kept for it: it gets what was sent, an error, and the end."""
    small.service.feed.kept_events = 50
    with slow_reader(small) as connection, small.watch("?since=0") as quick:
        assert connection.recv(12) == b"HTTP/1.1 200"
        for _ in range(60):
            fill(small.database, 50, "x" * 4_000)
            quick.take(50)
        assert small.service.feed._count <= 50 + feed_module.BATCH_EVENTS
        said = b"".join(iter(lambda: connection.recv(65_536), b""))
    ids = [int(line[4:]) for line in said.split(b"\n") if line.startswith(b"id: ")]
    assert ids == list(range(1, len(ids) + 1))
    assert 0 < len(ids) < 3_000
    assert said.count(b"event: error\n") == 1
    assert b"too-slow" in said.rpartition(b"event: error")[2]
    assert said.endswith(b"0\r\n\r\n")


def test_reader_that_takes_nothing_at_all_is_cut_off(
    small: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "STALL_S", 0.1)
    with slow_reader(small) as connection, small.watch("?since=0") as quick:
        assert connection.recv(12) == b"HTTP/1.1 200"
        deadline_s = time.monotonic() + 20
        while small.service.feed.watchers == 2:
            assert time.monotonic() < deadline_s
            fill(small.database, 50, "x" * 4_000)
            quick.take(50)


def test_watchers_beyond_the_limit_are_turned_away(
    small: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "WATCHERS_MAX", 1)
    with small.watch() as watch:
        fill(small.database, 1)
        watch.take(1)
        assert small.refused("") == (503, "too-many-watchers")


def test_history_that_is_forgotten_while_it_is_read_ends_the_stream_with_a_word(
    small: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "BATCH_EVENTS", 10)
    fill(small.database, 100)
    read, calls = small.service.feed._read, list[int]()

    def late(after: int) -> list[feed_module.Batch]:
        calls.append(after)
        if len(calls) == 3:
            trim_history(small.database, keep=5, now_s=NOW_S)
        return read(after)

    monkeypatch.setattr(small.service.feed, "_read", late)
    with small.watch("?since=0") as watch:
        assert len(watch.kinds()) == 20
    assert watch.error is not None
    assert watch.error["status"] == 410


def fail_once(live: Live, monkeypatch: pytest.MonkeyPatch, what: str) -> threading.Event:
    """Let the feed's next read fail as when the database is away; set once it has."""
    monkeypatch.setattr(feed_module, "RETRY_S", 0.01)
    feed, failed = live.service.feed, threading.Event()
    read = getattr(feed, what)

    def broken(after: int) -> list[feed_module.Batch]:
        if not failed.is_set():
            failed.set()
            raise OSError("away")
        found: list[feed_module.Batch] = read(after)
        return found

    monkeypatch.setattr(feed, what, broken)
    return failed


def test_watch_outlives_a_failure_of_the_database(
    small: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small.watch("?since=0") as watch:
        # What was written before its reader began comes from the history.
        fill(small.database, 1)
        assert watch.take(1) == [1]
        failed = fail_once(small, monkeypatch, "_newest")
        fill(small.database, 4)
        until(failed)
        assert watch.take(4) == [2, 3, 4, 5]


def test_watch_of_history_outlives_a_failure_of_the_database(
    small: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is older than memory is read for one watcher alone; that read is tried again too."""
    fill(small.database, 5)
    failed = fail_once(small, monkeypatch, "_read")
    with small.watch("?since=0") as watch:
        assert watch.take(5) == [1, 2, 3, 4, 5]
    assert failed.is_set()


def test_job_that_changes_is_told_to_its_watchers(live: Live) -> None:
    """A commit of the leader reaches the watchers as any other write does."""
    load_cluster(live.database)
    with live.watch("?kind=job") as watch:
        job = submit_job(live.database, make_spec("a"), {"name": "a"}, now_s=NOW_S)[0]
        bind(live.database, job, ["n001", "n002"])
        events = watch.events()
        assert [next(events)["kind"] for _ in range(2)] == ["job.submitted", "job.bound"]
