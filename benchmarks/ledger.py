"""What it costs that the schema itself keeps the ledger of GPUs.

`trigger_cost_ratio` is the time to insert the pods of a plan with the triggers over the time
without them: its floor is 1. The statements are those of a commit.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import upsert_rows
from api.store.engine import Database
from api.store.jobs import submit_job
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from api.store.tables import pods
from benchmarks import clusters, services
from benchmarks.harness import Options, Row, row, run

ROWS = ("trigger_cost_ratio", "trigger_cost_ratio_sqlite")
NOW_S = 1_800_000_000.0
REPEATS = 5


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    if options.wants("trigger_cost_ratio"):
        with services.postgresql() as url:
            yield _measured(options, url, "")
    if options.wants("trigger_cost_ratio_sqlite"):
        with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
            yield _measured(options, f"sqlite:///{folder}/p.db", "_sqlite")


def _measured(options: Options, url: str, suffix: str) -> Row:
    nodes, batch = (256, 64) if options.small else (10_016, 1_000)
    migrate(url)
    with closing(open_database(url)) as database:
        inventory = clusters.inventory(nodes)
        import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
        job, _ = submit_job(database, clusters.gang(1), {}, now_s=NOW_S)
        with_triggers = insert_ms(database, job.uid, nodes, batch)
        without = insert_ms(database, job.uid, nodes, batch, triggers=False)
    return row(
        f"trigger_cost_ratio{suffix}",
        with_triggers / without,
        "ratio",
        1.0,
        nodes=nodes,
        pods_per_statement=batch,
        insert_ms=round(with_triggers, 3),
        without_ms=round(without, 3),
    )


def insert_ms(
    database: Database, job: str, nodes: int, batch: int, *, triggers: bool = True
) -> float:
    """Milliseconds of one statement, the best of a few; nothing of it is kept."""
    best = float("inf")
    for repeat in range(REPEATS):
        rows = [pod_row(job, (repeat * batch + n) % nodes, n) for n in range(batch)]
        with database.engine.execution_options(immediate=True).connect() as connection:
            if not triggers:
                drop_triggers(connection)
            began = time.perf_counter()
            upsert_rows(connection, pods, rows)
            best = min(best, time.perf_counter() - began)
            connection.rollback()
    return best * 1e3


def drop_triggers(connection: Connection) -> None:
    """Until the transaction is rolled back."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("ALTER TABLE pods DISABLE TRIGGER USER"))
        return
    names = sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'pods'")
    for name in connection.execute(names).scalars().all():
        connection.execute(sa.text(f"DROP TRIGGER {name}"))


def pod_row(job: str, node: int, index: int) -> dict[str, object]:
    """Every column of a pod that has a whole node."""
    return {
        "uid": f"{job}--{index}",
        "job_uid": job,
        "namespace": "default",
        "name": f"pod-{index}",
        "role": "",
        "role_index": 0,
        "pod_index": index,
        "node": f"n{node:06d}",
        "gpu_mask": clusters.H100_MASK,
        "gpus": clusters.H100.gpus,
        "first_rank": index * clusters.H100.gpus,
        "state": "bound",
        "attempt": 1,
        "exit_code": None,
        "cpu_milli": 0,
        "memory_mib": 0,
        "other": None,
        "revision": 1,
    }


if __name__ == "__main__":
    sys.exit(run("ledger", measure, ROWS))
