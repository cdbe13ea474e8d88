"""What becomes of a job that was just submitted, on one line that is kept current."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from client.cli.columns import job_state
from client.cli.drawing import width_of_output
from client.cli.text import cell_count, clean, duration, note
from client.cli.verdict import without_aside
from client.errors import Unreachable, WaitedInVain
from client.shapes import Job

if TYPE_CHECKING:
    from client.http import Client, Until

LOOK_S = 1.0
"""So often the line is written anew."""

OVER = frozenset({"failed", "cancelled"})


class Line:
    """A line on standard error, rewritten in place on a terminal, else written when it changes."""

    def __init__(self, *, is_live: bool | None = None) -> None:
        self._is_live = sys.stderr.isatty() if is_live is None else is_live
        self._last = ""
        self._cells = 0

    def show(self, state: str, detail: str, waited_s: float) -> None:
        """Show how it stands."""
        if not self._is_live:
            if state != self._last:
                note(f"{state}{detail}")
            self._last = state
            return
        room = max(20, width_of_output() - 1)
        text = f"{state}, {duration(waited_s)}{detail}"
        while cell_count(text) > room:
            text = text[: -max(1, cell_count(text) - room)]
        sys.stderr.write("\r" + text + " " * max(0, self._cells - cell_count(text)))
        sys.stderr.flush()
        self._cells = cell_count(text)

    def end(self) -> None:
        """Leave the line as it is."""
        if self._is_live and self._cells:
            sys.stderr.write("\n")
            self._cells = 0


def follow(
    client: "Client",
    job: Job,
    *,
    until: "Until",
    timeout_s: float,
    line: Line | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Job:
    """Wait until a job is so far, telling meanwhile how it stands; a lost connection is waited for.

    Returns:
        The job, so far or ended.

    Raises:
        WaitedInVain: If it is not so far when the time is over.
    """
    namespace, name = job.get("namespace", ""), job.get("name", "")
    began_s, shown = clock(), line or Line()
    try:
        while True:
            left_s = timeout_s - (clock() - began_s)
            try:
                done = client.wait_job(
                    namespace, name, until=until, timeout_s=max(0.0, min(LOOK_S, left_s))
                )
            except WaitedInVain as error:
                if left_s <= LOOK_S:
                    raise WaitedInVain(error.job, until, timeout_s) from None
                shown.show(_state(error.job), _detail(error.job), clock() - began_s)
            except Unreachable as error:
                if left_s <= LOOK_S:
                    raise
                shown.show(f"job/{clean(namespace)}/{clean(name)}", f": {error}", clock() - began_s)
            else:
                shown.show(_state(done), _detail(done), clock() - began_s)
                return done
    finally:
        shown.end()


def _state(job: Job) -> str:
    return clean(f"job/{job.get('namespace')}/{job.get('name')} {job_state(job)}")


def _detail(job: Job) -> str:
    """Why it waits, where that is known; nodes set aside are for explain."""
    message = without_aside(job.get("message") or "")
    waits = job.get("state") in {"pending", "reserved"}
    return clean(f": {message}") if waits and message else ""
