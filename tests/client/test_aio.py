"""The client for event loops does what the other one does."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from client.aio import AsyncClient
from client.errors import ApiError, InputError, Unreachable, WaitedInVain
from client.http import Client
from client.transport import Retry
from tests.client.fake_server import DROP, Answer, FakeServer, problem

JOB = {"namespace": "n", "name": "j", "state": "pending"}
NOT_ASYNC = {"close"}


@asynccontextmanager
async def opened(server: FakeServer) -> AsyncIterator[AsyncClient]:
    async def no_pause(_: float) -> None:
        await asyncio.sleep(0)

    async with AsyncClient(server.url, sleep=no_pause, retry=Retry(tries=3)) as client:
        yield client


def run(server: FakeServer, work: Callable[[AsyncClient], Awaitable[Any]]) -> Any:  # noqa: ANN401 - whatever the work gives
    async def go() -> Any:  # noqa: ANN401 - as above
        async with opened(server) as client:
            return await work(client)

    return asyncio.run(go())


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    assert public(Client) - public(AsyncClient) == set()
    for name in public(Client) - NOT_ASYNC - {"watch", "wait_job", "events"}:
        assert getattr(AsyncClient, name).__name__ == name


def test_submit_is_repeated_under_one_key(server: FakeServer) -> None:
    server.before = [problem(503, "busy"), DROP, Answer(JOB, 201)]
    assert run(server, lambda c: c.submit({"name": "j"})) == JOB
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)
    assert json.loads(server.requests[-1].body) == {"name": "j"}


def test_write_that_is_not_safe_twice_is_sent_once(server: FakeServer) -> None:
    server.before = [DROP]
    with pytest.raises(Unreachable):
        run(server, lambda c: c.cancel("n", "j"))
    assert len(server.requests) == 1


def test_refusals_and_wrong_names_are_the_same_errors(server: FakeServer) -> None:
    server.before = [problem(404, "there is no such job")]
    with pytest.raises(ApiError) as caught:
        run(server, lambda c: c.job("n", "j"))
    assert caught.value.status == 404
    with pytest.raises(InputError):
        run(server, lambda c: c.job("n", ".."))


def test_lists_are_read_page_by_page(server: FakeServer) -> None:
    server.page_items = 2
    server.lists["/v1/jobs"] = [JOB | {"name": f"j{n}"} for n in range(5)]

    async def names(client: AsyncClient) -> list[object]:
        pages = client.jobs(namespace="n")
        found: list[object] = [job.get("name") async for job in pages]
        assert pages.revision == 100
        assert len(await client.jobs().all()) == 5
        return found

    assert run(server, names) == ["j0", "j1", "j2", "j3", "j4"]
    assert len(server.requests) == 6


def test_method_of_several_requests_sends_each_once(server: FakeServer) -> None:
    server.lists["/v1/events"] = [{"revision": 7}]
    assert run(server, lambda c: c.next_event(6)) == {"revision": 7}
    assert run(server, lambda c: c.next_event(7)) is None
    assert len(server.requests) == 2


def test_wait_ends_with_the_job_or_in_vain(server: FakeServer) -> None:
    server.replies["GET", "/v1/namespaces/n/jobs/j"] = Answer(JOB)
    with pytest.raises(WaitedInVain):
        run(server, lambda c: c.wait_job("n", "j", timeout_s=0))
    server.replies["GET", "/v1/namespaces/n/jobs/j"] = Answer(JOB | {"state": "running"})
    done = run(server, lambda c: c.wait_job("n", "j", timeout_s=9, until="running"))
    assert done["state"] == "running"


def test_events_and_watch_come_once_and_in_order(server: FakeServer) -> None:
    server.lists["/v1/events"] = [{"revision": n} for n in range(1, 6)]

    async def both(client: AsyncClient) -> list[int]:
        seen = [event.get("revision", 0) async for event in client.events(since=2)]
        server.before = [
            Answer('id: 6\ndata: {"revision": 6}\n\n', content_type="text/event-stream"),
            DROP,
            Answer('id: 7\ndata: {"revision": 7}\n\n', content_type="text/event-stream"),
        ]
        async with aclosing(client.watch(since=5)) as events:
            async for event in events:
                seen.append(event.get("revision", 0))
                if seen[-1] == 7:
                    return seen
        return seen

    assert run(server, both) == [3, 4, 5, 6, 7]
    assert [r.headers.get("last-event-id") for r in server.requests[-3:]] == ["5", "6", "6"]


def test_many_requests_are_under_way_at_once(server: FakeServer) -> None:
    server.replies["GET", "/v1/namespaces/n/jobs/j"] = Answer(JOB)

    async def many(client: AsyncClient) -> list[object]:
        return list(await asyncio.gather(*(client.job("n", "j") for _ in range(20))))

    assert run(server, many) == [JOB] * 20


def test_readiness_is_a_yes_or_no(server: FakeServer) -> None:
    server.before = [Answer({}), problem(503, "no")]
    assert run(server, lambda c: c.is_ready()) is True
    assert run(server, lambda c: c.is_ready()) is False
