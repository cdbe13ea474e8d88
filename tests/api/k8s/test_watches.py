"""Watches: what a stream begins with, what it tells of, where it can be taken up."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from api.k8s import mirror
from api.k8s.changes import Line
from api.k8s.meta import SPAN, list_version
from api.k8s.registry import registry
from api.store.engine import Database
from api.store.events import trim_history
from api.store.look import look_at
from scheduler.model.queue import QueueRecord
from tests.api.http.contract import Contract
from tests.api.http.live import Live
from tests.api.http.yard import Yard
from tests.api.k8s.asking import JOBS, MERGE, PODS, Obj, job, ok, pod

TIMEOUT_S = 20.0


@pytest.fixture
def live(yard: Yard) -> Iterator[Live]:
    """The same database as the yard's, served on a port."""
    yard.load()
    with Live(yard.database) as served:
        yield served


@contextmanager
def watching(live: Live, path: str, accept: str = "application/json") -> Iterator[Iterator[Obj]]:
    request = urllib.request.Request(live.url + path, headers={"Accept": accept})
    with closing(urllib.request.urlopen(request, timeout=TIMEOUT_S)) as answer:
        yield (json.loads(line) for line in answer)


def told(event: Obj) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def now(yard: Yard, path: str = JOBS) -> str:
    version: str = ok(yard, "GET", path)["metadata"]["resourceVersion"]
    return version


def test_watch_tells_of_a_job_from_its_making_to_its_end(yard: Yard, live: Live) -> None:
    with watching(live, f"{JOBS}?watch=true&resourceVersion={now(yard)}") as events:
        ok(yard, "POST", JOBS, job("a"))
        assert told(next(events)) == ("ADDED", "a")
        ok(yard, "PATCH", f"{JOBS}/a", {"spec": {"priority": 3}}, kind=MERGE)
        changed = next(events)
        assert told(changed) == ("MODIFIED", "a")
        assert changed["object"] == ok(yard, "GET", f"{JOBS}/a")
        ok(yard, "DELETE", f"{JOBS}/a")
        assert told(next(events)) == ("DELETED", "a")


def test_watch_without_a_version_begins_with_what_is_there(yard: Yard, live: Live) -> None:
    ok(yard, "POST", JOBS, job("a"))
    ok(yard, "POST", JOBS, job("b"))
    for version in ("", "&resourceVersion=0"):
        query = f"{JOBS}?watch=true{version}&fieldSelector=metadata.name%3Db"
        with watching(live, query) as events:
            assert told(next(events)) == ("ADDED", "b")
            ok(yard, "PATCH", f"{JOBS}/a", {"spec": {"priority": len(version)}}, kind=MERGE)
            ok(yard, "PATCH", f"{JOBS}/b", {"spec": {"priority": len(version) + 1}}, kind=MERGE)
            assert told(next(events)) == ("MODIFIED", "b")


def test_initial_events_end_with_a_bookmark_that_says_so(yard: Yard, live: Live) -> None:
    ok(yard, "POST", JOBS, job("a"))
    query = (
        "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true&timeoutSeconds=1"
    )
    with watching(live, JOBS + query) as events:
        first, mark, last = events
    assert told(first) == ("ADDED", "a")
    assert mark["type"] == last["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(last["object"]["metadata"]["resourceVersion"]) >= int(now(yard))


def test_namespace_comes_with_its_first_job(yard: Yard, live: Live) -> None:
    """It has no revision of its own; that of the job's submission is the version that is told."""
    at = "/api/v1/namespaces"
    with watching(live, f"{at}?watch=true&resourceVersion={now(yard, at)}") as events:
        yard.submit("a", namespace="default", parallelism={"tp": 8})
        yard.submit("b", namespace="team", parallelism={"tp": 8})
        event = next(events)
    assert told(event) == ("ADDED", "team")
    version = event["object"]["metadata"]["resourceVersion"]
    yard.submit("c", namespace="other", parallelism={"tp": 8})
    with watching(live, f"{at}?watch=true&resourceVersion={version}") as events:
        assert told(next(events)) == ("ADDED", "other")


def test_watch_ends_by_itself_after_its_time(yard: Yard, live: Live) -> None:
    with watching(live, f"{JOBS}?watch=true&timeoutSeconds=1") as events:
        assert list(events) == []


def test_object_that_no_longer_fits_a_selector_is_told_of_as_deleted(
    yard: Yard, live: Live
) -> None:
    ok(yard, "POST", JOBS, job("a", {"x": "1"}, parallelism={"tp": 8}))
    query = f"{JOBS}?watch=true&labelSelector=x%3D1&resourceVersion={now(yard)}"
    with watching(live, query) as events:
        for value, kind in (("2", "DELETED"), ("1", "ADDED")):
            patch = {"metadata": {"labels": {"x": value}}}
            version = ok(yard, "PATCH", f"{JOBS}/a", patch, kind=MERGE)["metadata"]
            event = next(events)
            assert told(event) == (kind, "a")
            assert event["object"]["metadata"]["resourceVersion"] == version["resourceVersion"]
            assert event["object"]["metadata"]["labels"] == {"x": "1"}


def test_queues_that_are_gone_are_remembered_as_long_as_changes_tell_of_them(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "KEPT_CHANGES", 3)
    followed = mirror.Mirror(yard.database, asyncio.Event())
    for number in range(9, 0, -1):
        queues = {name: QueueRecord(name) for name in ("default", f"q{number}")}
        followed.follow_queues(queues)
    followed.follow_queues({"default": QueueRecord("default")})
    assert set(followed.queues) == {"default", "q1", "q2", "q3"}


def test_table_is_told_row_by_row(yard: Yard, live: Live) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with watching(live, f"{JOBS}?watch=true&resourceVersion={now(yard)}", accept) as events:
        ok(yard, "POST", JOBS, job("a"))
        event = next(events)
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][0] == "a"


def test_watch_can_be_taken_up_between_two_pods_of_one_gang(yard: Yard, live: Live) -> None:
    """Both pods were bound at one revision; who saw the first is told of the second alone."""
    start = now(yard, PODS)
    with watching(live, f"{PODS}?watch=true&resourceVersion={start}") as events:
        ok(yard, "POST", JOBS, job("a"))
        yard.cycle()
        first, second = next(events), next(events)
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in (first, second)]
    assert versions[0] < versions[1]
    assert versions[0] // SPAN == versions[1] // SPAN
    with watching(live, f"{PODS}?watch=true&resourceVersion={versions[0]}") as events:
        assert next(events) == second
        yard.report_all("running")
        after = [next(events), next(events)]
    assert [event["type"] for event in after] == ["MODIFIED", "MODIFIED"]


def test_pod_of_a_new_attempt_is_another_object(yard: Yard, live: Live) -> None:
    ok(yard, "POST", PODS, pod("lone"))
    yard.cycle()
    yard.report_all("running")
    with watching(live, f"{PODS}?watch=true&resourceVersion={now(yard, PODS)}") as events:
        yard.ok("POST", "/v1/namespaces/default/jobs/lone/requeue", {})
        yard.cycle()
        report = {"attempt": 1, "state": "stopped"}
        yard.ok("POST", "/v1/namespaces/default/pods/lone-pod-0/status", report)
        yard.cycle(2)
        seen = [next(events)]
        while seen[-1]["type"] != "ADDED":
            seen.append(next(events))
    uids = [event["object"]["metadata"]["uid"] for event in seen]
    assert [e["type"] for e in seen][-2:] == ["DELETED", "ADDED"]
    assert uids[-1] != uids[-2]


def test_watch_from_before_the_service_began_misses_nothing(
    database: Database, contract: Contract
) -> None:
    with Yard(database, contract) as yard:
        yard.load()
        start = now(yard)
        for name in ("a", "b"):
            ok(yard, "POST", JOBS, job(name))
        ok(yard, "PATCH", f"{JOBS}/a", {"spec": {"priority": 3}}, kind=MERGE)
        with (
            Live(database) as live,
            watching(live, f"{JOBS}?watch=true&resourceVersion={start}") as events,
        ):
            missed = [next(events) for _ in range(3)]
            assert list(map(told, missed)) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a")]
            ok(yard, "PATCH", f"{JOBS}/b", {"spec": {"priority": 4}}, kind=MERGE)
            assert told(next(events)) == ("MODIFIED", "b")
            # Who leaves anywhere in what was missed comes back to the rest of it.
            for number, event in enumerate(missed):
                version = event["object"]["metadata"]["resourceVersion"]
                with watching(live, f"{JOBS}?watch=true&resourceVersion={version}") as again:
                    rest = [next(again) for _ in missed[number + 1 :]]
                    assert rest == missed[number + 1 :]
                    assert told(next(again)) == ("MODIFIED", "b")


def refused(live: Live, path: str) -> Obj:
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(live.url + path, timeout=TIMEOUT_S).close()
    with closing(error.value):
        found: Obj = json.load(error.value)
    return found


def test_watch_from_what_is_no_longer_known_is_expired(yard: Yard, live: Live) -> None:
    ok(yard, "POST", JOBS, job("a"))
    start = now(yard)
    ok(yard, "DELETE", f"{JOBS}/a")
    yard.submit("a")
    yard.ok("DELETE", "/v1/namespaces/default/jobs/a")
    yard.ok("DELETE", "/v1/namespaces/default/jobs/a")
    told_of = refused(live, f"{JOBS}?watch=true&resourceVersion={start}")
    assert (told_of["code"], told_of["reason"]) == (410, "Expired")
    trim_history(yard.database, keep=1, now_s=0.0)
    told_of = refused(live, f"{PODS}?watch=true&resourceVersion=1")
    assert (told_of["code"], told_of["reason"]) == (410, "Expired")


def test_stream_ends_when_the_service_does(yard: Yard, live: Live) -> None:
    with watching(live, f"{JOBS}?watch=true") as events:
        stopping = threading.Thread(target=live.stop)
        stopping.start()
        assert list(events) == []
        stopping.join()


def test_line_keeps_no_more_than_its_changes(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.k8s.changes.KEPT_CHANGES", 5)
    yard.load()
    handler = registry().find("podyard.io", "v1", "jobs")
    assert handler is not None
    with look_at(yard.database) as look:
        line = Line(handler, look)
    for number in range(9):
        yard.submit(f"j{number}", parallelism={"tp": 8})
        with look_at(yard.database) as look:
            line.follow(look, look.events(line.head, 100))
    assert len(line) == 5
    assert line.start < line.last < int(list_version(line.head))
    assert [c.obj["metadata"]["name"] for c in line.after(line.start, 9)] == [
        f"j{n}" for n in range(4, 9)
    ]
