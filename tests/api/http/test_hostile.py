"""Clients that mean harm, on real connections: slow, endless, malformed, very many of them."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from api.http import feed
from api.http.connection import HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX, Limits
from api.store.schema import migrate, open_database
from tests.api.http.hostile import Bounded
from tests.client.waiting import until

QUICK = Limits(connections=40, head_s=0.4, body_s=0.4, write_s=0.4)
CALM = Limits(connections=60, head_s=60.0, body_s=60.0, write_s=60.0)

JSON = "Content-Type: application/json"


def served(folder: Path, limits: Limits) -> Iterator[Bounded]:
    url = f"sqlite:///{folder / 'podyard.db'}"
    migrate(url)
    with closing(open_database(url)) as database, Bounded(database, limits) as made:
        yield made


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bounded]:
    """A service of little patience."""
    yield from served(tmp_path_factory.mktemp("quick"), QUICK)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bounded]:
    """One that waits long."""
    yield from served(tmp_path_factory.mktemp("calm"), CALM)


def is_well(service: Bounded) -> bool:
    with service.client() as client:
        return client.ask("GET /healthz").status == 200


def test_connection_that_says_nothing_is_closed(quick: Bounded) -> None:
    with quick.client() as client:
        assert client.answer().status == 0


def test_headers_that_trickle_in_are_not_waited_for(quick: Bounded) -> None:
    with quick.client() as client:
        client.send(client.head("GET /v1/jobs", "X-A: 1", ended=False))
        answer = client.answer()
    assert answer.status == 408
    assert "headers were not all sent within 0.4 s" in answer.told()
    assert answer.headers["connection"] == "close"


def test_each_byte_of_a_header_does_not_begin_the_time_anew(quick: Bounded) -> None:
    with quick.client() as client:
        client.send(client.head("GET /v1/jobs", ended=False))
        until(lambda: not client.is_taken(b"X-A: 1\r\n"))
    assert is_well(quick)


@pytest.mark.parametrize("header", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_body_that_does_not_come_is_not_waited_for(quick: Bounded, header: str) -> None:
    with quick.client() as client:
        client.send(client.head("POST /v1/jobs", JSON, header) + b'5\r\n{"nam')
        answer = client.answer()
    assert answer.status == 408
    assert "body was not all sent within" in answer.told()


def test_second_request_of_a_connection_has_its_own_time(quick: Bounded) -> None:
    with quick.client() as client:
        client.send(client.head("GET /healthz"))
        assert client.sock.recv(12) == b"HTTP/1.1 200"
        client.send(client.head("GET /v1/jobs", ended=False))
        assert b"headers were not all sent within 0.4 s" in client.rest()


def test_answer_that_takes_its_time_is_not_cut(quick: Bounded) -> None:
    """The request was sent at once; a stream of events may last as long as it was asked for."""
    with quick.client() as client:
        answer = client.ask("GET /v1/watch?timeout_s=2")
    assert answer.status == 200
    assert answer.body.endswith(b"0\r\n\r\n")
    assert b"408" not in answer.body


def test_body_of_a_request_that_is_answered_late_is_not_cut(quick: Bounded) -> None:
    """Two requests in one piece, the first of which takes longer than a client may."""
    with quick.client() as client:
        one = client.head("GET /v1/watch?timeout_s=1", "X-A: a")
        two = client.head("GET /healthz", "Connection: close")
        client.send(one + two)
        said = client.rest()
    assert said.count(b"HTTP/1.1 200") == 2
    assert b"408" not in said


def test_client_that_reads_nothing_is_hung_up_on(quick: Bounded) -> None:
    with quick.client() as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one = client.head("GET /openapi.json")
        until(lambda: quick.open_connections() == 1)
        client.send(one * 60)
        until(lambda: quick.open_connections() == 0)
    assert is_well(quick)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([f"X-{n}: a" for n in range(HEADERS_MAX + 50)], 431),
        (["X-A: " + "a" * HEAD_BYTES_MAX], 431),
        ([f"X-{n}: " + "a" * 1_000 for n in range(100)], 431),
        ([f"X-{n}: a" for n in range(HEADERS_MAX - 10)], 200),
    ],
)
def test_flood_of_headers_is_refused(calm: Bounded, headers: list[str], status: int) -> None:
    with calm.client() as client:
        answer = client.ask("GET /healthz", *headers)
    assert answer.status == status
    if status == 431:
        assert f"at most {HEADERS_MAX} headers and {HEAD_BYTES_MAX} bytes" in answer.told()


def test_header_without_an_end_is_not_kept(calm: Bounded) -> None:
    """It is refused long before a second passes the network."""
    with calm.client() as client:
        client.send(client.head("GET /healthz", ended=False) + b"X-A: ")
        until(lambda: not client.is_taken(b"a" * 65_536))
    assert is_well(calm)


def test_trailers_and_chunks_that_are_mostly_framing_are_refused(calm: Bounded) -> None:
    for content in (
        b"0\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(500)) + b"\r\n",
        b"1;" + b"a" * 3_000_000 + b"\r\na\r\n0\r\n\r\n",
    ):
        with calm.client() as client:
            start = client.head("POST /v1/scheduler/pause", "Transfer-Encoding: chunked")
            try:
                client.send(start)
                client.send(content)
            except ConnectionError:
                continue  # hung up on before all was sent
            assert client.answer().status in {400, 431, 0}
    assert is_well(calm)


@pytest.mark.parametrize(
    ("line", "statuses"),
    [
        ("GET /v1/../etc/passwd", {404}),
        ("GET /v1/%2e%2e/%2e%2e/etc/passwd", {404}),
        ("GET /..%2f..%2fetc%2fpasswd", {404}),
        ("GET //v1/jobs", {404}),
        ("GET /v1//jobs", {404}),
        ("GET /v1/jobs/", {404}),
        ("GET /v1/namespaces/default/jobs/%00", {404, 422}),
        ("GET /v1/namespaces/default/jobs/a%00b", {404, 422}),
        ("GET /v1/namespaces/default/jobs/%ff%fe", {404, 422}),
        ("GET /v1/nodes/%0d%0aSet-Cookie:%20a", {404, 422}),
        ("GET /v1/nodes/..%5c..%5c", {404, 422}),
        ("GET /static/..%2f..%2fmain.py", {404}),
        ("GET /assets/%2e%2e/page.py", {404}),
        ("GET http://evil.example/v1/jobs", {200, 404, 421}),
        ("GET /v1/nodes/" + "a" * 10_000, {404, 422}),
        ("GET /" + "a" * TARGET_BYTES_MAX, {414}),
        ("GET /v1/jobs?limit=1&" + "a=b&" * TARGET_BYTES_MAX, {414, 431}),
        ("GET *", {400, 404}),
        ("OPTIONS *", {400, 404, 405}),
        ("CONNECT evil.example:443", {400, 404, 405}),
        ("TRACE /v1/jobs", {400, 405}),
        ("BREW /v1/jobs", {400}),
        ("GET v1/jobs", {400}),
        ("GET /v1/jobs?\x00", {400}),
        ("GET /\xff\xfe", {400, 404}),
        ("", {400}),
    ],
)
def test_odd_path_is_answered_and_harms_nothing(
    calm: Bounded, line: str, statuses: set[int]
) -> None:
    with calm.client() as client:
        assert client.ask(line).status in statuses
    assert is_well(calm)


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(calm: Bounded, content: bytes) -> None:
    """Two lengths and the like are how one request is hidden in another from a proxy."""
    with calm.client() as client:
        client.send(content)
        client.sock.shutdown(socket.SHUT_WR)
        assert client.answer().status in {400, 0}
    assert is_well(calm)


def test_more_connections_than_allowed_are_told_to_come_back(calm: Bounded) -> None:
    with ExitStack() as open_:
        for _ in range(CALM.connections):
            open_.enter_context(calm.client())
        until(lambda: calm.open_connections() >= CALM.connections)
        with calm.client() as client:
            answer = client.answer()
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert f"{CALM.connections} connections are open" in answer.told()
    until(lambda: calm.open_connections() == 0)
    assert is_well(calm)


def test_more_watches_than_there_is_room_for_are_told_to_come_back(
    calm: Bounded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "WATCHERS_MAX", 5)
    with ExitStack() as open_:
        for _ in range(5):
            client = open_.enter_context(calm.client())
            client.send(client.head("GET /v1/watch"))
            assert client.sock.recv(12) == b"HTTP/1.1 200"
        with calm.client() as client:
            answer = client.ask("GET /v1/watch")
        assert answer.status == 503
        assert "at most 5 may" in answer.told()
        assert "retry-after" in answer.headers
        assert is_well(calm)
    until(lambda: calm.open_connections() == 0)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"name": "a", "name": "b", "roles": []}',
        b'{"name": "a", "priority": NaN}',
        b'{"name": "a", "priority": Infinity}',
        b'{"name": "a", "priority": 1e400}',
        b'{"name": "a", "priority": ' + b"9" * 5_000 + b"}",
        b'{"name": "\\ud800"}',
        b'{"name": "\xed\xa0\x80"}',
        b'{"name": "a\\u0000b"}',
        b"\xff\xfe{\x00}\x00",
        b"\x1f\x8b\x08\x00",
        b"\xef\xbb\xbf{}",
        b"null",
        b"",
    ],
)
@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/jobs:batch", "/v1/queues", "/v1/whatif", "/v1/nodes/a/heartbeat"]
)
def test_body_that_is_no_good_json_is_refused(calm: Bounded, path: str, body: bytes) -> None:
    with calm.client() as client:
        answer = client.ask(f"POST {path}", JSON, body=body or b" ")
    assert 400 <= answer.status < 500
    assert json.loads(answer.body)["errors"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/apis/podyard.io/v1/namespaces/default/jobs"])
def test_packed_body_is_not_unpacked(calm: Bounded, path: str) -> None:
    """A thousand bytes may stand for a million: no encoding is taken."""
    import gzip

    body = gzip.compress(b'{"name": "a", "x": "' + b"a" * 10_000_000 + b'"}')
    with calm.client() as client:
        answer = client.ask(f"POST {path}", JSON, "Content-Encoding: gzip", body=body)
    assert answer.status in {400, 415}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Origin: https://evil.example"], 403),
        (["Origin: null"], 403),
        ([], 415),
    ],
)
def test_form_of_a_foreign_page_is_refused(calm: Bounded, headers: list[str], status: int) -> None:
    """A page may send a form or plain text to loopback without asking; neither is taken."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        with calm.client() as client:
            body = b'{"name": "a", "roles": [{"name": "w", "replicas": 1, "gpus": 1}]}'
            answer = client.ask("POST /v1/jobs", f"Content-Type: {kind}", *headers, body=body)
        assert answer.status == status


def test_name_that_leads_to_loopback_is_not_served(calm: Bounded) -> None:
    with calm.client() as client:
        client.send(b"GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert client.answer().status == 421
