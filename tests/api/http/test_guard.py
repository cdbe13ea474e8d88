"""What is turned away before any route sees it."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Scope

from api.http.guard import BODY_BYTES_MAX, check_host, is_loopback_host
from scheduler.errors import SchedulerError
from tests.api.http.yard import Yard, problems

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:1"]
)
def test_names_of_this_machine_are_served(any_yard: Yard, host: str) -> None:
    assert any_yard.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "[::2]",
        "[",
        "a b",
    ],
)
def test_foreign_host_is_refused(any_yard: Yard, host: str) -> None:
    answer = any_yard.client.get("/v1/jobs", headers={"Host": host})
    assert "localhost" in problems(answer, 421)["Host"]


@pytest.mark.parametrize("hosts", [[], [""], ["localhost", "localhost"], ["localhost", "evil"]])
def test_host_is_required_once(hosts: list[str]) -> None:
    with pytest.raises(SchedulerError, match="Host"):
        check_host(Headers(raw=[(b"host", host.encode()) for host in hosts]))


def test_user_part_does_not_make_a_host_local() -> None:
    assert not is_loopback_host("localhost@evil.example")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9"])
def test_page_of_another_site_is_refused(any_yard: Yard, origin: str) -> None:
    answer = any_yard.client.post("/v1/scheduler/pause", headers={"Origin": origin})
    assert list(problems(answer, 403)) == ["Origin"]


def test_own_page_is_served(any_yard: Yard) -> None:
    headers = {"Origin": "http://127.0.0.1:8080"}
    assert any_yard.client.get("/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/queues", "/v1/nodes/a1/cordon", "/nope"])
def test_body_that_says_it_is_too_large_is_refused_unread(any_yard: Yard, path: str) -> None:
    found = send(any_yard, "POST", path, length=50_000_000, chunks=never_read())
    assert found.status == 413


def test_body_that_does_not_say_so_is_cut_off(any_yard: Yard) -> None:
    """50 MB in pieces of 1 MB: refused once the limit is passed, the rest is never asked for."""
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        for index in range(50):
            read.append(index)
            yield b" " * 1_000_000

    found = send(any_yard, "POST", "/v1/jobs", length=None, chunks=pieces())
    assert found.status == 413
    assert f"at most {BODY_BYTES_MAX} bytes" in found.text
    assert len(read) == 5


def test_inventory_may_be_larger_but_not_endless(any_yard: Yard) -> None:
    found = send(any_yard, "POST", "/v1/inventory", length=65 * 1024 * 1024, chunks=never_read())
    assert found.status == 413
    kind = {"Content-Type": "application/yaml"}
    body = b"# " + b"x" * BODY_BYTES_MAX + b"\nnodes: 1\n"
    assert any_yard.client.post("/v1/inventory", content=body, headers=kind).status_code == 422


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 30, "\u0661"])
def test_length_that_is_no_number_is_refused(any_yard: Yard, length: str) -> None:
    assert send(any_yard, "POST", "/v1/jobs", length=length, chunks=never_read()).status == 400


class Found:
    """What an app sent."""

    def __init__(self) -> None:
        self.status = 0
        self.text = ""

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()


def never_read() -> Iterator[bytes]:
    yield from (pytest.fail("the body was read") for _ in range(1))


def send(
    yard: Yard, method: str, path: str, *, length: int | str | None, chunks: Iterator[bytes]
) -> Found:
    """A request whose body comes piece by piece, as a server would hand it on."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", str(length).encode("utf-8")))
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }

    async def receive() -> Message:
        chunk = next(chunks, None)
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    found = Found()
    asyncio.run(_run(yard, scope, receive, found))
    return found


async def _run(yard: Yard, scope: Scope, receive: object, found: Found) -> None:
    await yard.app(scope, receive, found.send)  # type: ignore[arg-type]  # a plain coroutine
