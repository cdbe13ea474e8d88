"""The loop of the leader: follow what changed, decide, commit, wait."""

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from api.clock import Clock
from api.log import get_logger
from api.loop.leader import Leader
from api.loop.outage import Outage
from api.loop.outbox import Outbox
from api.loop.pruner import Pruner
from api.loop.silence import Silence
from api.loop.stats import OUTCOMES, CycleStats
from api.metrics import Metrics
from api.store.commit import commit, write_plan
from api.store.connect import process_name
from api.store.decisions import DecisionLog, Entry
from api.store.drains import end_quarantines
from api.store.engine import Database, Settle, Transaction
from api.store.errors import Deposed
from api.store.fault_records import review_all_lemons
from api.store.faults import forget_faults
from api.store.journal import JournalWorld
from api.store.snapshot import Snapshot, follow_with_policy, load_snapshot, read_part
from api.store.telling import follow_told
from api.store.told_facts import has_settled
from api.store.views import Committed
from api.store.windows import end_windows
from api.tracing import Span, tracing
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.ids import JobId
from scheduler.model.plan import Plan
from scheduler.place.fits import Fit
from scheduler.policy import Policy

IDLE_S = 1.0
"""Longest wait: so often it is looked whether this process still leads."""

SOON_S = 0.05
"""Shortest time until a plan may have itself looked at again: if it said now, it would for ever."""

CANDIDATE_S = 0.25
"""Between attempts to lead; so soon a crashed leader is replaced. Meanwhile what changes is
followed, so that whoever takes over decides at once."""

BACKOFF_S, BACKOFF_S_MAX = 0.1, 2.0
"""Pause after a failed turn, doubled each time: so late it is noticed that the database is back."""

GIVE_WAY_S = 0.00005
"""Pause after a commit: the shortest in which another thread takes the interpreter. Without it an
answer waits for the next decision."""

ALONG_S = 0.005
"""A decision that took longer is not made in a transaction of others: they would wait for it."""

ALONG_BEHIND = 16
"""Nor is one on more news than so many revisions."""

ANSWER_S = 0.001
"""So long the loop leaves the interpreter to who is answered what was decided in a transaction of
others: there is nothing else to do."""

TRIM_EVERY_S = 30.0

JOB_HISTORY_S = 30 * 86_400.0

log = get_logger(__name__)


class Runner:
    """A thread that leads, follows, decides and commits. The app's lifespan calls start and stop.

    Args:
        metrics: Counted in, if given.
        event_history: Events kept, at least.
        job_history_s: How long records of jobs are kept after they ended.
        decisions: Where each decision is written down, with what it read; None = nowhere.
        outbox: Delivers what hooks are told, while this process leads; None = nobody does.

    Attributes:
        stats: What it did so far.
        has_turned: Set once it has decided, or knows that it can not or that another process does.
        silence: Judges which agents are silent; None where nobody hears any.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        metrics: Metrics | None = None,
        event_history: int = 200_000,
        job_history_s: float = JOB_HISTORY_S,
        decisions: DecisionLog | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._pruner = Pruner(
            database,
            clock,
            event_history=event_history,
            job_history_s=job_history_s,
            decisions=decisions,
        )
        self._decisions = decisions
        self._outbox = outbox
        self._leader = Leader(database, process_name(), clock.now_s)
        self._outage = Outage(database)
        self._known: Snapshot | None = None
        self._woken = threading.Event()
        self._stopping = threading.Event()
        # Held while the world is looked at or told of anything.
        self._turning = threading.Lock()
        self._decided_along = False
        self._thread: threading.Thread | None = None
        self._settled = False
        self.has_turned = threading.Event()
        self._led_epoch: int | None = None
        self._wake_at_s: float | None = None
        self._trimmed_at = time.monotonic()
        self.stats = CycleStats()
        self.silence: Silence | None = None

    @property
    def is_leading(self) -> bool:
        """Whether this process decides."""
        return self._leader.epoch is not None

    @property
    def is_ready(self) -> bool:
        """It leads and has run a cycle, or stands by; False while turns fail."""
        return self._settled and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin; returns at once."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="podyard-runner", daemon=True)
        self._thread.start()
        self._database.decider = self.decide_along
        if self._outbox is not None:
            self._outbox.start(lambda: self.is_leading)
        self._pruner.start(lambda: self.is_leading)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Finish the turn that runs, and let another process lead."""
        self._stopping.set()
        self._database.decider = None
        if self._outbox is not None:
            self._outbox.stop(timeout_s)
        self._pruner.stop(timeout_s)
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None
        self._leader.step_down()
        self._known = None  # without the lock, whose holder may wait for a database that is away
        if self._decisions is not None:
            self._decisions.stop(timeout_s)

    def wake(self) -> None:
        """Run a cycle soon though nothing was written, because time has moved."""
        self._woken.set()
        self._database.notifier.poke()
        if self._outbox is not None:
            self._outbox.wake()

    def _try_lead(self) -> bool:
        leads = self._leader.try_lead()
        if self._metrics is not None:
            self._metrics.leader.set(int(leads))
        return leads

    def turn(self) -> bool:
        """Lead if nobody does, follow, decide and commit once; whether anything was written.

        Raises:
            Deposed: If another process leads by now.
        """
        with self._turning:
            return self._turn()

    def _turn(self) -> bool:
        if not self._try_lead():
            self._stand_by()
            return False
        if self._led_epoch != self._leader.epoch:
            self._led_epoch = self._leader.epoch
            self._woken.set()
            if self._known is not None and isinstance(self._known.world, JournalWorld):
                # Each epoch begins a chain of decisions of its own.
                self._known.world.rest()
        woken = self._woken.is_set()
        self._woken.clear()
        began = time.perf_counter()
        world, policy, has_news = self._follow()
        has_more_time = self._give_back_time(world)
        if self._judge_silence(world, policy) or has_more_time:
            world, policy, has_news = *self._follow()[:2], True
        self.stats.follow_s = time.perf_counter() - began
        self.stats.revision = world.revision
        if not (has_news or woken or self._is_time_due()):
            return False
        with tracing.span("cycle", revision=world.revision):
            wrote = self._cycle(world, policy)
        self._settled = True
        self.has_turned.set()
        return wrote

    def _stand_by(self) -> None:
        """Follow what changes, as whoever takes over has to know it at once."""
        began = time.perf_counter()
        world, _, _ = self._follow()
        if isinstance(world, JournalWorld):
            world.rest()
        self._wake_at_s = None
        self.stats.follow_s = time.perf_counter() - began
        self.stats.revision = world.revision
        self._settled = True
        self.has_turned.set()

    def _give_back_time(self, world: World) -> bool:
        """Whether a gang got more time, as nobody looked for a while."""
        epoch = self._leader.epoch
        return epoch is not None and self._outage.turn(world, epoch, self._clock.now_s())

    def _judge_silence(self, world: World, policy: Policy) -> bool:
        """Whether the health of a node changed, as its agent was silent for too long."""
        epoch = self._leader.epoch
        if self.silence is None or epoch is None:
            return False
        return self.silence.turn(world, policy, epoch, self._clock.now_s())

    def _follow(self) -> tuple[World, Policy, bool]:
        """The world and policy as of now, and whether there was a change."""
        if self._known is None:
            kind = World if self._decisions is None else JournalWorld
            with self._uncollected():
                known = load_snapshot(self._database, kind, head_first=True)
                # What came while it was read, which may take a second, is decided on with it.
                latest = follow_with_policy(self._database, known.world) or known.policy
            self._known = Snapshot(known.world, latest, known.backlog)
            return known.world, latest, True
        world, backlog = self._known.world, self._known.backlog
        before = world.revision
        is_told = backlog is None and follow_told(self._database, world)
        if is_told and has_settled(world, before):
            return world, self._known.policy, True
        map_before = world.topology
        with self._uncollected(lambda: world.topology is not map_before):
            policy = follow_with_policy(self._database, world)
        has_news = is_told or policy is not None or backlog is not None
        if backlog is not None and policy is None:
            # Only when nothing else is to be done.
            with self._uncollected():
                backlog = None if read_part(self._database, world, backlog) else backlog
        self._known = Snapshot(world, policy or self._known.policy, backlog)
        return world, self._known.policy, has_news

    @contextmanager
    def _uncollected(self, is_kept: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """What is loaded here is there to stay, as a map is.

        A collection that looked through all of it, while it comes or later in the middle of a
        decision, would take longer than most decisions do.
        """
        if self._thread is None:
            yield
            return
        gc.disable()
        try:
            yield
        finally:
            if is_kept():
                gc.freeze()
            gc.enable()

    def _cycle(self, world: World, policy: Policy) -> bool:
        epoch = self._leader.epoch
        if epoch is None:
            return False
        now_s = self._clock.now_s()
        plan = self._decide(world, policy, now_s)
        decided = time.perf_counter()
        time.sleep(0)  # requests go first: commit takes the interpreter again
        done, entry = Committed(world.revision), None
        if not plan.is_empty():
            entry = self._entry(world, policy, plan, now_s, epoch)
            with _commit_span(plan) as span:
                done = commit(self._database, plan, epoch, now_s, entry)
                span.set_attribute("revision", done.revision)
        self._take_note(world, done, entry, time.perf_counter() - decided)
        if done.changed:
            time.sleep(GIVE_WAY_S)  # who waited for this is answered first
        return done.changed

    def _decide(self, world: World, policy: Policy, now_s: float) -> Plan:
        began = time.perf_counter()
        with tracing.span("decide"):
            plan = run_cycle(world, policy, now_s)
        self._wake_at_s = None if plan.wake_at_s is None else max(plan.wake_at_s, now_s + SOON_S)
        self.stats.decide_s = time.perf_counter() - began
        return plan

    def _take_note(
        self, world: World, done: Committed, entry: Entry | None, commit_s: float
    ) -> None:
        """What there is to do and to count once a decision is committed."""
        if self._decisions is not None and entry is not None:
            self._decisions.settle(entry)
        if done.deliveries and self._outbox is not None:
            self._outbox.wake()
        if not done.dropped:
            world.map_changed = False
        self.stats.cycles += 1
        self.stats.commit_s = commit_s
        self.stats.add(done)
        if done.changed:
            log.debug("committed", revision=done.revision, events=dict(done.events))
        self._count(done)

    # -- in the transaction of others --------------------------------------------------------------

    def decide_along(self, tx: Transaction) -> Settle | None:
        """Decide on jobs in the very transaction that brings them, while nothing else goes on.

        Who waits for a place then waits for one commit. What the transaction has written is known
        to nobody else yet: if it is not committed, the world here is read anew.
        """
        if not self._turning.acquire(blocking=False):
            return None  # the loop looks at something, and at what this brings next
        settle: Settle | None = None
        try:
            settle = self._decide_along(tx)
        except BaseException:
            self._known = None
            raise
        finally:
            if settle is None:
                self._turning.release()
        return settle

    def _decide_along(self, tx: Transaction) -> Settle | None:
        epoch, known = self._leader.epoch, self._known_at(tx.locked)
        if epoch is None or known is None:
            return None
        piece, world = tx.split(), known.world
        if piece is None or piece.tellings is None:
            return None
        if not all(telling(world) for telling in piece.tellings):
            self._known = None
            return None
        world.revision = tx.revision
        done, entry, began = Committed(tx.revision), None, time.perf_counter()
        if all_fit(world, [uid for uid, _, _ in piece.subjects()]):
            tx.now_s = now_s = self._clock.now_s()
            plan = self._decide(world, known.policy, now_s)
            began = time.perf_counter()
            if not plan.is_empty():
                entry = self._entry(world, known.policy, plan, now_s, epoch)
                with _commit_span(plan):
                    done = write_plan(tx, plan, epoch, entry)
        else:
            self._woken.set()  # it may take long to find out what is to be done
        return partial(self._settle_along, world, done, entry, began)

    def _known_at(self, revision: int) -> Snapshot | None:
        """What is known, if that is all there is at a revision and deciding on it takes no time."""
        known = self._known
        is_busy = self.stats.decide_s > ALONG_S or self._led_epoch != self._leader.epoch
        if known is None or known.backlog is not None or is_busy or not self._settled:
            return None
        world = known.world
        if isinstance(world, JournalWorld) and world.is_remade:
            return None
        if 0 < revision - world.revision <= ALONG_BEHIND:
            follow_told(self._database, world)
        return known if world.revision == revision and not world.facts else None

    def _settle_along(
        self,
        world: World,
        done: Committed,
        entry: Entry | None,
        began: float,
        is_committed: bool,  # noqa: FBT001 - whoever calls back has no names
    ) -> None:
        try:
            if is_committed:
                self._take_note(world, done, entry, time.perf_counter() - began)
                self._decided_along = True
            else:
                self._known = None
        finally:
            self._turning.release()

    def _entry(
        self, world: World, policy: Policy, plan: Plan, now_s: float, epoch: int
    ) -> Entry | None:
        if self._decisions is None or not isinstance(world, JournalWorld):
            return None
        return self._decisions.prepare(world, policy, plan, now_s, epoch)

    def _count(self, done: Committed) -> None:
        if self._metrics is None:
            return
        stats = self.stats
        self._metrics.observe_cycle(stats.follow_s + stats.decide_s + stats.commit_s)
        self._metrics.observe_decision(stats.decide_s)
        self._metrics.count_decisions("dropped", len(done.dropped))
        for kind, count in done.events.items():
            if kind in OUTCOMES:
                self._metrics.count_decisions(OUTCOMES[kind], count)
        known = self._database.notifier.known
        self._metrics.runner_lag.set(max(0, known - done.revision))

    def _is_time_due(self) -> bool:
        """Whether the time has come that the last plan wants to be looked at again."""
        return self._wake_at_s is not None and self._clock.now_s() >= self._wake_at_s

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                wrote = self.turn()
                failures = 0
                if not wrote:
                    self._wait()
                if self._decided_along:
                    self._decided_along = False
                    time.sleep(ANSWER_S)
            except Deposed as error:
                log.warning("deposed", epoch=error.epoch, current=error.current)
                self._leader.step_down()
                self._forget()
            except Exception:  # an edge: the loop outlives whatever a turn runs into
                log.exception("turn_failed", failures=failures + 1)
                self.stats.failures += 1
                if self._metrics is not None:
                    self._metrics.failures.inc()
                failures += 1
                self._settled = False
                self.has_turned.set()
                # Memory may be what is wrong; the database is the record.
                self._forget()
                self._stopping.wait(min(BACKOFF_S * 2 ** (failures - 1), BACKOFF_S_MAX))

    def _forget(self) -> None:
        with self._turning:
            self._known = None

    def _wait(self) -> None:
        known = self._known
        if known is not None and known.backlog is not None:
            return  # there is more to read
        if known is None or not self.is_leading:
            self._stopping.wait(CANDIDATE_S)
            return
        self._trim()
        wait_s = IDLE_S
        if self._wake_at_s is not None:
            # A manual clock may stand still just before it: then this is a look from time to time.
            wait_s = min(max(self._wake_at_s - self._clock.now_s(), SOON_S), IDLE_S)
        self._database.notifier.wait(known.world.revision, wait_s, self._woken.is_set)

    def _trim(self) -> None:
        """End what is over, while there is nothing else to do."""
        if time.monotonic() - self._trimmed_at < TRIM_EVERY_S:
            return
        self._trimmed_at = time.monotonic()
        now_s = self._clock.now_s()
        end_windows(self._database, now_s=now_s)
        end_quarantines(self._database, now_s=now_s)
        review_all_lemons(self._database, now_s=now_s)
        forget_faults(self._database, now_s=now_s)


def all_fit(world: World, uids: Sequence[str]) -> bool:
    """Whether each of some gangs fits by itself: then it will hardly be asked who must go."""
    found = (world.jobs.get(JobId(uid)) for uid in uids)
    return all(job is not None and Fit(world.trial, job.spec).now() for job in found)


def _commit_span(plan: Plan) -> AbstractContextManager[Span]:
    return tracing.span("commit", jobs=len(plan.job_moves), pods=len(plan.pods))
