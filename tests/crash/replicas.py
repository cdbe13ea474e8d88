"""Several services on one database, each through a door of its own; and those who ask them."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.checks import FINAL, Seen
from tests.crash.doors import Doors
from tests.crash.service import Service, Warm, until

PATIENCE_S = 2.0
"""Of a client, before it asks another replica."""

AVOIDED_S = 1.0
"""How long a replica that did not answer is asked nothing, as a load balancer would do."""


class Replicas:
    """`podyard serve --role all` several times, behind what plays a load balancer.

    Attributes:
        services: One of each.
        doors: Number *n* leads from service *n* to the database.
    """

    def __init__(self, database_url: str, folder: Path, number: int = 3) -> None:
        self._stack = ExitStack()
        self.doors = self._stack.enter_context(Doors(database_url, number))
        log = folder / "replicas.log"
        warm = self._stack.enter_context(closing(Warm(log)))
        self.services = [
            self._stack.enter_context(Service(url, log, patience_s=PATIENCE_S, warm=warm))
            for url in self.doors.urls
        ]
        self.stopped: set[int] = set()
        self._turn = count()
        self._avoided: dict[int, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self.stopped):
            self.resume(number)
        self._stack.close()

    def start(self) -> None:
        for service in self.services:
            service.start()
        for service in self.services:
            service.until_ready()

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        """One request to the next replica; status 0 where there was no answer."""
        number = self.next()
        status, found = self.services[number].call(method, path, body, **headers)
        if status == 0:
            self.avoid(number)
        return status, found

    def next(self) -> int:
        """Whose turn it is."""
        now = time.monotonic()
        for _ in self.services:
            number = next(self._turn) % len(self.services)
            if self._avoided.get(number, 0.0) < now:
                return number
        return next(self._turn) % len(self.services)

    def avoid(self, number: int, for_s: float = AVOIDED_S) -> None:
        """Ask a replica nothing for a moment."""
        self._avoided[number] = time.monotonic() + for_s

    def ready(self) -> list[int]:
        """Those that say so."""
        up = [n for n, s in enumerate(self.services) if s.process and n not in self.stopped]
        return [n for n in up if self.services[n].call("GET", "/readyz")[0] == 200]

    def stop(self, number: int) -> None:
        """SIGSTOP: it does nothing, and holds what it has."""
        self.stopped.add(number)
        os.kill(self.services[number].process, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self.stopped.discard(number)
        os.kill(self.services[number].process, signal.SIGCONT)

    def holder(self, number: int) -> str:
        """What a replica is called where leaders are."""
        return f"{socket.gethostname()}:{self.services[number].process}"


@dataclass(slots=True)
class _Thread:
    """A loop in a thread that ends when told to, and hands on what it ran into."""

    name: str
    _ends: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failure: BaseException | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                self._step()
        except BaseException as error:
            self._failure = error

    def _step(self) -> None:
        raise NotImplementedError


class Prober(_Thread):
    """Submits a job of one GPU on nodes that only it uses, sees it placed, and deletes it.

    So there is always something to be placed at once, whatever else waits.

    Attributes:
        seen: What it was told.
        placed: How many it has seen placed.
    """

    def __init__(self, replicas: Replicas, name: str) -> None:
        super().__init__(name)
        self.seen = Seen()
        self.placed = 0
        self._replicas = replicas
        self._number = 0

    def _step(self) -> None:
        self._number += 1
        key = f"{self.name}-{self._number}"
        path = f"/v1/namespaces/default/jobs/{key}"
        body = {
            "name": key,
            "roles": [{"name": "p", "replicas": 1, "gpus": 1}],
            "tolerations": [{"key": "probe", "operator": "Exists"}],
            "labels": {},
            "nodes": list(PROBED),
        }
        job = self._until("POST", "/v1/jobs", {200, 201}, body, Idempotency_Key=key)
        uid = str(job["uid"])
        self.seen.jobs.add(uid)
        self.seen.keys[key].add(uid)
        while job["state"] == "pending" and not self._ends.is_set():
            job = self._until("GET", f"{path}?wait=bound&timeout_s=1", {200})
        self.placed += job["state"] != "pending"
        gone = self._until("DELETE", path, {200, 404})
        if gone.get("state") in FINAL:
            self.seen.ended[uid] = str(gone["state"])

    def _until(
        self, method: str, path: str, wanted: set[int], body: object = None, **headers: str
    ) -> dict[str, object]:
        """Ask until there is one of these answers; only what may be asked twice is asked here."""
        while True:
            status, found = self._replicas.call(method, path, body, **headers)
            if status in wanted:
                return found
            assert status in {0, 503}, (status, method, path, found)
            self._ends.wait(0.02)


PROBED = ("n009", "n010")
"""Nodes with a taint that only probes tolerate."""


class Watcher(_Thread):
    """Watches at one replica until that ends or says nothing, then goes on at another.

    Attributes:
        events: Revision, kind and uid of each event as it came.
        streams: How many it has begun.
    """

    def __init__(self, replicas: Replicas, name: str, since: int, switch_s: float) -> None:
        super().__init__(name)
        self.events: list[tuple[int, str, str]] = []
        self.streams = 0
        self.at = since
        self._replicas = replicas
        self._switch_s = switch_s

    def _step(self) -> None:
        number = self._replicas.next()
        port = self._replicas.services[number].port
        began = time.monotonic()
        with suppress(OSError):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stream:
                self.streams += 1
                path = f"/v1/watch?since={self.at}"
                stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                self._read(stream, began)
            return
        self._replicas.avoid(number)

    def _read(self, stream: socket.socket, began: float) -> None:
        text = b""
        while not self._ends.is_set() and time.monotonic() - began < self._switch_s:
            data = stream.recv(1 << 16)
            if not data:
                self._ends.wait(0.02)
                return
            text += data
            # Chunks of HTTP hold whole events: their sizes stand on lines of their own.
            *whole, text = text.split(b"\n\n")
            for part in whole:
                self._take(part)

    def _take(self, part: bytes) -> None:
        for line in part.splitlines():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "revision" not in event:  # why a stream ends
                    continue
                self.events.append((event["revision"], event["kind"], event["subject"]["uid"]))
                self.at = event["revision"]


def until_caught_up(watchers: list[Watcher], revision: int) -> None:
    """All of them have seen everything up to there."""
    until(lambda: all(w.at >= revision for w in watchers), "watchers have seen it all")
