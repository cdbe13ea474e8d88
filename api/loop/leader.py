"""Leading: at most one process decides, and one that was deposed writes nothing.

SQLite: `flock` on a file beside the database. PostgreSQL: the lock of an epoch, held by a session,
and a sign of life twice a second; a holder whose session ends is replaced at once, one that is
silent for 2.5 s is deposed, and what it left in the middle is ended.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

from api.log import get_logger
from api.store.engine import Database, sqlite_path
from api.store.epoch import LeaderSession, Standing, read_leader, take_epoch

BEAT_S = 0.5
SILENT_S = 2.5
"""Five signs missed; with the time until a candidate looks again that is below 3 s."""

STUCK_EVERY = 4
"""Signs between two looks for sessions that hold others up."""

log = get_logger(__name__)


class Leader:
    """The claim of one process to lead.

    Args:
        holder: Name of this process for people.
        now_s: Time for the event of a new epoch.

    Attributes:
        epoch: Of this process while it leads, else None.
    """

    def __init__(self, database: Database, holder: str, now_s: Callable[[], float]) -> None:
        self._database = database
        self._holder = holder
        self._now_s = now_s
        self.epoch: int | None = None
        self._has_lost = False
        self._lock: _FileLock | _SessionLock = (
            _FileLock(Path(f"{sqlite_path(database.engine.url)}.lock"))
            if database.is_sqlite
            else _SessionLock(database, self._lose)
        )

    def try_lead(self) -> bool:
        """Lead if nobody does; whether this process leads now."""
        if self.epoch is not None:
            return True
        if self._has_lost:
            self._lock.release()
            self._has_lost = False
        standing = read_leader(self._database)
        if not self._lock.try_take(standing):
            return False
        epoch = take_epoch(self._database, standing.epoch, self._holder, now_s=self._now_s())
        if epoch is None:
            self._lock.release()
            return False
        self.epoch = epoch
        self._lock.keep(epoch)
        log.info("leading", epoch=epoch, holder=self._holder)
        return True

    def step_down(self) -> None:
        """Let another lead."""
        self.epoch = None
        self._lock.release()

    def _lose(self) -> None:
        log.warning("no_longer_leading", epoch=self.epoch)
        self._has_lost = True
        self.epoch = None


class _FileLock:
    """`flock` on a file; freed by the system when the process ends, however it does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def try_take(self, _standing: Standing) -> bool:
        # A live process holds its files: there is nobody to depose.
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def keep(self, _epoch: int) -> None:
        """Nothing to do: the file stays open."""

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _SessionLock:
    """The lock of an epoch, and a thread that shows that its holder lives."""

    def __init__(self, database: Database, lose: Callable[[], None]) -> None:
        self._database = database
        self._lose = lose
        self._session: LeaderSession | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def try_take(self, standing: Standing) -> bool:
        try:
            if self._session is None:
                self._session = LeaderSession(self._database)
            return self._try_take(self._session, standing)
        except BaseException:
            self.release()
            raise

    def _try_take(self, session: LeaderSession, standing: Standing) -> bool:
        epoch, is_silent = standing.epoch, standing.silent_s > SILENT_S
        holder_is_gone = session.try_lock(epoch)
        taken = (holder_is_gone or is_silent) and session.try_lock(epoch + 1)
        if holder_is_gone:
            session.unlock(epoch)
        if taken and not holder_is_gone:
            ended = session.end_transactions(standing.holder)
            log.warning(
                "leader_silent",
                epoch=epoch,
                holder=standing.holder,
                silent_s=round(standing.silent_s, 1),
                transactions_ended=ended,
            )
        return taken

    def keep(self, epoch: int) -> None:
        session = self._session
        if session is None:
            return
        self._stop = threading.Event()
        arguments = (session, epoch, self._stop)
        self._thread = threading.Thread(
            target=self._beat, args=arguments, name="podyard-leader", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(BEAT_S)
            self._thread = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def _beat(self, session: LeaderSession, epoch: int, stop: threading.Event) -> None:
        for number in count(1):
            if stop.wait(BEAT_S):
                return
            try:
                alive = session.beat(epoch)
                if number % STUCK_EVERY == 0 and session.end_stuck():
                    log.warning("stuck_transactions_ended")
            except Exception:  # an edge: whatever it is, the session and its lock are gone
                log.exception("leader_session_failed", epoch=epoch)
                alive = False
            if not alive:
                if not stop.is_set():
                    self._lose()
                return
