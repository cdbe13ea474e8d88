"""Many watchers of one process while gangs pass through: each sees each change once, in order."""

import asyncio
import random
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.k8s.kubectl import Served, until

JOBS = "/apis/podyard.io/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
AT_ONCE = 30
PATIENCE_S = 1_000.0

EVENT = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{[^{]*"metadata":\{"name":"([^"]+)",'
    rb'.*?"resourceVersion":"([0-9]+)".*"status":\{"(?:state|phase)":"(\w+)"'
)


@dataclass
class Seen:
    """What one watcher was told.

    Attributes:
        events: (type, name, resourceVersion, state) in the order in which they came.
        states: The newest of each object.
        streams: Opened; a watcher that leaves comes back with the version it saw last.
    """

    events: list[tuple[str, str, int, str]] = field(default_factory=list)
    deleted: int = 0
    streams: int = 0
    states: dict[str, str] = field(default_factory=dict)


class Watcher:
    """Reads changes until it is told that it has them all.

    Args:
        leaves: Out of so many events, how many it leaves after; 0 = it stays.
    """

    def __init__(self, port: int, path: str, version: str, *, leaves: float, seed: int) -> None:
        self._port, self._path = port, path
        self._version = version
        self._leaves = leaves
        self._chance = random.Random(seed)
        self.seen = Seen()

    async def run(self, is_last: Callable[[Seen], bool]) -> Seen:
        while not is_last(self.seen):
            self.seen.streams += 1
            async with self._stream() as lines:
                async for line in lines:
                    self._take(line)
                    if is_last(self.seen) or self._chance.random() < self._leaves:
                        break
        return self.seen

    def _take(self, line: bytes) -> None:
        # Hundreds of thousands of lines; reading them as JSON would take most of the time.
        found = EVENT.match(line)
        assert found is not None, line[:500]
        kind, name, version, state = (text.decode() for text in found.groups())
        self._version = version
        self.seen.events.append((kind, name, int(version), state))
        self.seen.deleted += kind == "DELETED"
        self.seen.states[name] = state

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[AsyncIterator[bytes]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            query = f"?watch=true&resourceVersion={self._version}"
            head = f"GET {self._path}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            writer.write(head.encode())
            status = await reader.readline()
            assert b" 200 " in status, status + await reader.read(2_000)
            while (await reader.readline()).strip():
                continue
            yield _lines(reader)
        finally:
            writer.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a chunked answer."""
    rest = b""
    while True:
        size = int((await reader.readline()).strip(), 16)
        chunk = await reader.readexactly(size)
        await reader.readline()
        if not size:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


class Passing:
    """Gangs of two pods that are submitted, run, end and are deleted, some at a time.

    Args:
        told: Whether it was told that a gang has ended. Only then is it deleted: what happens
            within one read is told as one change, and how long a read takes depends on the machine.
    """

    def __init__(self, served: Served, count: int, told: Callable[[str], bool]) -> None:
        self._served = served
        self._count = count
        self._told = told
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._pass()
        except BaseException as error:  # told by the thread that waits
            self.error = error

    def _pass(self) -> None:
        submitted = deleted = 0
        with ThreadPoolExecutor(8) as pool:
            while deleted < self._count:
                end = min(self._count, deleted + AT_ONCE)
                list(pool.map(self._submit, range(submitted, end)))
                submitted = max(submitted, end)
                list(pool.map(self._report, self._items("/v1/pods?limit=1000")))
                ended = self._items("/v1/jobs?state=succeeded&limit=1000")
                deleted += sum(pool.map(self._delete, ended))

    def _items(self, path: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self._served.call("GET", path)[1]["items"]
        return found

    def _delete(self, job: dict[str, object]) -> bool:
        if not self._told(str(job["name"])):
            return False
        return self._served.call("DELETE", f"{JOBS}/{job['name']}")[0] == 200

    def _submit(self, number: int) -> None:
        manifest = {
            "apiVersion": "podyard.io/v1",
            "kind": "Job",
            "metadata": {"name": f"g{number}"},
            "spec": {"roles": [{"name": "w", "replicas": 2, "gpus": 1}]},
        }
        status, told = self._served.call("POST", JOBS, manifest)
        assert status == 201, told

    def _report(self, pod: dict[str, object]) -> None:
        following = {"bound": "running", "running": "succeeded"}.get(str(pod["state"]))
        if following is not None:
            path = f"/v1/namespaces/default/pods/{pod['name']}/status"
            body = {"attempt": pod["attempt"], "state": following}
            self._served.call("POST", path, body)


def memory_mb(process: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process is gone")


async def _watch(served: Served, watchers: int, gangs: int) -> list[Seen]:
    """Half watch jobs, half pods; a fifth of them leave and come back all the time."""
    found: list[asyncio.Task[Seen]] = []
    seen: list[Seen] = []
    for number in range(watchers):
        path, each = ((JOBS, 1), (PODS, 2))[number % 2]
        version = served.call("GET", path)[1]["metadata"]["resourceVersion"]
        leaves = 0.05 if number % 5 == 0 else 0.0
        watcher = Watcher(served.port, path, version, leaves=leaves, seed=number)
        seen.append(watcher.seen)
        wanted = gangs * each
        task = watcher.run(lambda seen, wanted=wanted: seen.deleted == wanted)  # type: ignore[misc]  # mypy does not infer defaults
        found.append(asyncio.ensure_future(task))

    def told(name: str) -> bool:
        pods = [seen[1].states.get(f"{name}-w-{index}") for index in range(2)]
        return seen[2].states.get(name) == "succeeded" and pods == ["Succeeded"] * 2

    passing = Passing(served, gangs, told)
    thread = threading.Thread(target=passing.run)
    thread.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return list(await asyncio.gather(*found))
    finally:
        await asyncio.to_thread(thread.join)
        assert passing.error is None, passing.error


def _check(seen: list[Seen], gangs: int) -> None:
    for one in seen:
        versions = [version for _, _, version, _ in one.events]
        assert versions == sorted(set(versions)), "a version came twice, or too late"
    for kind in (0, 1):
        first, *others = (one.events for one in seen[kind::2])
        assert all(other == first for other in others), "two watchers saw different histories"
        of_name: dict[str, list[tuple[str, str]]] = {}
        for event, name, _, state in first:
            of_name.setdefault(name, []).append((event, state))
        assert len(of_name) == gangs * (kind + 1)
        for told in of_name.values():
            assert [e for e, _ in told] == ["ADDED", *["MODIFIED"] * (len(told) - 2), "DELETED"]
            assert told[-2][1] in {"succeeded", "Succeeded"}


def _load(folder: Path, watchers: int, gangs: int) -> tuple[list[Seen], float, float]:
    with Served(folder) as served:
        assert served.process is not None
        before = memory_mb(served.process.pid)
        seen = asyncio.run(_watch(served, watchers, gangs))
        after = memory_mb(served.process.pid)
        until(lambda: served.call("GET", "/readyz")[0] == 200, "it still answers")
    return seen, before, after


@pytest.mark.timeout(400)
def test_200_watchers_see_each_change_of_100_gangs_once(tmp_path: Path) -> None:
    seen, _, _ = _load(tmp_path, 200, 100)
    _check(seen, 100)
    assert any(one.streams > 1 for one in seen)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_200_watchers_see_each_change_of_1000_gangs_once_in_bounded_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, before, after = _load(tmp_path, 200, 1_000)
    _check(seen, 1_000)
    told = sum(len(one.events) for one in seen)
    streams = sum(one.streams for one in seen)
    with capsys.disabled():
        sys.stdout.write(
            f"\n200 watchers, {streams} streams, {told} events; {before:.0f} -> {after:.0f} MB\n"
        )
    assert after - before < 150
