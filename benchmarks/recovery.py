"""How long after a fault is reported the replacement is committed, through the whole service.

`replace_p99_s`: faults of single nodes, one after the other, each on a node in the middle of a
gang's life; the clock runs from before the report is sent until the member's new place is read
from the database. `mass_750_s`: half of the cluster at once by one report of a set, until no gang
lacks a member; with the breaker on, how many members were moved (`mass_750_held_pods`, to be 0).
The floor of both is one durable transaction that writes as many rows, through the driver alone.
"""

import json
import random
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg

from api.store.batch import run_batch
from api.store.commit import commit
from api.store.engine import Database
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from api.store.views import JobView, Submission
from benchmarks import clusters, effective_time, services
from benchmarks.harness import Options, Row, percentile, row, run
from scheduler.model.ids import JobId, NodeId, PodId
from scheduler.model.job import Failure, JobSpec, Scope
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.node import Inventory
from scheduler.model.plan import JobMove, Plan, PodRecord

ROWS = ("replace_p99_s", "mass_750_s", "mass_750_held_pods", *effective_time.ROWS)
NOW_S = 1_700_000_000.0
SIZES = (64, 32, 16, 8, 8, 4, 4, 2, 2, 1, 1)
"""Nodes of the gangs; with them the three sets of rules of `clusters.gang`."""
DEADLINE_S = 120.0
LOOK_S = 0.002

Connection = psycopg.Connection[tuple[object, ...]]


def measure(options: Options) -> Iterator[Row]:
    """Every row of this benchmark."""
    if options.wants("replace_p99_s"):
        nodes, faults = (96, 12) if options.small else (1_250, 1_000)
        with services.postgresql() as url:
            yield replacements(url, nodes, faults)
    for name, share in (("mass_750_s", 1.0), ("mass_750_held_pods", 0.2)):
        if options.wants(name):
            with services.postgresql() as url:
                yield mass(url, name, 96 if options.small else 1_500, share)
    yield from effective_time.measure(options)


def replacements(url: str, nodes: int, faults: int) -> Row:
    """One fault after the other; a node is mended as soon as its members are elsewhere."""
    inventory = clusters.inventory(nodes)
    migrate(url)
    with closing(open_database(url)) as database:
        fill(database, inventory, [node.name for node in inventory.nodes[: nodes * 4 // 5]])
    chance, times = random.Random(1), []
    with (
        services.service(url) as port,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        _policy(port, breaker_share=1.0)
        for _ in range(faults):
            names = [str(r[0]) for r in connection.execute(_USED).fetchall()]
            node = chance.choice(names)
            began = time.perf_counter()
            fault = _call(port, "POST", f"/v1/nodes/{node}/faults", {"code": "node_lost"})
            _until_zero(connection, _ON_NODE, node)
            times.append(time.perf_counter() - began)
            _call(port, "DELETE", f"/v1/nodes/{node}/faults/{fault['id']}")
        floor = raw_write_s(connection, 4)
    return row(
        "replace_p99_s",
        percentile(times, 0.99),
        "s",
        floor,
        nodes=nodes,
        faults=faults,
        used="80 %",
        median_s=round(percentile(times, 0.5), 4),
        worst_s=round(max(times), 4),
    )


def mass(url: str, name: str, nodes: int, breaker_share: float) -> Row:
    """Half of the nodes fail in one report: nearly half of them in use, and as many free ones."""
    chance = random.Random(2)
    names = [node.name for node in clusters.inventory(nodes).nodes]
    lost = sorted(chance.sample(names, nodes // 2))
    inventory = replace(clusters.inventory(nodes), sets={"feed": {"a": tuple(lost)}})
    migrate(url)
    with closing(open_database(url)) as database:
        fill(database, inventory, sorted(chance.sample(names, nodes * 2 // 5)))
    with (
        services.service(url) as port,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        _policy(port, breaker_share=breaker_share)
        hit = _count(connection, _HIT, lost)
        began = time.perf_counter()
        _call(port, "POST", "/v1/sets/feed/a/faults", {"code": "node_lost"})
        told_s = round(time.perf_counter() - began, 3)
        if breaker_share < 1.0:
            _until_zero(connection, _UNTOLD)
            time.sleep(2.0)
            moved = _count(connection, _MOVED)
            return row(name, moved, "pods", nodes=nodes, lost=len(lost), pods_hit=hit)
        _until_zero(connection, _LACKING)
        seconds = time.perf_counter() - began
        floor = raw_write_s(connection, hit)
    said = {"nodes": nodes, "lost": len(lost), "pods_hit": hit, "report_s": told_s}
    return row(name, seconds, "s", floor, **said)


# -- what there is --------------------------------------------------------------------------------

_LIVE = "p.state IN ('bound', 'running', 'terminating', 'lost')"
_USED = f"SELECT DISTINCT node FROM pods p WHERE {_LIVE} ORDER BY node"
_ON_NODE = f"SELECT count(*) FROM pods p WHERE {_LIVE} AND p.node = %s"
_GONE = "(SELECT name FROM nodes WHERE health IN ('lost', 'out'))"
_LACKING = (
    "SELECT (SELECT count(*) FROM jobs WHERE state NOT IN ('bound', 'running'))"
    f" + (SELECT count(*) FROM pods p WHERE {_LIVE} AND p.node IN {_GONE})"
    f" + (SELECT CASE WHEN EXISTS {_GONE} THEN 0 ELSE 1 END)"
)
_UNTOLD = (
    f"SELECT count(*) FROM pods p JOIN jobs j ON j.uid = p.job_uid WHERE {_LIVE}"
    f" AND p.node IN {_GONE} AND (j.reason IS NULL OR j.reason <> 'breaker')"
    " AND j.state = 'running'"
)
_MOVED = "SELECT count(*) FROM pods WHERE attempt > 1"
_HIT = f"SELECT count(*) FROM pods p WHERE {_LIVE} AND p.node = ANY(%s)"


def fill(database: Database, inventory: Inventory, used: list[str]) -> None:
    """The cluster, and gangs that run on some of its nodes."""
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
    left, specs, places = list(used), list[JobSpec](), list[list[str]]()
    number = 0
    while left:
        size = next(s for s in (SIZES[number % len(SIZES)], 4, 2, 1) if s <= len(left))
        # Required rules would tie the scattered nodes of this benchmark to one leaf.
        spec = clusters.gang(size, 1 + number % 2)
        failure = Failure(Scope.GANG if number % 3 else Scope.POD, max_restarts=10)
        specs.append(replace(spec, name=f"g{number}", failure=failure))
        places.append(left[:size])
        del left[:size]
        number += 1
    wanted = [Submission(spec, {}) for spec in specs]
    done = run_batch(database, ends=(), submissions=wanted, now_s=NOW_S)
    jobs = [answer[0] for answer in done.submitted if isinstance(answer, tuple)]
    revision = max(job.revision for job in jobs)
    for state in (JobState.BOUND, JobState.RUNNING):
        moves = tuple(
            JobMove(JobId(j.uid), state, None, "", 1, gpus_per_pod=8, node_type="hgx-h100")
            for j in jobs
        )
        pods = tuple(
            _pod(job, index, node, PodState(state))
            for job, nodes in zip(jobs, places, strict=True)
            for index, node in enumerate(nodes)
        )
        revision = commit(database, Plan(revision, job_moves=moves, pods=pods), 0, NOW_S).revision


def _pod(job: JobView, index: int, node: str, state: PodState) -> PodRecord:
    return PodRecord(
        uid=PodId(f"{job.uid}--{index}"),
        job=JobId(job.uid),
        name=f"{job.name}-{index}",
        role="",
        index=index,
        node=NodeId(node),
        gpu_mask=clusters.H100_MASK,
        first_rank=8 * index,
        state=state,
    )


# -- asking ---------------------------------------------------------------------------------------


def _policy(port: int, **changes: object) -> None:
    known = _call(port, "GET", "/v1/policy")
    _call(port, "PUT", "/v1/policy", known | changes)


def _call(port: int, method: str, path: str, body: object = None) -> dict[str, object]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own URL
        found: dict[str, object] = json.load(answer)
        return found


def _count(connection: Connection, query: str, *given: object) -> int:
    (found,) = connection.execute(query.encode(), given or None).fetchall()
    return int(str(found[0]))


def _until_zero(connection: Connection, query: str, *given: object) -> None:
    ends = time.monotonic() + DEADLINE_S
    while _count(connection, query, *given):
        if time.monotonic() > ends:
            raise SystemExit(f"not so within {DEADLINE_S:g} s: {query}")
        time.sleep(LOOK_S)


def raw_write_s(connection: Connection, rows: int) -> float:
    """Seconds of one transaction that writes so many rows durably."""
    connection.execute(b"CREATE TABLE IF NOT EXISTS bench_raw (id integer, body text)")
    times = []
    for _ in range(20):
        began = time.perf_counter()
        with connection.transaction():
            connection.execute(
                b"INSERT INTO bench_raw SELECT n, repeat('x', 200) FROM generate_series(1, %s) n",
                (rows,),
            )
        times.append(time.perf_counter() - began)
    return percentile(times, 0.5)


if __name__ == "__main__":
    sys.exit(run("recovery", measure, ROWS))
