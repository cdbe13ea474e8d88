"""`yardctl watch`: the cluster as it changes, on one screen that is kept current.

Two things run beside each other: a thread follows the events, over any disconnection, and the
screen is drawn anew whenever some came, at most so often. Without a terminal there is no screen to
keep: then it is the events, line by line.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from client.cli.columns import event_columns, job_columns
from client.cli.events import follow_events
from client.cli.options import AllNamespacesOption, NamespaceOption, OutputOption, ServerOption
from client.cli.session import Session, open_session
from client.cli.table import Column
from client.cli.text import clean, shown, state_colour
from client.cli.top import bar_text
from client.errors import ApiError, ClientError, Unreachable
from client.overview import Overview
from client.shapes import Event, Job

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

T = TypeVar("T")

EVENTS_KEPT = 100
GONE = 410
SOON_S = 0.5
"""Between two pictures at least, however much happens."""

LATE_S = 5.0
"""Between two pictures at most: waits and ages go on without an event."""

AGAIN_S = 1.0
HEAD_LINES = 7
"""Lines of a screen that are neither jobs nor events."""

_COLOURS = {"31": "red", "32": "green", "33": "yellow", "36": "cyan", "1": "bold", "2": "dim"}
_ENDED = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Seen:
    """What is on the screen; one thread writes events and trouble, the other draws.

    Attributes:
        trouble: Why what is shown may be old; "" while all is well.
    """

    overview: Overview | None = None
    jobs: Sequence[Job] = ()
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    revision: int | None = None
    trouble: str = ""


def watch(
    ctx: typer.Context,
    *,
    lines: Annotated[
        bool, typer.Option("--lines", help="Events line by line, also on a terminal.")
    ] = False,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    server: ServerOption = None,
) -> None:
    """Watch the cluster, its jobs and what happens, as it does; Ctrl-C ends it.

    A connection that is lost is made again, and no event is missed.
    """
    session = open_session(
        ctx, server=server, namespace=namespace, all_namespaces=all_namespaces, output=output
    )
    if lines or session.output is not None or not sys.stdout.isatty():
        follow_events(session, since=None, job=None)
        return
    Screen(session).run()


class Screen:
    """The live view of one session."""

    def __init__(self, session: Session, console: "Console | None" = None) -> None:
        from rich.console import Console

        self._session = session
        self._console = console or Console()
        self._news = threading.Event()
        self._over = threading.Event()
        self.seen = Seen()

    def run(self, pause: Callable[[float], object] | None = None) -> None:
        """Draw until interrupted; the terminal is afterwards as it was."""
        from rich.live import Live

        follower = threading.Thread(target=self.follow, name="yardctl-watch", daemon=True)
        follower.start()
        try:
            with Live(
                console=self._console, screen=True, auto_refresh=False, transient=True
            ) as live:
                while True:
                    self.read()
                    live.update(self.picture(), refresh=True)
                    (pause or self._wait)(LATE_S)
        finally:
            self._over.set()

    def _wait(self, longest_s: float) -> None:
        time.sleep(SOON_S)
        self._news.wait(longest_s)
        self._news.clear()

    def read(self) -> None:
        """Ask how things stand; a service that does not answer leaves what was known."""
        client, seen = self._session.client, self.seen
        try:
            seen.overview = cast(Overview, client.overview())
            jobs = list(client.jobs(namespace=self._session.list_namespace_or_all))
        except (Unreachable, ApiError) as error:
            seen.trouble = f"{error}; trying again"
            return
        seen.trouble = ""
        seen.jobs = sorted(jobs, key=_order)

    def follow(self) -> None:
        """Take in events until the screen is closed; after a lost connection go on behind."""
        seen = self.seen
        while not self._over.is_set():
            try:
                namespace = self._session.list_namespace_or_all
                for event in self._session.client.watch(since=seen.revision, namespace=namespace):
                    seen.revision = event.get("revision", seen.revision)
                    seen.events.append(event)
                    self._news.set()
                    if self._over.is_set():
                        return
            except ClientError as error:
                if isinstance(error, ApiError) and error.status == GONE:
                    # What happened meanwhile is no longer kept; what is there now is read anew.
                    seen.revision = None
                seen.trouble = f"{error}; trying again"
                self._news.set()
                self._over.wait(AGAIN_S)

    # -- the picture ------------------------------------------------------------------------------

    def picture(self) -> "RenderableType":
        """Everything, in as many lines as the terminal has."""
        from rich.console import Group

        room = max(4, self._console.height - HEAD_LINES)
        of_jobs = max(2, min(len(self.seen.jobs) + 1, room * 2 // 3))
        parts = [*self._head(), *self._jobs(of_jobs), *self._events(room - of_jobs)]
        return Group(*parts[: self._console.height - 1])

    def _head(self) -> "list[Text]":
        found = self.seen.overview
        trouble = [self._line(f"! {self.seen.trouble}", "bold red")] if self.seen.trouble else []
        if found is None:
            return [*trouble, self._line("asking ...", "dim")]
        gpus, nodes = found["gpus"], found["nodes"]
        cells = max(10, min(60, self._console.width - 50))
        aside = ", ".join(f"{n} {why}" for why, n in found["aside"].items())
        states = ", ".join(f"{n} {state}" for state, n in found["jobs"].items())
        name = found["cluster"] or self._session.client.server
        return [
            *trouble,
            self._line(f"{name}, revision {found['revision']}", "bold"),
            self._line(
                f"GPUs  {bar_text(gpus, cells)} {gpus['used']} used, {gpus['free']} free "
                f"of {gpus['total']}"
            ),
            self._line(
                f"Nodes {nodes['usable']} of {nodes['total']} usable, {nodes['free']} empty"
                + (f"; {aside}" if aside else "")
            ),
            self._line(f"Gangs {states or 'none'}"),
            self._line(""),
        ]

    def _jobs(self, room: int) -> "list[Text]":
        columns = [c for c in job_columns(with_namespace=True) if not c.wide]
        shown_jobs = self.seen.jobs[: room - 1]
        lines = self._table(columns, shown_jobs)
        if len(self.seen.jobs) > len(shown_jobs) and lines:
            left = len(self.seen.jobs) - len(shown_jobs) + 1
            lines = [*lines[:-1], self._line(f"and {left} more", "dim")]
        return lines

    def _events(self, room: int) -> "list[Text]":
        newest = list(self.seen.events)[-max(0, room - 2) :] if room > 2 else []
        return [self._line(""), *self._table(event_columns(), newest)] if newest else []

    def _table(self, columns: Sequence[Column[T]], items: Sequence[T]) -> "list[Text]":
        if not items:
            return []
        rows = [[shown(c.value(item)) for c in columns] for item in items]
        titles = [c.title for c in columns]
        widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
        headings = (t.ljust(w) for t, w in zip(titles, widths, strict=True))
        lines = [self._line("  ".join(headings), "dim")]
        for row in rows:
            line = self._line("")
            for text, width, column in zip(row, widths, columns, strict=True):
                colour = state_colour(text) if column.colour is not None else ""
                line.append(text.ljust(width + 2), style=_COLOURS.get(colour, ""))
            lines.append(line)
        return lines

    def _line(self, text: str, style: str = "") -> "Text":
        from rich.text import Text

        return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis", end="\n")


def _order(job: Job) -> tuple[bool, bool, int]:
    """Those that wait or are on the way first, ended ones last, the newest first in each."""
    state = job.get("state")
    return state in _ENDED, state == "running", -int(job.get("revision", 0))
