"""`yardctl watch` and `yardctl events -f`: what happens, as it does, over any disconnection."""

import json
import threading
from collections.abc import Iterator
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from api.http.example_polling import OVERVIEW
from client.cli.live import Screen
from client.cli.session import Globals, Session
from client.errors import ApiError, Unreachable
from client.http import Client
from client.shapes import Event, Job

HOSTILE = "\x1b[2J\u202eevil" + "x" * 230


def event(revision: int, message: str = "it runs") -> Event:
    return {
        "revision": revision,
        "at": "2026-01-01T12:00:00.000Z",
        "kind": "job.running",
        "subject": {"kind": "job", "namespace": "research", "name": "train", "uid": "u"},
        "message": message,
    }


class Yard(Client):
    """A service that is away at times.

    Attributes:
        streams: What each connection of a watch says, and how it ends.
        since: Where each began.
        hangs: After the last, nothing comes until this is set; None = the reader is interrupted.
    """

    def __init__(self, *streams: list[Event | Exception]) -> None:
        self.streams = list(streams)
        self.since: list[int | None] = []
        self.away = False
        self.hangs: threading.Event | None = None
        self.all_jobs: list[Job] = []

    def watch(self, *, since: int | None = None, **_: object) -> Iterator[Event]:  # type: ignore[override]  # filters do not matter here
        self.since.append(since)
        if not self.streams:
            if self.hangs is None:
                raise KeyboardInterrupt
            self.hangs.wait(10)
            return
        for said in self.streams.pop(0):
            if isinstance(said, Exception):
                raise said
            yield said

    def overview(self) -> dict[str, object]:
        if self.away:
            raise Unreachable("http://yard", "connection refused")
        return cast(dict[str, object], json.loads(json.dumps(OVERVIEW)))

    def jobs(self, **_: object) -> Any:  # noqa: ANN401 - a list is as good as pages of one
        return self.all_jobs


def screen_of(client: Client, width: int = 100, height: int = 30) -> Screen:
    session = Session(Globals(), lambda close: close)
    session.__dict__["client"] = client
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True)
    return Screen(session, console)


def text_of(screen: Screen) -> list[str]:
    """The picture as lines without colours."""
    plain = Console(file=StringIO(), width=screen._console.width, height=screen._console.height)
    with plain.capture() as capture:
        plain.print(screen.picture())
    return capture.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10)])
def test_picture_fits_the_terminal_and_shows_the_yard_jobs_and_events(
    width: int, height: int
) -> None:
    yard = Yard()
    yard.all_jobs = [
        {"namespace": "research", "name": f"train-{n}", "state": state, "revision": n}
        for n, state in enumerate(["running", "pending", "succeeded"] * 30)
    ]
    screen = screen_of(yard, width, height)
    screen.read()
    screen.seen.events.extend(event(n) for n in range(50))
    lines = text_of(screen)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "GPUs  [" in text
    assert "pending" in text
    assert "more" in text


def test_lost_connection_is_told_made_again_and_costs_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    yard = Yard(
        [event(5), event(6), Unreachable("http://yard", "connection reset")],
        [event(7), ApiError(410, "Gone")],
        [event(90)],
    )
    screen = screen_of(yard)
    monkeypatch.setattr(screen._over, "wait", lambda _: False)
    with pytest.raises(KeyboardInterrupt):
        screen.follow()
    assert yard.since == [None, 6, None, 90]
    assert [e["revision"] for e in screen.seen.events] == [5, 6, 7, 90]
    yard.away = True
    screen.read()
    assert any("connection refused; trying again" in line for line in text_of(screen))
    yard.away = False
    screen.read()
    assert not any("trying again" in line for line in text_of(screen))


def test_hostile_names_are_shown_harmlessly() -> None:
    yard = Yard()
    yard.all_jobs = [{"namespace": "n", "name": HOSTILE, "state": "pending", "revision": 1}]
    screen = screen_of(yard, 80, 24)
    screen.read()
    screen.seen.events.append(event(3, HOSTILE))
    text = "\n".join(text_of(screen))
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "evil" in text


def test_screen_is_left_as_it_was_when_interrupted() -> None:
    yard = Yard([event(5)])
    yard.hangs = threading.Event()
    screen = screen_of(yard)
    pictures = iter(range(3))

    def pause(_: float) -> None:
        if next(pictures) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        screen.run(pause)
    yard.hangs.set()
    written = cast(StringIO, screen._console.file).getvalue()
    assert written.count("\x1b[?1049h") == written.count("\x1b[?1049l") == 1
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    assert screen._over.is_set()
