"""Doors to a database that can be shut: sessions go through them, cut or silenced at will.

The process of its own reads a command a line, `open N`, `cut N` or `hole N`, and answers `done`.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from types import TracebackType
from typing import Self, cast
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict


class Doors:
    """Ways to one database, each with an address of its own.

    Attributes:
        urls: Of the database, through each door.
    """

    def __init__(self, database_url: str, count: int) -> None:
        parts = {key: str(value) for key, value in conninfo_to_dict(database_url).items()}
        command = [sys.executable, "-m", "tests.crash.doors", parts.get("host", "127.0.0.1")]
        self._process = subprocess.Popen(
            [*command, parts.get("port", "5432"), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        who = quote(parts.get("user", "postgres"))
        if "password" in parts:
            who = f"{who}:{quote(parts['password'])}"
        plain = "sslmode=disable&gssencmode=disable"
        self.urls = [
            f"postgresql://{who}@127.0.0.1:{port}/{parts['dbname']}?{plain}"
            for port in json.loads(self._process.stdout.readline())
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def open(self, number: int) -> None:
        """Let everybody through, also what was kept back."""
        self._tell("open", number)

    def cut(self, number: int) -> None:
        """End all sessions of a door, and let nobody in."""
        self._tell("cut", number)

    def hole(self, number: int) -> None:
        """Carry nothing more, without a word to either side."""
        self._tell("hole", number)

    def _tell(self, word: str, number: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word} {number}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


class Pipe(asyncio.Protocol):
    """One direction of a session: what comes here goes to the other side."""

    def __init__(self, door: "Door", *, is_near: bool = False) -> None:
        self.door = door
        self.is_near = is_near
        self.other: Pipe | None = None
        self.transport: asyncio.Transport | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.door.pipes.add(self)
        if self.door.state == "hole":
            self.transport.pause_reading()
        if self.is_near:
            self.door.arrive(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.door.pipes.discard(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Door:
    """One address."""

    def __init__(self, host: str, port: str) -> None:
        self._host, self._port = host, port
        self.state = "open"
        self.pipes: set[Pipe] = set()
        self._carries = asyncio.Event()
        self._carries.set()
        self._joining: set[asyncio.Task[None]] = set()

    def near(self) -> Pipe:
        """The side of whoever comes."""
        return Pipe(self, is_near=True)

    def arrive(self, pipe: Pipe) -> None:
        task = asyncio.get_running_loop().create_task(self._join(pipe))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, pipe: Pipe) -> None:
        """Go on to the database for somebody who has come."""
        await self._carries.wait()
        assert pipe.transport is not None
        if self.state == "cut":
            pipe.transport.abort()
            return
        loop, far = asyncio.get_running_loop(), Pipe(self)
        with contextlib.suppress(OSError):
            if self._host.startswith("/"):
                path = f"{self._host}/.s.PGSQL.{self._port}"
                await loop.create_unix_connection(lambda: far, path)
            else:
                await loop.create_connection(lambda: far, self._host, int(self._port))
            pipe.other, far.other = far, pipe
            assert far.transport is not None
            far.transport.write(pipe.early)
            return
        pipe.transport.abort()

    def set(self, state: str) -> None:
        self.state = state
        if state == "hole":
            self._carries.clear()
        else:
            self._carries.set()
        for pipe in list(self.pipes):
            if pipe.transport is None:
                continue
            if state == "cut":
                pipe.transport.abort()
            elif state == "hole" and pipe.transport.is_reading():
                pipe.transport.pause_reading()
            elif state == "open" and not pipe.transport.is_reading():
                pipe.transport.resume_reading()


async def _serve(host: str, port: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    doors = [Door(host, port) for _ in range(count)]
    servers = [await loop.create_server(door.near, "127.0.0.1", 0) for door in doors]
    _say(json.dumps([server.sockets[0].getsockname()[1] for server in servers]))
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, number = line.split()
        doors[int(number)].set(word)
        _say("done")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
