"""How long after kill -9 the service places again, process start and all.

The floor is what any service has to do in between: read the rows of the same jobs, pods and nodes
through the driver alone.
"""

import compileall
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import psycopg

from api.store.batch import run_batch
from api.store.commit import commit
from api.store.engine import Database
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from api.store.views import JobView, Submission
from benchmarks import clusters, services
from benchmarks.harness import Options, Row, row, run
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import JobSpec, ParallelSizes
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.plan import JobMove, Plan, PodRecord

ROWS = ("first_placement_s", "first_placement_s_sqlite")
NOW_S = 1_800_000_000.0
BATCH = 1_000
HALF = 0x0F
"""Each running job has half a node: a small one fits beside it, the pending ones do not."""
DEADLINE_S = 300.0

QUERIES = (
    "SELECT uid, state, age, reason, message, attempt, gpus_per_pod, node_type, broken, spec "
    "FROM jobs WHERE state NOT IN ('succeeded', 'failed', 'cancelled')",
    "SELECT uid, job_uid, name, role, pod_index, node, gpu_mask, first_rank, state, attempt, "
    "cpu_milli, memory_mib, other, exit_code FROM pods",
    "SELECT name, type, places, labels, taints, health, cordon_at, drain_at FROM nodes",
)


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    if options.wants("first_placement_s"):
        with services.postgresql() as url:
            yield _measured(options, url, "")
    if options.wants("first_placement_s_sqlite"):
        with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
            yield _measured(options, f"sqlite:///{folder}/p.db", "_sqlite")


def _measured(options: Options, url: str, suffix: str) -> Row:
    nodes, running, pending = (256, 240, 1_000) if options.small else (10_016, 10_000, 100_000)
    # As where it is installed: not every environment writes down what it compiled.
    for package in ("api", "client", "scheduler"):
        compileall.compile_dir(package, quiet=1)
    migrate(url)
    with closing(open_database(url)) as database:
        fill(database, nodes, running, pending)
    with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
        port = services.free_port()
        log = Path(folder, "log")
        with log.open("wb") as out:
            # Once to have verdicts written and free nodes filled, then again after the kill.
            first = serve(url, port, out)
            place(port, "before", log)
            kill(first)
            began = time.perf_counter()
            second = serve(url, port, out)
            place(port, "after", log)
            seconds = time.perf_counter() - began
            kill(second)
    said = {"nodes": nodes, "running": running, "pending": pending}
    return row(f"first_placement_s{suffix}", seconds, "s", raw_read_s(url), **said)


def fill(database: Database, nodes: int, running: int, pending: int) -> None:
    """The cluster, and its jobs as a service would have left them."""
    import_inventory(database, clusters.inventory(nodes), prune=False, dry_run=False, now_s=NOW_S)
    half = replace(JobSpec(name=""), parallelism=ParallelSizes(tp=4))
    for first in range(0, running, BATCH):
        numbers = range(first, min(first + BATCH, running))
        jobs = submit(database, [replace(half, name=f"running-{n}") for n in numbers])
        _run(database, jobs, first)
    kinds = [clusters.gang(size, kind) for size in (1, 2, 4, 8) for kind in range(3)]
    for first in range(0, pending, BATCH):
        numbers = range(first, min(first + BATCH, pending))
        submit(database, [replace(kinds[n % len(kinds)], name=f"pending-{n}") for n in numbers])


def submit(database: Database, specs: list[JobSpec]) -> list[JobView]:
    """Submit in one transaction."""
    wanted = [Submission(spec, {}) for spec in specs]
    done = run_batch(database, ends=(), submissions=wanted, now_s=NOW_S)
    return [answer[0] for answer in done.submitted if isinstance(answer, tuple)]


def _run(database: Database, jobs: list[JobView], first: int) -> None:
    """Bind each to half a node of its own and have it run."""
    revision = max(job.revision for job in jobs)
    for state in (JobState.BOUND, JobState.RUNNING):
        moves = tuple(
            JobMove(JobId(job.uid), state, None, "", 1, gpus_per_pod=4, node_type="hgx-h100")
            for job in jobs
        )
        pods = tuple(_pod(job, first + n, PodState(state)) for n, job in enumerate(jobs))
        revision = commit(database, Plan(revision, job_moves=moves, pods=pods), 0, NOW_S).revision


def _pod(job: JobView, node: int, state: PodState) -> PodRecord:
    return PodRecord(
        uid=PodId(f"{job.uid}--0"),
        job=JobId(job.uid),
        name=f"{job.name}-0",
        role="",
        index=0,
        node=NodeId(f"n{node:06d}"),
        gpu_mask=HALF,
        first_rank=0,
        state=state,
    )


def serve(url: str, port: int, out: BinaryIO) -> "subprocess.Popen[bytes]":
    """Begin a service; returns at once."""
    program = [sys.executable, "-m", "api.command", "serve"]
    arguments = ["--port", str(port), "--database-url", url]
    return subprocess.Popen([*program, *arguments], stdout=out, stderr=out)


def kill(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def place(port: int, name: str, log: Path) -> None:
    """Ask for one GPU, ahead of all, as soon as anybody listens; returns when it is bound."""
    body = json.dumps({"name": name, "parallelism": {"tp": 1}, "priority": 9}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/jobs?wait=bound&timeout_s=60",
        body,
        {"Content-Type": "application/json", "Idempotency-Key": name},
    )
    ends = time.monotonic() + DEADLINE_S
    while time.monotonic() < ends:
        with suppress(OSError), urllib.request.urlopen(request, timeout=90) as answer:  # noqa: S310 - our own URL
            if json.load(answer)["state"] == "bound":
                return
        time.sleep(0.005)
    raise SystemExit("not placed: " + log.read_text(errors="replace")[-2_000:])


def raw_read_s(url: str) -> float:
    """Seconds to read the same rows through the driver alone."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as lite:
            began = time.perf_counter()
            for query in QUERIES:
                lite.execute(query).fetchall()
            return time.perf_counter() - began
    with psycopg.connect(url) as connection:
        began = time.perf_counter()
        for query in QUERIES:
            connection.execute(query.encode()).fetchall()
        return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(run("restart", measure, ROWS))
