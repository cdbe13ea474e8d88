"""Many writers and many watchers that come and go: every watcher sees every revision once."""

import http.client
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from api.store.engine import Database
from api.store.events import current_revision
from api.store.schema import open_database
from tests.api.http.live import Live
from tests.api.test_command import serving

BLOCK = re.compile(rb"id: (\d+)\ndata: [^\n]+\n\n")

WRITERS = """
import sys, threading
from contextlib import closing
from api.store.schema import open_database
url, writers, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def write():
    with closing(open_database(url)) as database:
        left = each
        while left:
            with database.write(0.0) as tx:
                for _ in range(min(left, 1 + left % 3)):
                    tx.emit("test.happened", subject_kind="test", message="x" * 40)
                    left -= 1
threads = [threading.Thread(target=write) for _ in range(writers)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
"""Each with a connection and a gate of its own, so that only the database orders them."""


@dataclass
class Seen:
    """What one watcher saw.

    Attributes:
        last: Revision of its last whole event; all before it were seen in order, once.
        streams: Opened.
    """

    last: int = 0
    streams: int = 0


class Watcher:
    """Reads up to a revision, and at random moments leaves and comes back."""

    def __init__(self, port: int, end: int, seed: int) -> None:
        self._port, self._end = port, end
        self._chance = random.Random(seed)
        self.seen = Seen()

    def run(self) -> Seen:
        while self.seen.last < self._end:
            self.seen.streams += 1
            self._read(self.seen.last + self._chance.randint(1, self._end // 3))
        return self.seen

    def _read(self, leave_after: int) -> None:
        """One stream; what was read in part when it is left comes again with the next."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            headers = {"Last-Event-ID": str(self.seen.last)}
            connection.request("GET", "/v1/watch?since=0", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            rest = b""
            while self.seen.last < min(leave_after, self._end):
                chunk = answer.read1(65_536)
                assert chunk, rest
                assert b"event: error" not in chunk, chunk[-500:]
                rest = self._take(rest + chunk)

    def _take(self, text: bytes) -> bytes:
        whole = text.rpartition(b"\n\n")
        for found in BLOCK.finditer(whole[0] + whole[1]):
            revision = int(found[1])
            assert revision == self.seen.last + 1, f"{revision} after {self.seen.last}"
            self.seen.last = revision
        return whole[2]


@contextmanager
def writing(url: str, writers: int, each: int) -> Iterator[Callable[[], None]]:
    """So many threads of another process write; the value waits for the last of them."""
    command = [sys.executable, "-c", WRITERS, url, str(writers), str(each)]
    process = subprocess.Popen(command)

    def finish() -> None:
        assert process.wait(600) == 0

    try:
        yield finish
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def watch_all(port: int, watchers: int, end: int) -> list[Seen]:
    with ThreadPoolExecutor(watchers) as pool:
        return list(pool.map(lambda seed: Watcher(port, end, seed).run(), range(watchers)))


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_every_watcher_sees_every_revision_once_beside_many_writers(database: Database) -> None:
    """4 writers of another process, 150 events each; 8 watchers, each of several streams."""
    with Live(database) as live, writing(database.url, 4, 150) as finish:
        seen = watch_all(live.port, 8, 600)
        finish()
        assert [s.last for s in seen] == [600] * 8
        assert all(s.streams > 1 for s in seen)
        assert current_revision(database) == 600


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_fifty_watchers_see_a_hundred_thousand_events_of_sixteen_writers_once(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    end = 100_000
    with (
        serving("--database-url", database_url, "--role", "api") as service,
        writing(database_url, 16, end // 16) as finish,
    ):
        began_s = time.monotonic()
        written = threading.Thread(target=finish)
        written.start()
        seen = watch_all(service.port, 50, end)
        seconds = time.monotonic() - began_s
        written.join()
        assert service.end()[0] == 0
    with closing(open_database(database_url)) as database:
        assert current_revision(database) == end
    assert [s.last for s in seen] == [end] * 50
    with capsys.disabled():
        streams = sum(s.streams for s in seen)
        sys.stdout.write(
            f"\n{end} events of 16 writers to 50 watchers in {streams} streams: {seconds:.1f} s, "
            f"{end / seconds:.0f} events/s written, {50 * end / seconds:.0f} events/s delivered\n"
        )
