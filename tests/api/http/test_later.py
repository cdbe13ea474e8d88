"""What most calls are answered by is made once the service has decided, and calls wait for it."""

import asyncio
import threading
from typing import cast

import pytest
from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from api.http import later as module
from api.http.later import Later, Rest, Until

PATIENCE_S = 30.0
SCOPE: Scope = {"type": "http", "path": "/x"}


class Hand:
    """A worker that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")


class Maker:
    """Makes a rest that answers "rest"; fails as often as it is to."""

    def __init__(self, failures: int = 0) -> None:
        self.count = 0
        self.failures = failures
        self.made = threading.Event()
        self.hand = Hand()

    def __call__(self) -> Rest:
        self.count += 1
        if self.count <= self.failures:
            raise MemoryError
        self.made.set()
        return Rest(
            Response("rest"),
            cast("FastAPI", None),
            lambda _method, _path: None,
            lambda _error: Response(),
            (self.hand,),
        )


async def body_of(app: ASGIApp) -> bytes:
    """What a call is answered."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(SCOPE, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


def test_calls_wait_for_the_first_decision() -> None:
    async def played() -> None:
        first, make = threading.Event(), Maker()
        later = Later(make)
        later.start(first, works=False)
        calls = [asyncio.create_task(body_of(later)) for _ in range(60)]
        done, _ = await asyncio.wait(calls, timeout=0.1)
        assert not done
        assert make.count == 0
        # Who goes away meanwhile takes nobody along.
        calls.pop().cancel()
        first.set()
        assert await asyncio.gather(*calls) == [b"rest"] * 59
        assert make.count == 1

    asyncio.run(asyncio.wait_for(played(), PATIENCE_S))


def test_without_a_start_it_is_made_at_the_first_call() -> None:
    make = Maker()
    assert asyncio.run(body_of(Later(make))) == b"rest"
    assert make.count == 1


def test_where_nobody_decides_it_is_made_at_once() -> None:
    make = Maker()
    Later(make).start(None, works=False)
    assert make.made.wait(PATIENCE_S)


def test_a_decision_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATEST_S", 0.0)
    make = Maker()
    Later(make).start(threading.Event(), works=False)
    assert make.made.wait(PATIENCE_S)


def test_a_call_that_comes_after_a_failure_tries_again() -> None:
    async def played() -> None:
        later = Later(Maker(failures=2))
        later.start(None, works=False)
        with pytest.raises(MemoryError):
            await body_of(later)
        assert await body_of(later) == b"rest"

    asyncio.run(asyncio.wait_for(played(), PATIENCE_S))


@pytest.mark.parametrize("is_before", [True, False])
def test_workers_run_from_when_it_is_made_until_the_end(is_before: bool) -> None:
    make = Maker()
    later = Later(make)
    if is_before:
        later.rest()
        assert make.hand.told == []
    later.start(None, works=True)
    later.rest()
    assert make.hand.told == ["start"]
    later.stop()
    later.rest()
    assert make.hand.told == ["start", "stop"]


def test_workers_of_a_process_that_never_leads_do_not_run() -> None:
    make = Maker()
    later = Later(make)
    later.start(None, works=False)
    later.rest()
    later.stop()
    assert make.hand.told == []


def test_nothing_is_made_or_begun_after_the_end() -> None:
    first, make = threading.Event(), Maker()
    later = Later(make)
    later.start(first, works=True)
    later.stop()
    first.set()
    asyncio.run(later.wait())  # by a call that came before the end
    assert make.hand.told == []


def test_layers_that_would_make_it_in_the_loop_wait_as_well() -> None:
    async def played() -> None:
        first, make = threading.Event(), Maker()
        later = Later(make)
        later.start(first, works=False)
        own, other = (
            Until(Response("layer"), later=later, is_concerned=concerned.__eq__)
            for concerned in ("/x", "/y")
        )
        assert await body_of(other) == b"layer"
        assert make.count == 0
        first.set()
        assert await body_of(own) == b"layer"
        assert make.count == 1

    asyncio.run(asyncio.wait_for(played(), PATIENCE_S))
