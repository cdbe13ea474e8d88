"""Promises that a database breaks, found by SQL of its own: nothing of the service is used here."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.lending import may_be_on

LIVE = frozenset({"bound", "running", "terminating", "lost"})
FINAL = frozenset({"succeeded", "failed", "cancelled"})
HOLDING = frozenset({"bound", "running"})
"""Jobs whose gang is whole."""
LEAVING = frozenset({"evicting", "recovering"})
"""Jobs that may hold fewer members than must run together."""
GONE = frozenset({"lost", "out"})
"""Nodes whose GPUs are given to nobody."""

Row = Mapping[str, Any]


@dataclass(slots=True)
class Seen:
    """What a client was told.

    Attributes:
        jobs: Uids acknowledged.
        keys: Idempotency-Key -> uids that requests under it were answered with.
        ended: Uid -> the final state it was seen in.
        evicting: Victim and claimant, as the checker has seen them leave and wait; None where it
            does not look after every step, and so may miss the moment in which they began to.
    """

    jobs: set[str] = field(default_factory=set)
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ended: dict[str, str] = field(default_factory=dict)
    evicting: set[tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that the promises are about, read in one snapshot."""

    jobs: list[Row]
    pods: list[Row]
    nodes: list[Row]
    events: list[Row]
    keys: list[Row]
    counter: Row
    claims: list[Row]
    health: list[Row]


def broken_promises(database_url: str, seen: Seen | None = None) -> list[str]:
    """A line for everything that is not as design and schema promise; empty when all is well."""
    content = read(database_url)
    found = [*_one(content), *_two(content), *_three(content), *_four(content)]
    found += [*_claims_apart(content), *_claims_of_jobs(content), *_claims_kept(content)]
    found += _eight(content)
    if seen is not None:
        found += [*_lost(content, seen), *_five(content, seen), *_nine(content, seen)]
    return found


def bound_share(database_url: str) -> float:
    """Share of all GPUs that live pods hold."""
    content = read(database_url)
    held = sum(p["gpu_mask"].bit_count() for p in content.pods if p["state"] in LIVE)
    return float(held / sum(n["gpu_mask_all"].bit_count() for n in content.nodes))


def read(database_url: str) -> Content:
    """One snapshot."""
    of_jobs = (
        "SELECT uid, namespace, name, state, reason, spec, attempt, gpus_per_pod, revision, age, "
        "finished_at, pods_live, pods_running, gpus_held, evict FROM jobs ORDER BY age"
    )
    queries = (
        of_jobs,
        "SELECT uid, job_uid, role, pod_index, node, gpu_mask, state, attempt, cpu_milli, "
        "memory_mib, revision FROM pods ORDER BY uid",
        "SELECT * FROM node_usage ORDER BY node",
        "SELECT revision, kind, uid, namespace, name FROM events ORDER BY revision",
        "SELECT key, job_uid FROM idempotency",
        "SELECT revision, oldest FROM counter",
        "SELECT uid, why, node, gpu_mask, job_uid, window_name, starts_at, until_at, revision "
        "FROM claims WHERE NOT gone ORDER BY uid",
        "SELECT name, health, fenced FROM nodes ORDER BY name",
    )
    jobs, pods, nodes, events, keys, counter, claims, health = _ask(database_url, queries)
    return Content(jobs, pods, nodes, events, keys, counter[0], claims, health)


def _ask(database_url: str, queries: tuple[str, ...]) -> list[list[Row]]:
    if database_url.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(database_url).path[1:], timeout=30)) as lite:
            lite.row_factory = sqlite3.Row
            lite.execute("BEGIN")
            return [[dict(row) for row in lite.execute(query)] for query in queries]
    url = database_url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return [list(connection.execute(query.encode()).fetchall()) for query in queries]


def _one(content: Content) -> Iterator[str]:
    """No GPU in two live pods; the ledger is what the pods say."""
    held: dict[str, Row] = {}
    masks: dict[str, int] = defaultdict(int)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for pod in content.pods:
        if pod["state"] not in LIVE:
            continue
        node = pod["node"]
        if masks[node] & pod["gpu_mask"]:
            yield f"1: pod {pod['uid']} holds GPUs of {node} that another live pod holds"
        masks[node] |= pod["gpu_mask"]
        sums[node] = [
            a + b for a, b in zip(sums[node], (pod["cpu_milli"], pod["memory_mib"], 1), strict=True)
        ]
        held[pod["uid"]] = pod
    known = {node["node"] for node in content.nodes}
    yield from (f"1: live pods on {node}, which is not there" for node in masks.keys() - known)
    for node in content.nodes:
        says = (masks[node["node"]], *sums[node["node"]])
        has = tuple(node[c] for c in ("gpu_mask_used", "cpu_milli_used", "memory_mib_used", "pods"))
        if says != has:
            yield f"1: the ledger of {node['node']} is {has}, its pods say {says}"
        if masks[node["node"]] & ~node["gpu_mask_all"]:
            yield f"1: pods hold GPUs that {node['node']} does not have"


def _two(content: Content) -> Iterator[str]:
    """A gang that holds GPUs has its minimum; one that should hold none has none."""
    pods: dict[str, list[Row]] = defaultdict(list)
    for pod in content.pods:
        pods[pod["job_uid"]].append(pod)
    for job in content.jobs:
        mine = pods[job["uid"]]
        live = [pod for pod in mine if pod["state"] in LIVE]
        name = f"{job['namespace']}/{job['name']} ({job['state']})"
        if job["state"] in HOLDING:
            # Members above the minimum may be lost or on their way out; without them it is whole.
            there = [pod for pod in mine if pod["state"] in {"bound", "running", "succeeded"}]
            yield from (f"2: {name} {lack}" for lack in _lacks(job, there))
        elif live and job["state"] not in LEAVING:
            yield f"2: {name} has {len(live)} live pods"
        counts = (
            len(live),
            sum(pod["state"] == "running" for pod in live),
            sum(pod["gpu_mask"].bit_count() for pod in live),
        )
        if counts != (job["pods_live"], job["pods_running"], job["gpus_held"]):
            yield f"2: {name} says otherwise of its pods than they do: {counts}"


def _lacks(job: Row, there: list[Row]) -> Iterator[str]:
    spec = json.loads(job["spec"])
    if not spec["roles"]:
        sizes = spec["parallelism"]
        world = sizes["tp"] * sizes["cp"] * sizes["pp"] * sizes["dp"]
        has = sum(pod["gpu_mask"].bit_count() for pod in there)
        if has != world:
            yield f"has {has} of {world} GPUs"
        return
    for role in spec["roles"]:
        indices = {pod["pod_index"] for pod in there if pod["role"] == role["name"]}
        if len(indices) < role["min"]:
            yield f"has {len(indices)} of at least {role['min']} of role '{role['name']}'"
        parts = role["parts"]
        if parts is not None:
            size = parts["size"]
            whole = sum(
                indices.issuperset(range(k * size, (k + 1) * size)) for k in range(parts["count"])
            )
            if whole < parts["min"] or whole * size != len(indices):
                yield f"has {len(indices)} members of role '{role['name']}', {whole} whole parts"


def _claims_apart(content: Content) -> Iterator[str]:
    """No GPU in two claims at one time; claims have only what their nodes have."""
    has = {node["node"]: node["gpu_mask_all"] for node in content.nodes}
    by_node: dict[str, list[Row]] = defaultdict(list)
    for claim in content.claims:
        if claim["gpu_mask"] & ~has.get(claim["node"], 0):
            yield f"1: claim {claim['uid']} has GPUs that {claim['node']} does not have"
        for other in by_node[claim["node"]]:
            if claim["gpu_mask"] & other["gpu_mask"] and _meet(claim, other):
                yield f"1: claims {other['uid']} and {claim['uid']} share GPUs of {claim['node']}"
        by_node[claim["node"]].append(claim)


def _meet(one: Row, other: Row) -> bool:
    """Whether two claims hold at some moment both."""
    return all(
        a["until_at"] is None or b["starts_at"] < a["until_at"]
        for a, b in ((one, other), (other, one))
    )


def _claims_of_jobs(content: Content) -> Iterator[str]:
    """A gang that waits for its place has claims, and one that has ended has none."""
    states = {job["uid"]: job["state"] for job in content.jobs}
    reasons = {job["uid"]: job["reason"] for job in content.jobs}
    claimants = {claim["job_uid"] for claim in content.claims}
    for claim in content.claims:
        owner = claim["job_uid"]
        if owner is None:
            continue
        state = states.get(owner, "gone")
        if state == "pending" and (claim["why"], reasons[owner]) == ("recovery", "backoff"):
            continue  # it starts anew in its places when it has waited
        if state in FINAL | {"gone", "suspended", "pending"}:
            yield f"9: claim {claim['uid']} is of job {owner}, which is {state}"
    for uid, state in states.items():
        if state == "reserved" and uid not in claimants:
            yield f"9: job {uid} is reserved without a claim"


def _claims_kept(content: Content) -> Iterator[str]:
    """Nobody but those that leave, or borrow a spare, is on what is kept for another gang."""
    jobs = {job["uid"]: job for job in content.jobs}
    claims: dict[str, list[Row]] = defaultdict(list)
    for claim in content.claims:
        claims[claim["node"]].append(claim)
    for pod in content.pods:
        if pod["state"] not in LIVE:
            continue
        for claim in claims[pod["node"]]:
            meets = claim["job_uid"] != pod["job_uid"] and claim["gpu_mask"] & pod["gpu_mask"]
            if meets and not may_be_on(jobs[pod["job_uid"]], claim):
                yield f"9: pod {pod['uid']} is on what {claim['uid']} is to have"


def _eight(content: Content) -> Iterator[str]:
    """Nothing starts on a node that is lost or out, whatever its pods are said to do."""
    since = {e["uid"]: e["revision"] for e in content.events if e["kind"] == "node.health"}
    gone = {row["name"] for row in content.health if row["health"] in GONE}
    for pod in content.pods:
        node = pod["node"]
        if pod["state"] == "bound" and node in gone and pod["revision"] > since.get(node, 0):
            yield f"8: pod {pod['uid']} starts on {node}, which is lost or out"


def _nine(content: Content, seen: Seen) -> Iterator[str]:
    """Whoever begins to leave for another gang does so for one that has its place kept."""
    if seen.evicting is None:
        return
    has_place = {claim["job_uid"] for claim in content.claims}
    has_place |= {pod["job_uid"] for pod in content.pods if pod["state"] in LIVE}
    for job in content.jobs:
        claimant = json.loads(job["evict"])["for_job"] if job["evict"] else None
        if claimant is None or (job["uid"], claimant) in seen.evicting:
            continue
        seen.evicting.add((job["uid"], claimant))
        if claimant not in has_place:
            yield f"9: job {job['uid']} leaves for {claimant}, for whom no place is kept"


def _three(content: Content) -> Iterator[str]:
    """A job ends once; what has ended stays so."""
    ends: dict[str, list[str]] = defaultdict(list)
    for event in content.events:
        word = event["kind"].removeprefix("job.")
        if word in FINAL:
            ends[event["uid"]].append(word)
        elif event["kind"] in {"job.bound", "job.running", "job.pending"} and ends[event["uid"]]:
            yield f"3: job {event['uid']} was {ends[event['uid']][-1]} and then {word}"
    for uid, states in ends.items():
        if len(states) > 1:
            yield f"3: job {uid} ended {len(states)} times: {', '.join(states)}"
    for job in content.jobs:
        is_final = job["state"] in FINAL
        if is_final != (job["finished_at"] is not None):
            yield f"3: job {job['uid']} is {job['state']}, finished at {job['finished_at']}"
        if job["age"] > content.counter["oldest"] and is_final and not ends[job["uid"]]:
            yield f"3: job {job['uid']} is {job['state']} without an event"


def _lost(content: Content, seen: Seen) -> Iterator[str]:
    """What was acknowledged is there or was deleted; what was seen to end has ended so."""
    states = {job["uid"]: job["state"] for job in content.jobs}
    deleted = {event["uid"] for event in content.events if event["kind"] == "job.deleted"}
    for uid in sorted(seen.jobs - states.keys() - deleted):
        yield f"3: job {uid} was acknowledged and is lost"
    for uid, state in seen.ended.items():
        if states.get(uid, state) != state:
            yield f"3: job {uid} was seen {state} and is {states[uid]}"


def _four(content: Content) -> Iterator[str]:
    """Every event has its own revision, and no revision is without."""
    revision, oldest = content.counter["revision"], content.counter["oldest"]
    found = [event["revision"] for event in content.events]
    if found != list(range(oldest + 1, revision + 1)):
        expected = set(range(oldest + 1, revision + 1))
        missing, more = sorted(expected - set(found)), sorted(set(found) - expected)
        yield f"4: events lack revisions {missing[:9]}, have {more[:9]} beyond {revision}"
    followed = (("job", content.jobs), ("pod", content.pods), ("claim", content.claims))
    for kind, rows in followed:
        ahead = [row["uid"] for row in rows if row["revision"] > revision]
        yield from (f"4: {kind} {uid} is of a revision that was not given yet" for uid in ahead)


def _five(content: Content, seen: Seen) -> Iterator[str]:
    """One key, one job."""
    for key, uids in seen.keys.items():
        if len(uids) > 1:
            yield f"5: key {key} made {len(uids)} jobs"
    for row in content.keys:
        told = seen.keys.get(row["key"])
        if told and row["job_uid"] not in told:
            yield f"5: key {row['key']} is of job {row['job_uid']}, the client was told {told}"
