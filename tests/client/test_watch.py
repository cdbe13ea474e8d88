"""`get jobs -w`: jobs again, each time they change."""

import json
from collections.abc import Callable, Iterator

import pytest

from client.cli.watch import changed_jobs
from client.http import Client
from client.shapes import Job
from tests.client.fake_server import FakeServer
from tests.client.golden_text import Yardctl
from tests.client.sample import make_job


class Enough(Exception):
    """Ends a watch that would go on for ever."""


def played(steps: Iterator[None]) -> Callable[[], None]:
    """A pause that plays the next step instead of waiting."""

    def pause() -> None:
        if next(steps, Enough) is Enough:
            raise Enough

    return pause


def test_watch_gives_all_jobs_and_then_those_that_changed(server: FakeServer) -> None:
    jobs: list[Job] = [make_job("a", revision=1), make_job("b", revision=2)]
    server.lists["/v1/jobs"] = []
    reads: list[int] = []

    def steps() -> Iterator[None]:
        yield  # nothing happens
        server.revision += 1
        jobs[1] = make_job("b", revision=3, state="succeeded")
        yield
        server.revision += 1  # something else than jobs changes
        yield
        server.revision += 1
        jobs.append(make_job("c", revision=4))
        yield

    def read() -> list[Job]:
        reads.append(server.revision)
        return list(jobs)

    seen: list[list[str | None]] = []

    def watch(client: Client) -> None:
        for changed in changed_jobs(client, read, played(steps())):
            seen.append([job.get("name") for job in changed])

    with Client(server.url) as client, pytest.raises(Enough):
        watch(client)
    assert seen == [["a", "b"], ["b"], ["c"]]
    assert reads == [100, 101, 102, 103]


def run_until(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], None]
) -> None:
    """Let the next watch see these changes, one at each pause, and then be interrupted."""
    left = iter(changes)

    def pause(seconds: float) -> None:
        change = next(left, None)
        if change is None:
            raise KeyboardInterrupt
        change()
        server.revision += 1

    monkeypatch.setattr("client.cli.watch.time.sleep", pause)


def test_watched_jobs_are_written_below_one_heading(
    server: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = server.lists["/v1/jobs"] = [make_job("a", revision=1), make_job("b", revision=2)]
    run_until(
        server,
        monkeypatch,
        lambda: jobs.__setitem__(0, make_job("a", revision=3, state="failed", running=0)),
    )
    result = yardctl("get", "jobs", "-n", "research", "-w")
    assert result.exit_code == 130
    assert [line.split()[:3] for line in result.stdout.splitlines()] == [
        ["NAME", "STATE", "PODS"],
        ["a", "running", "16/16"],
        ["b", "running", "16/16"],
        ["a", "failed", "0/16"],
    ]


def test_watched_job_is_shown_once_more_when_it_leaves_the_state(
    server: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = server.lists["/v1/jobs"] = [make_job("a", revision=1, state="bound")]
    run_until(server, monkeypatch, lambda: jobs.__setitem__(0, make_job("a", revision=3)))
    result = yardctl("get", "jobs", "-A", "-w", "--state", "bound", "-o", "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [job["state"] for job in lines] == ["bound", "running"]


def test_watch_of_names_leaves_others_out(
    server: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lists["/v1/jobs"] = [make_job("a"), make_job("b")]
    run_until(server, monkeypatch)
    result = yardctl("get", "jobs", "research/b", "-w", "-o", "name")
    assert result.stdout == "job/research/b\n"
