"""The client's watch: one stream over many connections."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import pytest

from client.errors import ApiError, BadAnswer, Unreachable
from client.http import Client
from client.transport import Retry
from client.watching import Said, parse
from tests.client.fake_server import DROP, Answer, FakeServer, problem

SSE = "text/event-stream"


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.url, sleep=lambda _: None, retry=Retry(tries=3)) as opened:
        yield opened


def text(*revisions: int) -> str:
    return "".join(f"id: {n}\ndata: {json.dumps({'revision': n})}\n\n" for n in revisions)


def streams(server: FakeServer, *answers: Answer | str) -> None:
    server.before = [a if isinstance(a, Answer) else Answer(a, content_type=SSE) for a in answers]


def take(client: Client, count: int, since: int | None = 0) -> list[int]:
    with closing(client.watch(since=since)) as events:
        return [event.get("revision", 0) for event in islice(events, count)]


def resumed(server: FakeServer) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in server.requests]


def test_watch_goes_on_after_the_last_event_of_a_stream_that_ended(
    server: FakeServer, client: Client
) -> None:
    streams(server, "retry: 1000\n: revision 0\n\n" + text(1, 2), text(3), text(4, 5))
    assert take(client, 5) == [1, 2, 3, 4, 5]
    assert resumed(server) == ["0", "2", "3"]


def test_event_that_was_cut_comes_with_the_next_stream(server: FakeServer, client: Client) -> None:
    streams(server, text(1) + "id: 2\ndata: {", text(2))
    assert take(client, 2) == [1, 2]
    assert resumed(server) == ["0", "1"]


def test_watch_from_now_on_remembers_where_that_was(server: FakeServer, client: Client) -> None:
    streams(server, ": revision 41\n\n", text(42))
    assert take(client, 1, since=None) == [42]
    assert resumed(server) == [None, "41"]


def test_filtered_watch_moves_on_with_the_heartbeats(server: FakeServer, client: Client) -> None:
    streams(server, text(3) + ": revision 3\n\n: revision 90\n\n", text(91))
    with closing(
        client.watch(since=0, kinds=["job", "pod.reported"], namespace="ns", job="a")
    ) as events:
        assert [event.get("revision") for event in islice(events, 2)] == [3, 91]
    assert resumed(server) == ["0", "90"]
    assert dict(server.requests[0].query) == {
        "since": "0",
        "kind": "job,pod.reported",
        "namespace": "ns",
        "job": "a",
    }


def test_watch_outlives_lost_connections_and_a_busy_service(
    server: FakeServer, client: Client
) -> None:
    streams(server, DROP, text(1), problem(503, "busy"), DROP, text(2))
    assert take(client, 2) == [1, 2]
    assert resumed(server) == ["0", "0", "1", "1", "1"]


def test_watch_gives_up_after_all_tries_without_a_word(server: FakeServer, client: Client) -> None:
    streams(server, DROP, DROP, DROP)
    with pytest.raises(Unreachable):
        take(client, 1)
    streams(server, *[problem(503, "busy")] * 3)
    with pytest.raises(ApiError, match="busy"):
        take(client, 1)


def test_reader_that_was_too_slow_comes_back(server: FakeServer, client: Client) -> None:
    error = 'event: error\ndata: {"status": 503, "title": "slow"}\n\n'
    streams(server, text(1) + error, text(2))
    assert take(client, 2) == [1, 2]
    assert resumed(server) == ["0", "1"]


@pytest.mark.parametrize("status", [400, 410])
def test_watch_ends_where_the_service_cannot_go_on(
    server: FakeServer, client: Client, status: int
) -> None:
    streams(server, problem(status, "no"))
    with pytest.raises(ApiError) as caught:
        take(client, 1)
    assert caught.value.status == status
    streams(server, text(1) + f'event: error\ndata: {{"status": {status}, "title": "no"}}\n\n')
    with pytest.raises(ApiError) as caught:
        take(client, 2)
    assert caught.value.status == status


@pytest.mark.parametrize("said", ["id: x\ndata: {}\n\n", "data: {}\n\n", "id: 1\ndata: []\n\n"])
def test_stream_of_something_else_is_a_bad_answer(
    server: FakeServer, client: Client, said: str
) -> None:
    streams(server, said)
    with pytest.raises(BadAnswer):
        take(client, 1)


def test_error_without_a_document_is_an_error_all_the_same(
    server: FakeServer, client: Client
) -> None:
    streams(server, "event: error\ndata: ?\n\n")
    with pytest.raises(ApiError) as caught:
        take(client, 1)
    assert caught.value.status == 500


def test_comments_and_blank_lines_are_no_events() -> None:
    lines = [": hello", "", "", ": revision x", "retry: 5", ": revision 7", "", "id: 1"]
    assert list(parse(lines)) == [Said(7)]


def test_batch_sends_both_lists_under_one_key(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs:batch"] = Answer({"items": [{"status": 201}], "deleted": []})
    server.before = [DROP]
    assert client.batch([{"name": "a"}], delete=["ns/b"])["items"] == [{"status": 201}]
    first, second = server.requests
    assert first.json() == second.json() == {"jobs": [{"name": "a"}], "delete": ["ns/b"]}
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_change_is_repeated_unless_it_asks_for_a_revision(
    server: FakeServer, client: Client
) -> None:
    path = "/v1/namespaces/ns/jobs/a"
    server.replies["PATCH", path] = Answer({"name": "a", "priority": 2})
    server.before = [DROP]
    assert client.change_job("ns", "a", {"priority": 2}).get("priority") == 2
    assert [request.json() for request in server.requests] == [{"priority": 2}] * 2
    server.before = [DROP]
    with pytest.raises(Unreachable):
        client.change_job("ns", "a", {"priority": 2}, revision=7)
    assert server.requests[-1].json() == {"priority": 2, "revision": 7}
