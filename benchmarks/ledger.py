"""What it costs that the schema itself keeps the ledger of GPUs.

`trigger_cost_ratio` is the time to insert the pods of a plan with the triggers over the time
without them: its floor is 1. `claims_cost_ratio` is the same for the triggers alone that keep pods
off what other gangs have claimed, beside as many claims. The statements are those of a commit.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.bulk import upsert_rows
from api.store.claims import claim_row
from api.store.engine import Database
from api.store.jobs import submit_job
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from api.store.tables import claims, pods
from benchmarks import clusters, services
from benchmarks.harness import Options, Row, row, run
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId

ROWS = (
    "trigger_cost_ratio",
    "claims_cost_ratio",
    "trigger_cost_ratio_sqlite",
    "claims_cost_ratio_sqlite",
)
ALL, OF_CLAIMS = "", "pods_vs_claims_"
"""Beginnings of the names of triggers on pods."""
NOW_S = 1_800_000_000.0
REPEATS = 10


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    if options.wants("trigger_cost_ratio") or options.wants("claims_cost_ratio"):
        with services.postgresql() as url:
            yield from _measured(options, url, "")
    if options.wants("trigger_cost_ratio_sqlite") or options.wants("claims_cost_ratio_sqlite"):
        with tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder:
            yield from _measured(options, f"sqlite:///{folder}/p.db", "_sqlite")


def _measured(options: Options, url: str, suffix: str) -> Iterator[Row]:
    nodes, batch = (256, 64) if options.small else (10_016, 1_000)
    migrate(url)
    with closing(open_database(url)) as database:
        inventory = clusters.inventory(nodes)
        import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
        job, _ = submit_job(database, clusters.gang(1), {}, now_s=NOW_S)
        other, _ = submit_job(database, clusters.gang(2), {}, now_s=NOW_S)
        for what, claimed, dropped in (
            ("trigger_cost_ratio", 0, ALL),
            ("claims_cost_ratio", batch, OF_CLAIMS),
        ):
            if not options.wants(what + suffix):
                continue
            claim_nodes(database, other.uid, nodes, claimed)
            ms, without_ms = insert_ms(database, job.uid, nodes, batch, dropped=dropped)
            yield row(
                what + suffix,
                ms / without_ms,
                "ratio",
                1.0,
                nodes=nodes,
                claims=claimed,
                pods_per_statement=batch,
                insert_ms=round(ms, 3),
                without_ms=round(without_ms, 3),
            )


def claim_nodes(database: Database, job: str, nodes: int, count: int) -> None:
    """Spares of another gang on the last nodes, where the first pods do not go."""
    rows = [
        claim_row(
            Claim(
                uid=ClaimId(f"{job}-spare-{number}"),
                why=ClaimWhy.SPARE,
                node=NodeId(f"n{nodes - 1 - number:06d}"),
                gpu_mask=clusters.H100_MASK,
                job=JobId(job),
            ),
            revision=1,
        )
        for number in range(count)
    ]
    with database.engine.execution_options(immediate=True).begin() as connection:
        upsert_rows(connection, claims, rows)


def insert_ms(
    database: Database, job: str, nodes: int, batch: int, *, dropped: str
) -> tuple[float, float]:
    """Milliseconds of one statement with all triggers and without some; nothing of it is kept.

    The best of a few, taken in turns, so that a busy machine is so for both.
    """
    best = [float("inf"), float("inf")]
    free = nodes - batch
    for repeat in range(REPEATS):
        rows = [pod_row(job, (repeat * batch + n) % free, n) for n in range(batch)]
        for index in (repeat % 2, 1 - repeat % 2):
            with database.engine.execution_options(immediate=True).connect() as connection:
                if index:
                    drop_triggers(connection, dropped)
                began = time.perf_counter()
                upsert_rows(connection, pods, rows)
                best[index] = min(best[index], time.perf_counter() - began)
                connection.rollback()
    return best[0] * 1e3, best[1] * 1e3


def drop_triggers(connection: Connection, beginning: str) -> None:
    """Until the transaction is rolled back."""
    if connection.dialect.name == "postgresql":
        query = (
            "SELECT tgname FROM pg_trigger WHERE tgrelid = 'pods'::regclass AND NOT tgisinternal"
        )
    else:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'pods'"
    where = " ON pods" if connection.dialect.name == "postgresql" else ""
    for name in connection.execute(sa.text(query)).scalars().all():
        if name.startswith(beginning):
            connection.execute(sa.text(f"DROP TRIGGER {name}{where}"))


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
