"""What the agents of a large cluster cost the service while nothing happens.

`heartbeat_cores`: cores that the whole service would use for `nodes` that say every `every_s` what
they said before: CPU time of one such heartbeat, times their rate. Its floor is the same for the
plainest request that the service has.
`silence_look_ms`: one look at when all agents were heard; its floor is the same query through the
driver alone. The leader looks every `between_s`.
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from api.loop.silence import SilenceClock
from api.store.engine import Database
from api.store.leases import Leases
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from api.store.silence import heard_of
from api.store.tables import leases, nodes
from benchmarks import clusters, services
from benchmarks.harness import Options, Row, row, run
from benchmarks.load import Request, closed_loop, statuses
from scheduler.policy import Policy

ROWS = ("heartbeat_cores", "silence_look_ms")
EVERY_S = 10.0
LOOKS = 20
CLIENTS, PIECE_S = 8, 2.0
TICKS_PER_S = 100
QUERY = (
    "SELECT l.node, max(l.seen_at), n.health, n.health_since FROM leases l "
    "JOIN nodes n ON n.name = l.node GROUP BY l.node, n.health, n.health_since ORDER BY l.node"
)


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    count, agents, seconds = (200, 200, 1.0) if options.small else (10_000, 1_000, 8.0)
    with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
        url = f"sqlite:///{folder}/p.db"
        migrate(url)
        with closing(open_database(url)) as database:
            names = fill(database, count)
            if options.wants("silence_look_ms"):
                yield _looks(database, Path(folder, "p.db"), count)
            with database.write_quietly() as connection:
                connection.execute(sa.delete(leases).where(leases.c.node.in_(names[agents:])))
        if options.wants("heartbeat_cores"):
            yield _heartbeats(url, names[:agents], seconds, count)


def fill(database: Database, count: int) -> list[str]:
    """Nodes whose agents were heard just now."""
    now_s = time.time()
    inventory = clusters.inventory(count)
    inventory = replace(inventory, nodes=inventory.nodes[:count])
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=now_s)
    names = [node.name for node in inventory.nodes]
    with database.write_quietly() as connection:
        connection.execute(sa.update(nodes).values(has_agent=True))
        row_of = {"number": 1, "boot_id": "b", "started_at": now_s, "seen_at": now_s}
        rows = [{"node": name, "session": f"s-{name}"} | row_of for name in names]
        connection.execute(sa.insert(leases), rows)
    return names


def _looks(database: Database, path: Path, count: int) -> Row:
    book, clock, policy = Leases(database), SilenceClock(time.time()), Policy()
    look = clock.look(heard_of(book), policy, time.time())
    began = time.process_time()
    for _ in range(LOOKS):
        look = clock.look(heard_of(book), policy, time.time())
    value = (time.process_time() - began) / LOOKS * 1000
    with closing(sqlite3.connect(path)) as connection:
        began = time.process_time()
        for _ in range(LOOKS):
            connection.execute(QUERY).fetchall()
        floor = (time.process_time() - began) / LOOKS * 1000
    between_s = round(look.next_s - time.time())
    return row("silence_look_ms", value, "ms of CPU", floor, nodes=count, between_s=between_s)


def _heartbeats(url: str, names: list[str], seconds: float, count: int) -> Row:
    bodies = [_beat(name) for name in names]
    plain: list[Request] = [("GET", "/healthz", b"")]
    with services.started(url) as (port, process):
        # The first of each is looked up, as after a restart of the service.
        first = _cost(process, port, bodies, 0.0)
        value = _cost(process, port, bodies, seconds)
        floor = _cost(process, port, plain, seconds)
    per_s = count / EVERY_S
    return row(
        "heartbeat_cores",
        value * per_s,
        "cores",
        floor * per_s,
        nodes=count,
        every_s=EVERY_S,
        ms_each=round(value * 1000, 3),
        first_ms_each=round(first * 1000, 3),
    )


def _cost(process: int, port: int, requests: list[Request], seconds: float) -> float:
    """CPU seconds of the service for one request; each is sent once at least."""
    before, answered = _used_s(process), 0
    ends = time.perf_counter() + seconds
    while answered < len(requests) or time.perf_counter() < ends:
        piece = asyncio.run(
            closed_loop(port, CLIENTS, PIECE_S, lambda number: requests[number % len(requests)])
        )
        found = statuses(piece)
        if set(found) - {200}:
            raise SystemExit(f"not all were answered 200: {found}")
        answered += len(piece)
    return (_used_s(process) - before) / answered


def _beat(name: str) -> Request:
    body = {"session": f"s-{name}", "boot_id": "b", "pods": []}
    return "POST", f"/v1/nodes/{name}/heartbeat", json.dumps(body).encode()


def _used_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    sys.exit(run("heartbeats", measure, ROWS))
