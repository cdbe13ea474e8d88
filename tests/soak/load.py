"""A service under a steady load, looked at from outside: memory, latency, sizes of tables."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from api.store.engine import Database
from api.store.schema import open_database
from api.store.tables import metadata
from benchmarks.load import Connection
from tests.soak.flat import Sample

PAUSE_S = 1.0
"""Between samples."""

PLAIN = 5
"""Of the simplest requests, before each sample."""

BATCH = 12
"""Gangs that come and go between two samples."""


@dataclass(slots=True)
class Seen:
    """What was sampled.

    Attributes:
        memory_mb: Resident, of the service.
        latency: From one submit until its answer that it is bound, in times of what the simplest
            answer took just before: so it does not grow with what else the machine does.
        cpu_ms: Processor time of the service for each gang.
        rows: Of each table.
        gangs: That came and went.
    """

    memory_mb: list[Sample] = field(default_factory=list)
    latency: list[Sample] = field(default_factory=list)
    cpu_ms: list[Sample] = field(default_factory=list)
    rows: dict[str, list[Sample]] = field(default_factory=dict)
    gangs: int = 0

    def series(self) -> Iterator[tuple[str, list[Sample]]]:
        """Every series by its name."""
        yield "memory", self.memory_mb
        yield "latency", self.latency
        yield "processor time", self.cpu_ms
        for table, samples in sorted(self.rows.items()):
            yield f"rows of {table}", samples


async def soak(port: int, pid: int, url: str, minutes: float) -> Seen:
    """Load a service and sample it for so long."""
    seen, connection, number = Seen(), Connection(port), 0
    over: list[str] = []
    began, spent_s = time.monotonic(), cpu_s(pid)
    with closing(open_database(url)) as database:
        while (at := time.monotonic() - began) < minutes * 60:
            names = [f"gang-{number}-{index}" for index in range(BATCH)]
            number += 1
            await _batch(connection, names, over)
            over = [*names, f"one-{number}"]
            plain_s = await _plain_s(connection)
            seen.latency.append((at, await _latency_s(connection, over[-1]) / plain_s))
            seen.gangs += len(over)
            seen.cpu_ms.append((at, (cpu_s(pid) - spent_s) * 1e3 / len(over)))
            spent_s = cpu_s(pid)
            seen.memory_mb.append((at, memory_mb(pid)))
            for table, count in count_rows(database).items():
                seen.rows.setdefault(table, []).append((at, count))
            rest_s = began + at + PAUSE_S - time.monotonic()
            await asyncio.sleep(max(0.0, rest_s))
    connection.close()
    return seen


async def _batch(connection: Connection, names: list[str], over: list[str]) -> None:
    """Gangs that come, and those that go."""
    jobs = [
        {"name": name, "parallelism": {"tp": 8, "dp": 1 + n % 3}} for n, name in enumerate(names)
    ]
    body = {"jobs": jobs, "delete": [f"default/{name}" for name in over]}
    status, answer = await connection.send(("POST", "/v1/jobs:batch", json.dumps(body).encode()))
    found = json.loads(answer)
    assert status == 200, found
    assert not [i for i in found["items"] + found["deleted"] if "errors" in i], found


async def _plain_s(connection: Connection) -> float:
    """Seconds of the simplest answer: the middle of a few."""
    taken = []
    for _ in range(PLAIN):
        began = time.perf_counter()
        await connection.send(("GET", "/healthz", b""))
        taken.append(time.perf_counter() - began)
    return median(taken)


async def _latency_s(connection: Connection, name: str) -> float:
    body = json.dumps({"name": name, "parallelism": {"tp": 4}, "priority": 9}).encode()
    began = time.perf_counter()
    request = ("POST", "/v1/jobs?wait=bound&timeout_s=60", body)
    status, answer = await connection.send(request)
    assert (status, json.loads(answer)["state"]) == (201, "bound"), answer
    return time.perf_counter() - began


def cpu_s(pid: int) -> float:
    """Processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def count_rows(database: Database) -> dict[str, int]:
    """Rows of each table."""
    with database.read() as connection:
        return {
            table.name: connection.execute(
                sa.select(sa.func.count()).select_from(table)
            ).scalar_one()
            for table in metadata.sorted_tables
        }
