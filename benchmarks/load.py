"""A load of HTTP requests over kept connections, cheap enough to share two cores."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Request = tuple[str, str, bytes]
"""(method, path with query, JSON body)."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: its status, its body and how long it took from when it was due."""

    status: int
    body: bytes
    seconds: float


KEPT_S = 2.0
"""A connection idle for longer is opened anew: servers close theirs after 5 seconds or so."""


class Connection:
    """One kept HTTP/1.1 connection; one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used_s = 0.0

    async def send(self, request: Request) -> tuple[int, bytes]:
        """The status and body of one request."""
        if self._streams is None or time.perf_counter() - self._used_s > KEPT_S:
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        method, path, body = request
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        answer = await reader.readexactly(int(headers["content-length"]))
        self._used_s = time.perf_counter()
        return int(lines[0].split()[1]), answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def closed_loop(
    port: int, clients: int, seconds: float, make: Callable[[int], Request]
) -> list[Answered]:
    """Each client sends its next request when the last was answered."""
    number = 0
    ends = time.perf_counter() + seconds
    out: list[Answered] = []

    async def client() -> None:
        nonlocal number
        connection = Connection(port)
        while time.perf_counter() < ends:
            number += 1
            request = make(number)
            began = time.perf_counter()
            status, body = await connection.send(request)
            out.append(Answered(status, body, time.perf_counter() - began))
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return out


async def open_loop(
    port: int, per_s: float, seconds: float, make: Callable[[int], Request], spare: int = 64
) -> list[Answered]:
    """Requests leave on time, answered or not; latency counts from when they were due."""
    idle: list[Connection] = [Connection(port) for _ in range(spare)]
    out: list[Answered] = []

    async def one(number: int, due: float) -> None:
        connection = idle.pop() if idle else Connection(port)
        status, body = await connection.send(make(number))
        out.append(Answered(status, body, time.perf_counter() - due))
        idle.append(connection)

    began = time.perf_counter()
    tasks = []
    for number in range(int(per_s * seconds)):
        due = began + number / per_s
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    for connection in idle:
        connection.close()
    return out


def statuses(answers: Sequence[Answered]) -> dict[int, int]:
    """How often each status was answered."""
    out: dict[int, int] = {}
    for answer in answers:
        out[answer.status] = out.get(answer.status, 0) + 1
    return dict(sorted(out.items()))


def job_request(number: int, prefix: str, nodes: int, query: str = "") -> Request:
    """A submit of a gang of whole nodes."""
    body = {"name": f"{prefix}-{number}", "parallelism": {"tp": 8, "dp": nodes}, "priority": 0}
    return "POST", f"/v1/jobs{query}", json.dumps(body).encode()
