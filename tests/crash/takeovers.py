"""Take-overs under load: each round ends or silences whoever leads, and looks who goes on.

Run as `python -m tests.crash.takeovers --rounds 500 --seed 1` on a server of its own; the same
rounds are tests in `test_takeovers.py`. Histories are checked afterwards, by SQL and by what
clients were told: nothing of the service is asked whether it did well.
"""

import argparse
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

import psycopg

from api.loop.replay import replay_all
from api.store.ledger import audit_ledger
from api.store.nodes import import_inventory
from api.store.schema import migrate, open_database
from scheduler.model.node import Taint
from tests.api.store.build import NOW_S
from tests.builders import make_inventory
from tests.checks import FINAL, Seen, broken_promises
from tests.crash.caller import Caller, together
from tests.crash.replicas import PROBED, Prober, Replicas, Watcher, until_caught_up
from tests.crash.service import until

WAYS = ("kill", "stop", "cut", "hole", "terminate")
"""kill -9; SIGSTOP; sessions ended and refused; sessions silenced; sessions ended by the server."""

OF_LEADER = 0.9
"""Share of the rounds that meet whoever leads; the others meet one that stands by."""

LOOK_EVERY = 10
"""Rounds between two looks into the database."""

PENDING_MAX = 60
"""Jobs that may wait; so that long runs stay as quick as short ones, more are deleted."""

EPOCH_CHAINS = 1 << 20
"""The number of a chain of decisions, divided by this, is the epoch it was decided in."""


@dataclass(slots=True)
class Gap:
    """What one round cost.

    Attributes:
        gap_s: Between the last placement before and the first after, by the clocks of who led.
        silent_s: From the blow to the first placement after it.
    """

    way: str
    gap_s: float
    silent_s: float


@dataclass(slots=True)
class History:
    """What was seen from the outside, for the check at the end."""

    gaps: list[Gap] = field(default_factory=list)
    decided: dict[int, int] = field(default_factory=dict)
    """Revision that a decision's commit ended with -> its epoch."""
    began: list[tuple[int, int]] = field(default_factory=list)
    """Revision and number of each epoch."""


class Rounds:
    """The rounds of one run.

    Args:
        url: Of a migrated database.
        folder: For the logs of the replicas.
    """

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self._url = url
        self._chance = Random(seed)
        self._pause = threading.Event()
        self.history = History()
        load(url)
        self.replicas = Replicas(url, folder)
        self.callers = [Caller(self.replicas, name, seed) for name in ("ada", "bob")]
        self.probers = [Prober(self.replicas, name) for name in ("probe-a", "probe-b")]
        self.watchers: list[Watcher] = []
        for caller in self.callers:
            caller.pause_s = 0.1

    @contextmanager
    def running(self) -> Iterator[None]:
        """With all replicas up and all load on them; at the end nobody asks any more."""
        with self.replicas:
            self.replicas.start()
            start = int(str(self._ask("SELECT revision FROM counter")[0]))
            switches = ((f"watch-{n}", 0.7 + 2.0 * n) for n in range(3))
            self.watchers = [Watcher(self.replicas, name, start, s) for name, s in switches]
            for one in self.callers:
                one.start()
            for thread in (*self.probers, *self.watchers):
                thread.start()
            yield
            for prober in self.probers:
                prober.stop()
            for caller in self.callers:
                caller.stop()
                self._ask_all_again(caller)
            until_caught_up(self.watchers, int(str(self._ask("SELECT revision FROM counter")[0])))
            for watcher in self.watchers:
                watcher.stop()

    def round(self, number: int) -> None:
        """One blow, and what follows; afterwards the replica that was hit comes back."""
        until(lambda: self._leads() is not None, "somebody leads")
        until(lambda: len(self.replicas.ready()) >= 2, "two are ready")
        leading = self._leads()
        self._pause.wait(self._chance.uniform(0.05, 0.4))
        way = WAYS[number % len(WAYS)]
        hit = leading if self._chance.random() < OF_LEADER else self._other(leading)
        epoch, _ = self._epoch()
        at_s = time.time()
        self._hit(way, hit if hit is not None else 0)
        if hit == leading:
            until(lambda: self._epoch()[0] > epoch, f"after {way}, another epoch begins")
            self.history.gaps.append(self._gap(way, at_s, epoch))
        else:
            until(lambda: self._placed_after(at_s), "something is placed")
        self._heal(way, hit if hit is not None else 0)
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            self.look()

    def look(self) -> None:
        """Look into the database as it is at this moment, and delete what waits in vain."""
        assert broken_promises(self._url) == []
        self._note()
        waits = "SELECT name FROM jobs WHERE state = 'pending' ORDER BY age OFFSET %s"
        with psycopg.connect(self._url) as connection:
            names = [row[0] for row in connection.execute(waits, (PENDING_MAX,)).fetchall()]
        for name in names:
            if not name.startswith("probe"):
                self.replicas.call("DELETE", f"/v1/namespaces/default/jobs/{name}")
        self.callers[0].mend()

    def check(self) -> list[str]:
        """Everything that is not as promised, from histories; empty when all is well."""
        self._note()
        seen = self.seen()
        found = broken_promises(self._url, seen)
        return [*found, *self._missed(), *self._deposed_wrote(), *self._ended_twice(seen)]

    def seen(self) -> Seen:
        """What all clients were told."""
        out = together(self.callers)
        for prober in self.probers:
            out.jobs |= prober.seen.jobs
            out.ended |= prober.seen.ended
            for key, uids in prober.seen.keys.items():
                out.keys[key] |= uids
        return out

    def told(self) -> str:
        """The figures of this run, in a few lines."""
        gaps = self.history.gaps
        lines = [
            f"{len(gaps)} take-overs, {len(self.seen().jobs)} acknowledged jobs, "
            f"{sum(p.placed for p in self.probers)} probes placed, "
            f"{len(self.watchers[0].events)} events at each of {len(self.watchers)} watchers "
            f"over {sum(w.streams for w in self.watchers)} streams",
            _figures("all", gaps),
        ]
        return "\n".join(lines + [_figures(w, [g for g in gaps if g.way == w]) for w in WAYS])

    # -- blows ------------------------------------------------------------------------------------

    def _hit(self, way: str, number: int) -> None:
        match way:
            case "kill":
                self.replicas.services[number].kill()
            case "stop":
                self.replicas.stop(number)
            case "cut":
                self.replicas.doors.cut(number)
            case "hole":
                self.replicas.doors.hole(number)
            case _:
                name = f"%{self.replicas.holder(number)}"
                query = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE %s AND datname = current_database()"
                )
                with psycopg.connect(self._url, autocommit=True) as connection:
                    connection.execute(query, (name,))
        if way in {"stop", "hole"}:
            self.replicas.avoid(number)

    def _heal(self, way: str, number: int) -> None:
        match way:
            case "kill":
                self.replicas.services[number].start()
            case "stop":
                self.replicas.resume(number)
            case "hole":
                if self._chance.random() < 0.5:
                    self.replicas.doors.cut(number)
                self.replicas.doors.open(number)
            case "cut":
                self.replicas.doors.open(number)

    # -- looks ------------------------------------------------------------------------------------

    def _ask(self, query: str, *values: object) -> tuple[object, ...]:
        with psycopg.connect(self._url) as connection:
            row = connection.execute(query.encode(), values).fetchone()
        return row or (None, None)

    def _epoch(self) -> tuple[int, str]:
        epoch, holder = self._ask("SELECT epoch, holder FROM leader")
        return int(str(epoch)), str(holder)

    def _leads(self) -> int | None:
        """The replica that leads and lives; None while none does."""
        holder = self._epoch()[1]
        names = [self.replicas.holder(n) for n in range(len(self.replicas.services))]
        number = names.index(holder) if holder in names else None
        return None if number in self.replicas.stopped else number

    def _other(self, number: int | None) -> int:
        others = [n for n in range(len(self.replicas.services)) if n != number]
        return self._chance.choice(others)

    def _placed_after(self, at_s: float) -> bool:
        query = "SELECT 1 FROM events WHERE kind = 'job.bound' AND at > %s LIMIT 1"
        return self._ask(query, at_s)[0] is not None

    def _gap(self, way: str, at_s: float, epoch: int) -> Gap:
        """Wait for the first placement of the epochs after one, and measure."""
        began = (
            "SELECT revision FROM events WHERE kind = 'leader.began' AND body::json->>'epoch' = %s"
        )
        revision = self._ask(began, str(epoch + 1))[0]
        first = "SELECT min(at) FROM events WHERE kind = 'job.bound' AND revision > %s"
        last = "SELECT max(at) FROM events WHERE kind = 'job.bound' AND revision < %s"
        until(lambda: self._ask(first, revision)[0] is not None, "something is placed")
        first_s = float(str(self._ask(first, revision)[0]))
        last_s = self._ask(last, revision)[0]
        return Gap(way, first_s - float(str(last_s or at_s)), first_s - at_s)

    def _note(self) -> None:
        """Remember decisions and epochs; the log forgets the former."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute("SELECT committed, chain FROM decisions").fetchall()
            self.history.decided |= {row[0]: row[1] // EPOCH_CHAINS for row in rows}
            query = "SELECT revision, body FROM events WHERE kind = 'leader.began' ORDER BY 1"
            self.history.began = [
                (row[0], _epoch_of(row[1])) for row in connection.execute(query).fetchall()
            ]

    def _ask_all_again(self, caller: Caller) -> None:
        def are_answered() -> bool:
            caller.ask_again()
            return not caller.unanswered

        until(are_answered, "every submission has an answer")

    # -- checks -----------------------------------------------------------------------------------

    def _missed(self) -> Iterator[str]:
        """Every watcher saw every event once, in order, wherever its streams ended."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute("SELECT revision, kind, uid FROM events ORDER BY revision")
            kept = rows.fetchall()
        for watcher in self.watchers:
            if not watcher.events:
                yield f"4: watcher {watcher.name} saw nothing"
                continue
            first, last = watcher.events[0][0], watcher.events[-1][0]
            if [e[0] for e in watcher.events] != list(range(first, last + 1)):
                yield f"4: watcher {watcher.name} missed or doubled events"
            expected = [row for row in kept if first <= row[0] <= last]
            have = [e for e in watcher.events if e[0] >= expected[0][0]]
            if have != expected:
                yield f"4: watcher {watcher.name} saw other events than are kept"

    def _deposed_wrote(self) -> Iterator[str]:
        """A decision is committed in the epoch it was made in, and in no later one."""
        began = self.history.began
        ends = {e: r for (_, e), (r, _) in pairwise(began)}
        starts = {epoch: revision for revision, epoch in began}
        for revision, epoch in sorted(self.history.decided.items()):
            if not starts[epoch] < revision < ends.get(epoch, 1 << 62):
                yield f"7: revision {revision} was written in epoch {epoch}, which was over"

    def _ended_twice(self, seen: Seen) -> Iterator[str]:
        """By what a watcher saw: one final state for each acknowledged job, none after another."""
        ends: dict[str, Counter[str]] = defaultdict(Counter)
        for _, kind, uid in self.watchers[0].events:
            if kind.removeprefix("job.") in FINAL:
                ends[uid][kind] += 1
        for uid in sorted(seen.jobs):
            if ends[uid].total() > 1:
                yield f"3: job {uid} ended {dict(ends[uid])}"


def load(url: str) -> None:
    """Ten nodes, two of which take only probes."""
    inventory = make_inventory({"block": 1, "leaf": 1, "rack": 2, "node": 5})
    taint = (Taint("probe"),)
    nodes = tuple(
        replace(node, taints=taint) if node.name in PROBED else node for node in inventory.nodes
    )
    with closing(open_database(url)) as database:
        own = replace(inventory, nodes=nodes)
        import_inventory(database, own, prune=False, dry_run=False, now_s=NOW_S)


def run(url: str, folder: Path, rounds: int, seed: int, *, minutes: float = 1e9) -> Rounds:
    """Rounds on a migrated database, and the checks; raises AssertionError where one fails.

    Args:
        minutes: After which no round is begun, however many are left.
    """
    print(f"PODYARD_CRASH_SEED={seed}")  # noqa: T201 - shown when the test fails
    made, ends = Rounds(url, folder, seed), time.monotonic() + 60 * minutes
    with made.running():
        for number in range(rounds):
            if time.monotonic() > ends:
                break
            made.round(number)
    found = made.check()
    print(made.told())  # noqa: T201 - figures of the run
    assert found == [], "\n".join(found)
    with closing(open_database(url)) as database:
        assert audit_ledger(database).is_clean
        assert [str(d) for d in replay_all(database) if d.differences] == []
    return made


def _figures(what: str, gaps: list[Gap]) -> str:
    if not gaps:
        return f"{what}: none"
    between, after = [g.gap_s for g in gaps], [g.silent_s for g in gaps]
    return (
        f"{what}: {len(gaps)} take-overs, gap without placements median {median(between):.2f} s, "
        f"worst {max(between):.2f} s; from the blow to the next placement median "
        f"{median(after):.2f} s, worst {max(after):.2f} s"
    )


def _epoch_of(body: str) -> int:
    return int(json.loads(body)["epoch"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Take-overs of three replicas under load.")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    asked = parser.parse_args()
    from tests.crash.server import own_server

    with own_server() as server, TemporaryDirectory(prefix="podyard-takeovers-") as folder:
        migrate(server.url)
        began = time.monotonic()
        run(server.url, Path(folder), asked.rounds, asked.seed, minutes=asked.minutes)
        took_s = time.monotonic() - began
        print(f"at most {asked.rounds} rounds in {took_s:.0f} s")  # noqa: T201 - time of the run


if __name__ == "__main__":
    main()
