"""Watches Volcano jobs and does what their policies say beside what the scheduler does by itself.

It follows the events of the store and writes facts, never bindings; what it noted stands with the
job, so that a service that is started again goes on from there, and two of them do nothing twice.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from api.clock import Clock
from api.k8s.volcano.actions import act
from api.k8s.volcano.jobs import RESOURCE
from api.k8s.volcano.life import Life, read_life, with_life
from api.k8s.volcano.pod_rules import number_at
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.signals import (
    PENDING,
    Answer,
    Signal,
    answer_to,
    has_min_success,
    is_watched,
    key_of,
    pending_limit,
    signals_of,
    spec_of,
    still_due,
)
from api.log import get_logger
from api.store.ending import End, end_jobs
from api.store.engine import Database
from api.store.errors import Gone
from api.store.events import current_revision, list_events
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, put_object
from api.store.tail import Piece
from api.store.transaction import Transaction
from api.store.views import EventView, JobView, PodView
from scheduler.errors import SchedulerError
from scheduler.model.lifecycle import FINAL, JobState

log = get_logger(__name__)

PAGE = 500
IDLE_S = 30.0
"""Between looks when nothing happens and nothing is due."""

LINGER_S = 0.05
"""After a wake, so that a burst of events is looked at once."""

AGAIN_S = 5.0
"""After a look that failed."""

UID_LENGTH = 36
"""Of a job's uid."""

COMPLETE = "CompleteJob"

_WAITS = (JobState.PENDING, JobState.RESERVED, JobState.BOUND)


class Lifecycle:
    """The watcher; `step` is one look, `start` and `stop` run it in a thread of its own."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._cursor: int | None = None
        self._watched: set[str] = set()
        self._due: dict[str, float] = {}
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._rests = False
        self._heard = -1
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="volcano", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when it has."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        self._database.tail.listen(self._hear)
        while not self._stopping.is_set():
            self._news.clear()
            try:
                pause_s = self.step()
            except Exception:  # whatever it was, the next look begins anew
                log.exception("volcano_look_failed")
                self._cursor, pause_s = None, AGAIN_S
                self._stopping.wait(pause_s)
                continue
            self._rest(pause_s)
        self._database.tail.leave(self._hear)

    def _rest(self, pause_s: float) -> None:
        """Until something happens to a job that is watched, or so long."""
        with self._lock:
            self._rests = True
            if self._cursor is not None and self._heard > self._cursor:
                # It came while the last look ended.
                pieces = self._database.tail.is_all_after(self._cursor, self._heard)
                if pieces is None or any(map(self._is_mine, pieces)):
                    self._news.set()
                else:
                    self._cursor = self._heard
        self._news.wait(pause_s)
        with self._lock:
            self._rests = False
        self._stopping.wait(LINGER_S)

    def _hear(self, piece: Piece | None) -> None:
        """Wake up for what is of interest; step over all else without a look at it."""
        with self._lock:
            if piece is None:
                self._cursor = None
                self._news.set()
                return
            self._heard = max(self._heard, piece.last)
            if not self._rests or self._news.is_set():
                return
            if self._is_mine(piece):
                self._news.set()
            elif self._cursor == piece.first - 1:
                self._cursor = piece.last

    def _is_mine(self, piece: Piece) -> bool:
        may_be_new = piece.resources is None or RESOURCE in piece.resources
        return any(
            uid[:UID_LENGTH] in self._watched or (may_be_new and kind == "job.submitted")
            for uid, kind, _ in piece.subjects()
        )

    @property
    def remembered(self) -> int:
        """Jobs that are watched, and times that are waited for."""
        return len(self._watched) + len(self._due)

    def step(self) -> float:
        """Act on all that happened and all that is due; seconds until something will be due."""
        if self._cursor is None:
            self._begin()
        # What is written on the way is for the next time: it would never end otherwise.
        known = self._database.notifier.known
        while self._follow() and (self._cursor or 0) < known:
            pass
        now_s = self._clock.now_s()
        for uid in [uid for uid, at in sorted(self._due.items()) if at <= now_s]:
            del self._due[uid]
            self._look_after(uid, ())
        soonest = min(self._due.values(), default=now_s + IDLE_S)
        return max(0.05, min(IDLE_S, soonest - now_s))

    def _begin(self) -> None:
        """Find the jobs to watch, and what has happened to them since they were looked after."""
        self._watched.clear()
        self._due.clear()
        self._cursor = current_revision(self._database)
        with look_at(self._database) as look:
            rows = [row for row in look.objects(RESOURCE) if is_watched(spec_of(row.body))]
        for row in rows:
            uid = str(row.job_uid)
            self._watched.add(uid)
            self._look_after(uid, self._missed(row))

    def _missed(self, row: ObjectRow) -> Sequence[EventView]:
        """What has happened to a job since it was last acted on, as far as it is kept."""
        found: list[EventView] = []
        since: int | None = read_life(row.body).seen
        while since is not None:
            try:
                page = list_events(self._database, since, PAGE, job_uid=str(row.job_uid))
            except Gone as gone:
                since = gone.oldest
                continue
            found += page.items
            since = None if page.next is None else int(page.next)
        return found

    def _follow(self) -> bool:
        """Act on the next events; whether there were any."""
        try:
            found = self._database.tail.after(self._cursor or 0, PAGE)
        except Gone:
            self._begin()
            return True
        self._watch_new(found)
        mine: dict[str, list[EventView]] = {}
        for event in found:
            uid = _job_of(event)
            if uid in self._watched:
                mine.setdefault(uid, []).append(event)
        for uid, events in mine.items():
            self._look_after(uid, events)
        if found:
            self._cursor = found[-1].revision
        return bool(found)

    def _watch_new(self, events: Iterable[EventView]) -> None:
        new = [event.uid for event in events if event.kind == "job.submitted"]
        if not new:
            return
        with look_at(self._database) as look:
            for row in look.objects(RESOURCE, job_uids=new):
                if is_watched(spec_of(row.body)):
                    self._watched.add(str(row.job_uid))

    def _look_after(self, uid: str, events: Sequence[EventView]) -> None:
        """Do with one job what is to be done now, in one transaction if there is anything."""
        with look_at(self._database) as look:
            seen = _seen(look, uid)
        if seen is None:
            self._watched.discard(uid)
            # Its time may be years away.
            self._due.pop(uid, None)
            return
        view, row, pods = seen
        care = care_for(view, row, pods, events, self._clock.now_s())
        if care.is_change(row):
            try:
                self._database.grouped(lambda tx: self._write(tx, uid, events), self._clock.now_s())
            except SchedulerError as error:
                log.info(
                    "volcano_action_refused", job=f"{view.namespace}/{view.name}", why=str(error)
                )
        if care.next_s is not None:
            self._due[uid] = care.next_s

    def _write(self, tx: Transaction, uid: str, events: Sequence[EventView]) -> None:
        # Looked at again: another process may have done so meanwhile.
        seen = _seen(Look(self._database, tx.connection), uid)
        if seen is None:
            return
        view, row, pods = seen
        care = care_for(view, row, pods, events, tx.now_s)
        if care.delete:
            end_jobs(tx, [End(view.namespace, view.name)])
            return
        row = replace(row, body=with_life(row.body, care.life))
        done = row
        if care.action:
            done = act(tx, view, row, care.action, care.why)
        if done is row:
            put_object(tx, row)


def _seen(look: Look, uid: str) -> tuple[JobView, ObjectRow, list[PodView]] | None:
    rows, views = look.objects(RESOURCE, job_uids=[uid]), look.jobs(uids=[uid])
    if not rows or not views:
        return None
    return views[0], rows[0], look.pods(job_uids=[uid])


def _job_of(event: EventView) -> str:
    """The job that an event is about; a pod's uid is its job's, a dash and more."""
    return event.uid[:UID_LENGTH]


class Care:
    """What is to be done with a job now.

    Attributes:
        life: As it is to be noted, but for the action.
        next_s: When it has to be looked at again; None = when something happens.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.action = ""
        self.why = ""
        self.delete = False
        self.next_s: float | None = None

    def is_change(self, row: ObjectRow) -> bool:
        return bool(self.action or self.delete) or self.life != read_life(row.body)

    def wait_until(self, at_s: float) -> None:
        self.next_s = at_s if self.next_s is None else min(self.next_s, at_s)


def care_for(
    view: JobView,
    row: ObjectRow,
    pods: Sequence[PodView],
    events: Sequence[EventView],
    now_s: float,
) -> Care:
    """Decide what is to be done with a job, from what happened and from the time."""
    spec, care = spec_of(row.body), Care(read_life(row.body))
    if view.state in FINAL:
        _expire(care, view, spec, now_s)
        return care
    news = [event for event in events if event.revision > care.life.seen]
    for event in news:
        care.life = replace(care.life, due=still_due(care.life.due, event, pods))
        for signal in signals_of(spec, view, pods, event):
            answer = answer_to(spec, signal)
            if answer is not None and not care.action:
                _take(care, signal, answer, event.revision, now_s)
    if not care.action and care.life.action != COMPLETE and has_min_success(spec, pods):
        care.action, care.why = COMPLETE, f"{spec['minSuccess']} pods have succeeded"
    _wait_in_line(care, view, spec)
    for key, at in sorted(care.life.due.items()):
        if at > now_s:
            care.wait_until(at)
        elif not care.action:
            _, cause, care.action = key.split(" ")
            care.why = f"{cause} lasted as long as its policy allows"
            left = {k: v for k, v in care.life.due.items() if k != key}
            care.life = replace(care.life, due=left)
    return care


def _take(care: Care, signal: Signal, answer: Answer, revision: int, now_s: float) -> None:
    care.life = replace(care.life, seen=revision)
    if answer.after_s:
        due = dict(care.life.due)
        due.setdefault(key_of(signal, answer.action), now_s + answer.after_s)
        care.life = replace(care.life, due=due)
        return
    code = "" if signal.exit_code is None else f" with exit code {signal.exit_code}"
    about = f" of pod '{signal.pod}'" if signal.pod else ""
    care.action, care.why = answer.action, f"{signal.event}{about}{code}"


def _wait_in_line(care: Care, view: JobView, spec: Tree) -> None:
    """Pods that are pending for too long: from the submission on, until the gang runs."""
    limit = pending_limit(spec)
    if limit is None:
        return
    key, due = key_of(Signal(PENDING), limit.action), dict(care.life.due)
    if view.state in _WAITS and care.life.action != limit.action:
        due.setdefault(key, max(view.submitted_at, care.life.at_s) + limit.after_s)
    else:
        due.pop(key, None)
    care.life = replace(care.life, due=due)


def _expire(care: Care, view: JobView, spec: Tree, now_s: float) -> None:
    if "ttlSecondsAfterFinished" not in spec or view.finished_at is None or view.live:
        return
    at = view.finished_at + number_at(spec, "ttlSecondsAfterFinished")
    if at <= now_s:
        care.delete = True
    else:
        care.wait_until(at)
