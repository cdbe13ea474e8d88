"""The newest events of a database in memory: one reader for all in this process who follow them.

What this process writes is noted as it is committed, and read by nobody. What others write is read
once, by whoever asks for it first. For events that nobody asks for nothing is done.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from api.log import get_logger
from api.store.errors import Gone
from api.store.jsontext import load_dict
from api.store.notify import Notifier
from api.store.views import EventView, Page
from scheduler.cluster.world import World

if TYPE_CHECKING:
    from api.store.transaction import Transaction

KEPT_EVENTS = 8_000
"""At least the newest so many stay in memory, a kilobyte each; who is further behind reads."""

KEPT_BYTES = 64 * 1024 * 1024
"""Of all that is kept beside the newest piece: a job of a megabyte is told of with all its text."""

EVENT_BYTES = 1_024
"""Of an event, about."""

READ_EVENTS = 500
"""Events of others that are read at a time."""

LOOK_S = 1.0
"""Longest pause between looks whether others wrote, where their commits are heard of."""

AGAIN_S = 1.0
"""Pause after a read that failed."""

Telling: TypeAlias = Callable[[World], bool]
"""Tells a world what a transaction changed; False if the world has to read that itself."""

Standing: TypeAlias = Mapping[str, object]
"""The columns of a job as a transaction left them, as far as they ever change."""

log = get_logger(__name__)


class Piece:
    """Events that follow on each other without a gap.

    Attributes:
        tellings: All that the world has to be told of them; None if nobody knows.
        jobs: How some of the jobs stood after it, by uid.
        resources: Of objects that were written along; None if nobody knows.
        size_bytes: What it takes, about.
    """

    __slots__ = ("_rows", "_views", "jobs", "last", "resources", "size_bytes", "tellings")

    def __init__(
        self,
        rows: Sequence[Mapping[str, object]] = (),
        views: Sequence[EventView] = (),
        *,
        tellings: tuple[Telling, ...] | None = None,
        jobs: Mapping[str, Standing] | None = None,
        resources: frozenset[str] | None = None,
        told_bytes: int = 0,
    ) -> None:
        self._rows = rows
        self._views = views
        self.tellings = tellings
        self.jobs: Mapping[str, Standing] = jobs or {}
        self.resources = resources
        self.last = views[-1].revision if views else _revision(rows[-1])
        self.size_bytes = told_bytes + EVENT_BYTES * len(self)

    def __len__(self) -> int:
        return len(self._rows) or len(self._views)

    @property
    def first(self) -> int:
        return self.last - len(self) + 1

    @property
    def views(self) -> Sequence[EventView]:
        """The events; made of the rows when somebody wants them."""
        if not self._views:
            self._views, self._rows = tuple(map(_view, self._rows)), ()
        return self._views

    def after(self, revision: int) -> "Piece":
        """What of it lies behind a revision."""
        return Piece(views=self.views[revision - self.first + 1 :], jobs=self.jobs)

    def uids_after(self, revision: int) -> list[str]:
        """Whom the events after a revision are about."""
        return [uid for uid, _, _ in self.subjects()[max(0, revision - self.first + 1) :]]

    def subjects(self) -> list[tuple[str, str, str]]:
        """Uid, kind and message of each event."""
        if self._views:
            return [(v.uid, v.kind, v.message) for v in self._views]
        return [(str(r["uid"]), str(r["kind"]), str(r["message"])) for r in self._rows]


Heard: TypeAlias = Callable[[Piece | None], None]
"""Called with every piece, in order or twice, in the thread that committed or read it; with None
where something may have been missed."""


class Tail:
    """What was noted and read; pieces in order, with holes where nobody read what others wrote.

    Args:
        read: Events after a revision, so many at most.
    """

    def __init__(self, read: Callable[[int, int], Page[EventView]], notifier: Notifier) -> None:
        self._read = read
        self._notifier = notifier
        self._pieces: list[Piece] = []
        self._count = 0
        self._bytes = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._listeners: tuple[Heard, ...] = ()
        self._heard = -1
        self._news = threading.Event()
        self._follower: threading.Thread | None = None
        self._closed = False

    # -- what was written here ---------------------------------------------------------------------

    def note(self, transaction: "Transaction") -> None:
        """Take in what was just committed; transactions come in their order."""
        pieces = transaction.pieces()
        with self._lock:
            for piece in pieces:
                self._put(piece)
            if self._heard == pieces[0].first - 1:
                self._heard = pieces[-1].last
        for piece in pieces:
            self._tell(piece)

    def told_since(self, revision: int) -> tuple[list[Telling], int] | None:
        """All that changed after a revision, and up to which; None if that has to be read."""
        with self._lock:
            tellings: list[Telling] = []
            at = revision
            for piece in self._pieces_after(revision):
                if piece.first != at + 1 or piece.tellings is None:
                    return None
                tellings += piece.tellings
                at = piece.last
        return (tellings, at) if at > revision else None

    def is_all_after(self, revision: int, last: int) -> "list[Piece] | None":
        """The pieces from one revision to another; None if some of it has to be read."""
        with self._lock:
            found, at = [], revision
            for piece in self._pieces_after(revision):
                if at >= last:
                    break
                if piece.first > at + 1:
                    return None
                found.append(piece)
                at = piece.last
        return found if at >= last else None

    # -- what is asked for -------------------------------------------------------------------------

    def after(self, revision: int, limit: int) -> list[EventView]:
        """Events after a revision, oldest first, at most about so many; none if there are none.

        Raises:
            Gone, FutureRevision: As `list_events`.
        """
        while True:
            with self._lock:
                found, hole = self._from_memory(revision, limit)
            if found or not hole:
                return found
            read = self._fill(revision)
            if read is not None:
                return read[:limit]

    def span(self, revision: int, last: int) -> list[EventView] | None:
        """Events from one revision to another; None if they are not all in memory."""
        pieces = self.is_all_after(revision, last)
        if pieces is None:
            return None
        return [v for piece in pieces for v in piece.views if revision < v.revision <= last]

    def _from_memory(self, revision: int, limit: int) -> tuple[list[EventView], bool]:
        """Events, and whether there may be more that have to be read to go on."""
        found: list[EventView] = []
        at = revision
        for piece in self._pieces_after(revision):
            if piece.first > at + 1:
                return found, True
            found += piece.views if piece.first > revision else piece.after(revision).views
            at = piece.last
            if len(found) >= limit:
                return found[:limit], False
        return found, at < self._notifier.known

    def _fill(self, revision: int) -> list[EventView] | None:
        """Read what others wrote; None if somebody else just did so."""
        with self._reading:
            with self._lock:
                if self._from_memory(revision, 1)[0]:
                    return None
            items = list(self._read(revision, READ_EVENTS).items)
            with self._lock:
                is_near = not self._pieces or revision >= self._pieces[0].first - 1
                if items and is_near:
                    self._insert(Piece(views=items))
        return items

    def _pieces_after(self, revision: int) -> list[Piece]:
        at = bisect_right(self._pieces, revision, key=lambda piece: piece.last)
        return self._pieces[at:]

    def _put(self, piece: Piece) -> None:
        """Append the newest; its first events may have been read by somebody already."""
        head = self._pieces[-1].last if self._pieces else -1
        if piece.last <= head:
            return
        self._pieces.append(piece if piece.first > head else piece.after(head))
        self._count_in(self._pieces[-1])

    def _insert(self, piece: Piece) -> None:
        """Put what was read where it belongs, as far as it is not there."""
        # The first piece that ends with or behind its first event: who wrote that may have noted it
        # while it was read here.
        at = bisect_right(self._pieces, piece.first - 1, key=lambda other: other.last)
        end = self._pieces[at].first if at < len(self._pieces) else None
        if end is not None and end <= piece.last:
            views = [view for view in piece.views if view.revision < end]
            if not views:
                return
            piece = Piece(views=views)
        self._pieces.insert(at, piece)
        self._count_in(piece)

    def _count_in(self, piece: Piece) -> None:
        """Make room for a piece that has come."""
        self._count += len(piece)
        self._bytes += piece.size_bytes
        while len(self._pieces) > 1 and (
            self._count - len(self._pieces[0]) >= KEPT_EVENTS or self._bytes > KEPT_BYTES
        ):
            gone = self._pieces.pop(0)
            self._count -= len(gone)
            self._bytes -= gone.size_bytes

    @property
    def size_bytes(self) -> int:
        """What is kept, about."""
        return self._bytes

    # -- who is told -------------------------------------------------------------------------------

    def listen(self, heard: Heard) -> None:
        """Have every event from now on told; others' are read as long as anybody listens."""
        with self._lock:
            if self._closed:
                return
            if not self._listeners:
                self._heard = max(self._notifier.known, self._heard)
            self._listeners = (*self._listeners, heard)
            if self._follower is None:
                self._follower = threading.Thread(
                    target=self._follow, name="podyard-tail", daemon=True
                )
                self._follower.start()

    def leave(self, heard: Heard) -> None:
        """Tell no more."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != heard)
        self._news.set()

    def look(self, known: int) -> None:
        """Have the listeners told of what others wrote, if there is anything up to a revision."""
        if self._listeners and self._heard < known:
            self._news.set()

    def close(self) -> None:
        """End the thread that reads."""
        with self._lock:
            self._closed, follower = True, self._follower
        self._news.set()
        if follower is not None and follower is not threading.current_thread():
            follower.join(2 * LOOK_S)

    def _tell(self, piece: Piece | None) -> None:
        for heard in self._listeners:
            try:
                heard(piece)
            except Exception:  # an edge: the commit stands, whoever could not be told of it
                log.exception("listener_failed")

    def _follow(self) -> None:
        """Read what others write while anybody listens; commits of this process wake nothing."""
        while self._goes_on():
            try:
                self._news.wait(min(LOOK_S, self._notifier.pause_s))
                self._news.clear()
                self._notifier.look()
                while self._heard < self._notifier.known and self._goes_on():
                    self._hear_on()
            except Gone:
                # So much happened while nothing could be read.
                self._heard = self._notifier.known
                self._tell(None)
            except Exception:  # an edge: the database may be away for a while
                log.exception("tail_read_failed")
                self._news.wait(AGAIN_S)

    def _hear_on(self) -> None:
        found = self.after(self._heard, READ_EVENTS)
        if not found:
            self._heard = max(self._heard, self._notifier.known)
            return
        piece = Piece(views=found)
        with self._lock:
            if self._heard >= piece.first:
                piece = piece.after(self._heard) if piece.last > self._heard else piece
            self._heard = max(self._heard, piece.last)
        self._tell(piece)

    def _goes_on(self) -> bool:
        with self._lock:
            if self._listeners and not self._closed:
                return True
            self._follower = None
            return False


def _revision(row: Mapping[str, object]) -> int:
    return int(str(row["revision"]))


def _view(row: Mapping[str, object]) -> EventView:
    return EventView(
        revision=_revision(row),
        at=float(str(row["at"])),
        kind=str(row["kind"]),
        subject_kind=str(row["subject_kind"]),
        namespace=str(row["namespace"]),
        name=str(row["name"]),
        uid=str(row["uid"]),
        message=str(row["message"]),
        body=load_dict(str(row["body"])),
    )
