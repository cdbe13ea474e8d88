"""Writes the audit log beside the requests: a batch a second, and all that is left at the end."""

import threading
from collections.abc import Callable

from api.clock import Clock
from api.log import get_logger
from api.store.audit_log import Entry, add_entries, prune_entries
from api.store.engine import Database
from scheduler.errors import Problem, SchedulerError

log = get_logger(__name__)

EVERY_S = 1.0
"""Between batches; so much of the log is lost if the process is killed."""

BATCH_MAX = 1_000
WAITING_MAX = 50_000
"""Entries that wait while the database is away; then nothing is let in that would need one."""

PRUNED_S = 3_600.0
"""Between looks for what is too old."""


class AuditBehind(SchedulerError):
    """There is no room for another entry."""


class AuditWriter:
    """Takes entries from requests; safe to use from any thread.

    Args:
        history_s: How long entries are kept.
    """

    def __init__(self, database: Database, clock: Clock, history_s: float) -> None:
        self._database, self._clock, self._history_s = database, clock, history_s
        self._waiting: list[Entry] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Write from now on."""
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._quietly(self.flush)

    def check_room(self) -> None:
        """Before something is done that has to be written down.

        Raises:
            AuditBehind: If it could not be.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise AuditBehind(
                Problem("", f"{WAITING_MAX} entries of the audit log wait for the database")
            )

    def add(self, entry: Entry) -> None:
        """Have an entry written soon."""
        with self._lock:
            self._waiting.append(entry)

    def flush(self) -> None:
        """Write all there is; entries stay until they are written."""
        with self._writing:
            while True:
                with self._lock:
                    batch = self._waiting[:BATCH_MAX]
                if not batch:
                    return
                add_entries(self._database, batch)
                with self._lock:
                    del self._waiting[: len(batch)]

    def prune(self) -> None:
        """Delete what is older than it is to be kept."""
        before_s = self._clock.now_s() - self._history_s
        while prune_entries(self._database, before_s) and not self._stopping.is_set():
            pass

    def _run(self) -> None:
        turns = 0
        while not self._stopping.wait(EVERY_S):
            self._quietly(self.flush)
            if turns % int(PRUNED_S / EVERY_S) == 0:
                self._quietly(self.prune)
            turns += 1

    def _quietly(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # an edge: the database may be away, and comes back
            log.warning("audit_log_waits", error=str(error).partition("\n")[0][:200])
