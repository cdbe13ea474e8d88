"""The ten promises of the service, looked at after every commit; no code of the service is used.

What is compared: the rows before a commit and after it, the events it added, who made it, and what
clients, watchers, receivers of hooks and machines saw for themselves.
"""

import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator

from tests.lending import may_be_on
from tests.simulation.service.history import History
from tests.simulation.service.rows import FINAL, LIVE, Row, State, lacks, read

WHOLE = frozenset({"bound", "running"})
LEAVING = frozenset({"evicting", "recovering"})
DONE = frozenset({"delivered", "dead", "withdrawn"})
FOLLOWED = {
    "jobs": [
        "priority",
        "state",
        "reason",
        "message",
        "attempt",
        "spec",
        "held",
        "evict",
        "recovery",
        "saved_at",
    ],
    "pods": ["node", "gpu_mask", "state", "attempt", "exit_code"],
    "nodes": ["health", "fenced", "cordon_at", "drain_at", "has_agent"],
    "claims": ["node", "gpu_mask", "starts_at", "until_at", "gone"],
}
"""Columns that followers have in memory: none of them changes without a new revision."""

WITHDRAWN_WITHIN_S = 120.0
"""Time after which nobody is still about to be asked to leave for a gang that has gone."""

CHAINS_PER_EPOCH = 1 << 20
"""How the decision log numbers its chains: by the epoch that decided."""

LEADS = "podyard-runner"


class Checker:
    """Looks at the database through a connection of its own.

    Attributes:
        broken: Promises found broken, with the revision.
        only: The one promise that is looked at; 0 = all of them.
        commits: Looked at.
    """

    def __init__(self, path: str, history: History) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.broken: list[str] = []
        self.only = 0
        self.commits = 0
        self._history = history
        self._last = read(self.connection, 0)
        self._ends: dict[str, list[str]] = defaultdict(list)
        self._submitted: dict[str, set[str]] = defaultdict(set)
        self._deleted: set[str] = set()
        self._used_ms: dict[str, int] = defaultdict(int)
        self._orphans: dict[str, float] = {}
        self._receipts = 0
        self._complaints = 0
        self._lanes: dict[str, int] = {}
        self._taken: dict[str, set[str]] = defaultdict(set)
        self._events: dict[int, tuple[str, str]] = {}

    @property
    def last(self) -> State:
        """What was there when it last looked."""
        return self._last

    def close(self) -> None:
        self.connection.close()

    def look(self, process: str, actor: str, now_s: float) -> None:
        """Compare what a commit left with what was there before it."""
        old = self._last
        new = self._last = read(self.connection, old.revision)
        self.commits += 1
        self._note(new)
        found = (
            *self._one(new),
            *self._two(old, new),
            *self._three(old, new),
            *self._four(old, new),
            *self._five(old, new),
            *self._six(old, new),
            *self._seven(new, process, actor),
            *self._eight(old, new),
            *self._nine(old, new, now_s),
            *self._ten(new),
            *self._complain(),
        )
        at = f" (revision {new.revision}, {process} {actor})"
        self.broken += [line + at for line in found if self._counts(line)]

    def _complain(self) -> list[str]:
        """What those around the service have found themselves since it was last asked."""
        found = self._history.complaints[self._complaints :]
        self._complaints += len(found)
        return found

    def _counts(self, line: str) -> bool:
        return not self.only or line.startswith(f"{self.only}:")

    def finish(self) -> None:
        """What must hold when the weather has been fair for long enough."""
        new = self._last = read(self.connection, self._last.revision)
        found = [*self._receive(new)]
        for job in new.jobs.values():
            if job["state"] not in FINAL:
                found.append(f"3: job {job['name']} is {job['state']} and comes to no end")
        for row in new.deliveries.values():
            if row["state"] == "pending":
                found.append(f"6: delivery {row['id']} is never made")
        for watcher, seen in self._history.seen.items():
            told = [r for r in seen if r in self._events and seen[r] != self._events[r]]
            if told:
                found.append(f"4: {watcher} was told otherwise of {told[:5]}")
        self.broken += filter(self._counts, [*found, *self._complain()])

    def _note(self, new: State) -> None:
        for event in new.events:
            kind, uid = event["kind"], event["uid"]
            self._events[event["revision"]] = (kind, uid)
            if kind == "job.submitted":
                self._submitted[event["name"]].add(uid)
            elif kind == "job.deleted":
                self._deleted.add(uid)
            elif kind.startswith("job.") and kind[4:] in FINAL:
                self._ends[uid].append(kind[4:])

    # --- the promises --------------------------------------------------------------------

    def _one(self, new: State) -> Iterator[str]:
        """No GPU is in two live bindings; the ledger is what the pods say."""
        masks: dict[str, int] = defaultdict(int)
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for pod in new.live():
            node = pod["node"]
            if masks[node] & pod["gpu_mask"]:
                yield f"1: pod {pod['uid']} holds GPUs of {node} that another live pod holds"
            masks[node] |= pod["gpu_mask"]
            more = (pod["cpu_milli"], pod["memory_mib"], 1)
            sums[node] = [a + b for a, b in zip(sums[node], more, strict=True)]
        for name, node in new.nodes.items():
            has = [node["cpu_milli_used"], node["memory_mib_used"], node["pods"]]
            if node["gpu_mask_used"] != masks[name] or has != sums[name]:
                yield f"1: the ledger of {name} is not what its pods say"
            if masks[name] & ~node["gpu_mask_all"]:
                yield f"1: pods hold GPUs that {name} does not have"
        by_node: dict[str, list[Row]] = defaultdict(list)
        for claim in new.kept():
            for other in by_node[claim["node"]]:
                if claim["gpu_mask"] & other["gpu_mask"] and _meet(claim, other):
                    yield f"1: claims {other['uid']} and {claim['uid']} share GPUs"
            by_node[claim["node"]].append(claim)

    def _two(self, old: State, new: State) -> Iterator[str]:
        """A gang has its minimum, or nothing; only one that recovers or leaves may hold fewer."""
        pods = new.pods_of()
        for uid, job in new.jobs.items():
            mine = pods.get(uid, [])
            live = [pod for pod in mine if pod["state"] in LIVE]
            name = f"{job['name']} ({job['state']})"
            if job["state"] in WHOLE:
                there = [p for p in mine if p["state"] in {"bound", "running", "succeeded"}]
                was = old.jobs.get(uid)
                starts = was is None or was["attempt"] != job["attempt"]
                yield from (f"2: {name} {lack}" for lack in lacks(job, there, starts=starts))
            elif live and job["state"] not in LEAVING:
                yield f"2: {name} has {len(live)} live pods"
            counts = (
                len(live),
                sum(pod["state"] == "running" for pod in live),
                sum(pod["gpu_mask"].bit_count() for pod in live),
            )
            if counts != (job["pods_live"], job["pods_running"], job["gpus_held"]):
                yield f"2: {name} says otherwise of its pods than they do: {counts}"

    def _three(self, old: State, new: State) -> Iterator[str]:
        """What was acknowledged is never lost, and ends in exactly one final state."""
        for uid, was in old.jobs.items():
            job = new.jobs.get(uid)
            if job is None:
                # It may have ended and been deleted in the same commit.
                if not self._ends.get(uid) or uid not in self._deleted:
                    yield f"3: job {was['name']} was {was['state']} and is gone"
            elif was["state"] in FINAL and job["state"] != was["state"]:
                yield f"3: job {was['name']} was {was['state']} and is {job['state']}"
        for uid, job in new.jobs.items():
            ends = self._ends.get(uid, [])
            is_final = job["state"] in FINAL
            if ends != ([job["state"]] if is_final else []):
                yield f"3: job {job['name']} is {job['state']}, its events say {ends}"
            if is_final != (job["finished_at"] is not None):
                yield f"3: job {job['name']} is {job['state']}, finished at {job['finished_at']}"
            seen = self._history.ended.get(uid, set())
            if seen - {job["state"]}:
                yield f"3: job {job['name']} was seen {seen} and is {job['state']}"
        for key, uids in self._history.told.items():
            for uid in uids - new.jobs.keys() - self._deleted:
                yield f"3: job {uid} of key {key} was acknowledged and is lost"

    def _four(self, old: State, new: State) -> Iterator[str]:
        """Each event has its own revision, and whatever changes has one that this commit gave."""
        found = [event["revision"] for event in new.events]
        if found != list(range(max(old.revision, new.oldest) + 1, new.revision + 1)):
            yield f"4: after {old.revision} and up to {new.revision} the events are {found[:9]}"
        if new.revision < old.revision:
            yield f"4: the counter went back from {old.revision}"
        both = (
            ("jobs", old.jobs, new.jobs),
            ("pods", old.pods, new.pods),
            ("nodes", old.nodes, new.nodes),
            ("claims", old.claims, new.claims),
        )
        for table, before, after in both:
            columns = FOLLOWED[table]
            for key, row in after.items():
                was = before.get(key)
                if was == row:
                    continue
                if was is not None and all(was[c] == row[c] for c in columns):
                    continue
                if not old.revision < row["revision"] <= new.revision:
                    yield f"4: {table} {key} changed, and is of revision {row['revision']}"

    def _five(self, old: State, new: State) -> Iterator[str]:
        """One key, one job."""
        for key, uid in old.keys.items():
            if new.keys.get(key, uid) != uid:
                yield f"5: key {key} was of job {uid} and is of {new.keys[key]}"
        for key, name in self._history.name_of.items():
            made = self._submitted.get(name, set())
            if len(made) > 1 or len(self._history.told.get(key, ())) > 1:
                yield f"5: key {key} made {sorted(made)}"
            if not self._history.told.get(key, set()) <= made:
                yield f"5: key {key} was answered with a job that was never submitted"

    def _six(self, old: State, new: State) -> Iterator[str]:
        """Facts are applied once, used seconds counted once, messages arrive at least once."""
        for number, fact in old.facts.items():
            now = new.facts.get(number)
            if now is None:
                if fact["applied_at"] is None and fact["job_uid"] in new.jobs:
                    yield f"6: fact {number} ({fact['kind']}) is gone before it was applied"
            elif fact["applied_at"] not in {None, now["applied_at"]}:
                yield f"6: fact {number} ({fact['kind']}) was applied twice"
        yield from self._accounts(old, new)
        for number, row in old.deliveries.items():
            now = new.deliveries.get(number)
            if now is not None and row["state"] in DONE and now["state"] != row["state"]:
                yield f"6: delivery {row['id']} was {row['state']} and is {now['state']}"
            if now is not None and now["body"] != row["body"]:
                yield f"6: delivery {row['id']} says otherwise than before"
        told = {row["job_uid"] for row in new.deliveries.values() if row["kind"] == "job.finished"}
        for uid, job in new.jobs.items():
            if job["hooks"] and job["state"] in FINAL and uid not in told:
                yield f"6: nobody is to be told that {job['name']} is {job['state']}"
        yield from self._receive(new)

    def _accounts(self, old: State, new: State) -> Iterator[str]:
        at_ms = round(new.events[-1]["at"] * 1000) if new.events else 0
        for uid, was in old.pods.items():
            now = new.pods.get(uid)
            if was["state"] not in LIVE or was["bound_at"] is None:
                continue
            again = now is not None and now["attempt"] != was["attempt"]
            if now is not None and now["state"] in LIVE and not again:
                continue
            lasted_ms = max(0, at_ms - round(was["bound_at"] * 1000))
            self._used_ms[was["job_uid"]] += lasted_ms * was["gpu_mask"].bit_count()
        for uid, used_ms in self._used_ms.items():
            if new.usage.get(uid, 0) != used_ms:
                yield f"6: job {uid} used {used_ms} GPU-ms, {new.usage.get(uid, 0)} are counted"
                self._used_ms[uid] = new.usage.get(uid, 0)

    def _receive(self, new: State) -> Iterator[str]:
        """What arrived at hooks since it was last looked."""
        receipts = self._history.receipts
        for receipt in receipts[self._receipts :]:
            number = int(receipt.id.rsplit("-", 1)[1])
            if number // 64 > receipt.revision:
                yield f"6: message {receipt.id} was sent before what it tells of was committed"
            row = new.deliveries.get(number)
            if row is not None:
                lane = row["lane"]
                if number < self._lanes.get(lane, 0) and receipt.id not in self._taken:
                    yield f"6: message {receipt.id} comes after later ones of {lane}"
                self._lanes[lane] = max(number, self._lanes.get(lane, 0))
            self._taken[receipt.id] |= {receipt.body} if receipt.taken else set()
        self._receipts = len(receipts)
        for row in new.deliveries.values():
            if row["state"] == "delivered" and row["body"] not in self._taken.get(row["id"], ()):
                yield f"6: delivery {row['id']} is delivered, and nobody has it"

    def _seven(self, new: State, process: str, actor: str) -> Iterator[str]:
        """A deposed leader writes nothing."""
        for row in new.decisions:
            epoch = row["chain"] // CHAINS_PER_EPOCH
            # A chain may go on in a later epoch of the same process, never be of one to come.
            if epoch > new.epoch or process != new.holder:
                yield f"7: {process} committed a decision of epoch {epoch} in epoch {new.epoch}"
        if actor == LEADS and new.events and process != new.holder:
            kinds = sorted({event["kind"] for event in new.events})
            yield f"7: {process} does not lead, and its runner wrote {kinds}"

    def _eight(self, old: State, new: State) -> Iterator[str]:
        """GPUs of a silent node are not reused before it is known what runs there."""
        for uid, pod in new.pods.items():
            was = old.pods.get(uid)
            is_new = was is None or was["attempt"] != pod["attempt"]
            if pod["state"] != "bound" or not is_new:
                continue
            node = old.nodes.get(pod["node"])
            if node is not None and node["health"] in {"lost", "out"}:
                yield f"8: pod {uid} starts on {pod['node']}, which is {node['health']}"
            for run, mask in self._history.runs.get(pod["node"], {}).items():
                if mask & pod["gpu_mask"] and run[0] != uid:
                    yield f"8: pod {uid} gets GPUs of {pod['node']} on which {run} still runs"

    def _nine(self, old: State, new: State, now_s: float) -> Iterator[str]:
        """Whoever begins to leave for a gang does so in the commit that keeps its place for it."""
        claims = new.kept()
        has_place = {c["job_uid"] for c in claims} | {p["job_uid"] for p in new.live()}
        for uid, job in new.jobs.items():
            leaving = json.loads(job["evict"]) if job["evict"] else None
            claimant = leaving["for_job"] if leaving else None
            was = old.jobs.get(uid)
            before = json.loads(was["evict"])["for_job"] if was and was["evict"] else None
            if claimant and claimant != before and claimant not in has_place:
                yield f"9: job {job['name']} leaves for {claimant}, for whom no place is kept"
            gone = claimant and new.jobs.get(claimant, {"state": "failed"})["state"] in FINAL
            if gone and leaving and leaving["step"] == "asked" and leaving["asked_s"] is None:
                since_s = self._orphans.setdefault(uid, now_s)
                if now_s - since_s > WITHDRAWN_WITHIN_S:
                    yield f"9: job {job['name']} is to leave for {claimant}, which has gone"
            else:
                self._orphans.pop(uid, None)
        for claim in claims:
            owner = new.jobs.get(claim["job_uid"] or "")
            if claim["job_uid"] and (owner is None or owner["state"] in FINAL):
                yield f"9: claim {claim['uid']} is of a job that has ended"
        yield from self._kept_free(new, claims)

    def _kept_free(self, new: State, claims: list[Row]) -> Iterator[str]:
        by_node: dict[str, list[Row]] = defaultdict(list)
        for claim in claims:
            by_node[claim["node"]].append(claim)
        for pod in new.live():
            for claim in by_node[pod["node"]]:
                meets = claim["job_uid"] != pod["job_uid"] and claim["gpu_mask"] & pod["gpu_mask"]
                if meets and not may_be_on(new.jobs[pod["job_uid"]], claim):
                    yield f"9: pod {pod['uid']} is on what {claim['uid']} is to have"

    def _ten(self, new: State) -> Iterator[str]:
        """The log of decisions says what was done: each plan in it is what its commit wrote."""
        for row in new.decisions:
            dropped = set(json.loads(row["dropped"]))
            line = zlib.decompress(row["content"]).splitlines()[-1]
            word, _, body = line.partition(b" ")
            plan = json.loads(body)
            if word != b"plan":
                yield "10: a decision ends without its plan"
            for move in plan["job_moves"]:
                job = new.jobs.get(move["uid"])
                if move["uid"] not in dropped and (job is None or job["state"] != move["state"]):
                    yield f"10: job {move['uid']} was to be {move['state']}, and is not"
            for pod in plan["pods"]:
                has = new.pods.get(pod["uid"])
                if pod["job"] not in dropped and (has is None or has["node"] != pod["node"]):
                    yield f"10: pod {pod['uid']} was to be on {pod['node']}, and is not"


def _meet(one: Row, other: Row) -> bool:
    """Whether two claims hold at some moment both."""
    return all(
        a["until_at"] is None or b["starts_at"] < a["until_at"]
        for a, b in ((one, other), (other, one))
    )
