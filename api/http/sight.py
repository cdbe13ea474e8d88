"""What dashboards poll, made once a change for all who ask, and kept as text with its ETag.

A service that two hundred dashboards look at answers most of them without touching the database:
what was sent last is sent again, or 304. Where a new answer took long to make, as on a large
cluster, the next one is made after a pause in proportion, so that all this costs a share of a core
that does not grow with who looks or how much happens.
"""

import gzip
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from api.auth.seen import Names
from api.http.ahead import Ahead
from api.http.drawing import Drawing, draw, drawn
from api.http.glance import Glance, glance
from api.http.reader import Reader
from api.http.shapes import Shape
from api.schemas.reading import write_json
from api.store.engine import Database
from api.store.errors import FutureRevision
from scheduler.cluster.world import World

CHECK_S = 0.25
"""How late a commit of another process may be seen; one of this process is seen at once."""

LARGE_NODES = 1_000
"""Of a smaller cluster an answer takes a few milliseconds, and is made anew at every change."""

REST = 20
"""Of a large one it is used as it is for so many times as long as it took; 5 % of a core."""

REST_S_MAX = 1.0

AGE_S = 1.0
"""So long after it was current, an answer about a large cluster is given while the next is made."""

PATIENCE_S = 0.05
"""Longest wait behind another question; after it, what was answered last is answered again."""

DELTAS_KEPT = 64
"""Different answers to `since`; dashboards that look at the same time ask for the same."""

SETS_KEPT = 256
"""Sets of namespaces that those who look are bound to, each with answers of its own."""

PACKED_BYTES_MIN = 2_048


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, ready to be sent.

    Attributes:
        etag: Equal for equal answers.
        packed: The text under gzip; None where that is not worth it.
    """

    etag: str
    text: bytes
    packed: bytes | None


def answer_of(shape: Shape, etag: str) -> Answer:
    """A shape as it is sent."""
    text = write_json(shape)
    # 3: a third of the time of the usual 9, and 10 % more bytes.
    packed = gzip.compress(text, 3, mtime=0) if len(text) >= PACKED_BYTES_MIN else None
    return Answer(f'"{etag}"', text, packed)


@dataclass(slots=True)
class Paced:
    """When something was made last, and until when that is used whatever happens.

    Attributes:
        current_s: When it was last seen that nothing had changed since.
    """

    revision: int = -1
    checked_s: float = 0.0
    rests_until_s: float = 0.0
    current_s: float = -AGE_S

    def note(self, revision: int, took_s: float, nodes: int) -> None:
        """Remember it; `took_s`, the thread's own time, is not longer on a busy machine."""
        now_s = time.monotonic()
        # The first is not taken for the rule: the world was read for it, whole.
        is_dear = nodes >= LARGE_NODES and self.revision >= 0
        rest_s = min(REST * took_s, REST_S_MAX) if is_dear else 0.0
        self.revision, self.checked_s, self.rests_until_s = revision, now_s, now_s + rest_s
        self.current_s = now_s

    def is_current(self, known: int) -> bool:
        """Whether what was made last may be used without a look into the database."""
        now_s = time.monotonic()
        if self.revision < 0:
            return False
        is_known = self.revision >= known and now_s - self.checked_s < CHECK_S
        if is_known:
            self.current_s = now_s
        return is_known or now_s < self.rests_until_s


T = TypeVar("T")
Extra = Callable[[], Shape]
Stored = Callable[[Names], Shape]


@dataclass(slots=True)
class _Overview:
    """The overview made last: what follows from the world, and the answers by who asks.

    Attributes:
        shapes: Of the newest glance alone.
    """

    pace: Paced = field(default_factory=Paced)
    glance: Glance | None = None
    shapes: OrderedDict[Names, Shape] = field(default_factory=OrderedDict)
    answers: OrderedDict[Names, Answer] = field(default_factory=OrderedDict)

    def renew(self, glance: Glance, stored: Stored) -> None:
        """Take in a new glance."""
        whole = glance.shape | glance.told(None) | stored(None)
        self.glance, self.shapes = glance, OrderedDict({None: whole})
        self.answers = OrderedDict()

    def shape_for(self, names: Names, stored: Stored) -> Shape:
        """The overview as those see it who are bound to these namespaces."""
        shape = self.shapes.get(names)
        if shape is None and self.glance is not None:
            shape = self.shapes[None] | self.glance.told(names) | stored(names)
            self.shapes[names] = shape
            _keep_few(self.shapes)
        return shape or {}


@dataclass(slots=True)
class _Map:
    pace: Paced = field(default_factory=Paced)
    drawing: Drawing | None = None
    answers: OrderedDict[Names, OrderedDict[int | None, Answer]] = field(
        default_factory=OrderedDict
    )


def _keep_few(kept: OrderedDict[Names, T]) -> None:
    """Forget the set that came first; that of those who see all stays."""
    if len(kept) > SETS_KEPT:
        del kept[next(names for names in kept if names is not None)]


def mark_of(names: Names) -> str:
    """What tells the ETags of one set of namespaces from those of others."""
    if names is None:
        return ""
    return f"-{zlib.crc32(' '.join(sorted(names)).encode()):x}"


class Sight:
    """The overview and the map of one process, as of its newest revision or a moment before."""

    def __init__(self, database: Database, reader: Reader) -> None:
        self._database = database
        self._reader = reader
        self._overview = _Overview()
        self._overview_lock = threading.Lock()
        self._ahead: Ahead | None = None
        self._map = _Map()
        self._map_lock = threading.Lock()

    # -- the overview -----------------------------------------------------------------------------

    def overview_at_hand(self, names: Names = None) -> Answer | None:
        """The overview, if it can be told without a look into the database."""
        kept = self._overview
        is_current = kept.pace.is_current(self._database.notifier.known)
        return kept.answers.get(names) if is_current else None

    def overview(self, stored: Stored, present: Extra, names: Names = None) -> Answer:
        """The overview now.

        Args:
            stored: What is read from the database for it; asked once a revision for all, and once
                for each set of namespaces.
            present: What changes without a revision; asked each time.
            names: Namespaces that whoever asks is bound to; None = all.
        """
        kept = self._overview
        if kept.glance is not None and _nodes_of(kept.glance.shape) >= LARGE_NODES:
            self._ahead_of(stored, present).asked()
            answer = kept.answers.get(names)
            if answer is not None and time.monotonic() - kept.pace.current_s < AGE_S:
                return answer
        return self._make(stored, present, names)

    def _ahead_of(self, stored: Stored, present: Extra) -> Ahead:
        """Who makes the next overview of a large cluster before it is asked for."""
        if self._ahead is None:
            pace = self._overview.pace
            self._ahead = Ahead(
                lambda: self._make(stored, present, None),
                lambda: max(0.0, pace.rests_until_s - time.monotonic()),
                lambda longest_s: self._database.notifier.wait(pace.revision, longest_s),
            )
        return self._ahead

    def close(self) -> None:
        """Make nothing ahead any more."""
        if self._ahead is not None:
            self._ahead.stop()

    def _make(self, stored: Stored, present: Extra, names: Names) -> Answer:
        with self._overview_lock:
            kept = self._overview
            self._renew(stored)
            shape, now = kept.shape_for(names, stored), present()
            said = zlib.crc32(repr(now).encode())
            etag = f"{shape['revision']}-{said:x}{mark_of(names)}"
            answer = kept.answers.get(names)
            if answer is None or answer.etag != f'"{etag}"':
                answer = kept.answers[names] = answer_of(shape | now, etag)
                _keep_few(kept.answers)
            return answer

    def _renew(self, stored: Stored) -> None:
        """Look at the world again if it may have changed; the lock is held."""
        kept = self._overview
        known, began_s = self._known(kept.pace), time.thread_time()
        if kept.pace.is_current(known):
            return
        found = self._ask(glance, can_wait=kept.glance is None)
        if found is not None:
            kept.renew(found, stored)
            took_s = time.thread_time() - began_s
            revision = int(str(found.shape["revision"]))
            kept.pace.note(revision, took_s, _nodes_of(found.shape))

    def shape(self, stored: Stored) -> Shape:
        """The overview as values, without what changes without a revision."""
        with self._overview_lock:
            self._renew(stored)
            return self._overview.shapes[None]

    # -- the map ----------------------------------------------------------------------------------

    def map_at_hand(self, since: int | None, names: Names = None) -> Answer | None:
        """The map, if it can be told without a look into the database."""
        kept = self._map
        is_current = kept.pace.is_current(self._database.notifier.known)
        answers = kept.answers.get(names) if is_current else None
        return None if answers is None else answers.get(since)

    def map(self, since: int | None, names: Names = None) -> Answer:
        """The map now, or what changed of it.

        Args:
            names: Namespaces that whoever asks is bound to; None = all.

        Raises:
            FutureRevision: If `since` has not been given yet.
        """
        with self._map_lock:
            kept = self._map
            known, began_s = self._known(kept.pace), time.thread_time()
            if not kept.pace.is_current(known):
                before = kept.drawing
                made = self._ask(lambda world: draw(world, before), can_wait=before is None)
                if made is not None:
                    if before is None or made.changed != before.changed:
                        kept.answers.clear()
                    kept.drawing = made
                    took_s = time.thread_time() - began_s
                    kept.pace.note(made.revision, took_s, made.topology.node_count)
            drawing = kept.drawing
            if drawing is None:
                raise RuntimeError("a reader that was waited for gave no answer")
            if since is not None and since > drawing.revision:
                raise FutureRevision(since, drawing.revision)
            return self._told(kept, drawing, since, names)

    def _told(self, kept: _Map, drawing: Drawing, since: int | None, names: Names) -> Answer:
        answers = kept.answers.setdefault(names, OrderedDict())
        _keep_few(kept.answers)
        answer = answers.get(since)
        if answer is None:
            shape = drawn(drawing, since, names)
            told_since = shape["since"]
            key = f"{drawing.changed}" + ("" if told_since is None else f"-{told_since}")
            answer = answers[since] = answer_of(shape, key + mark_of(names))
            if len(answers) > DELTAS_KEPT:
                answers.popitem(last=False)
        return answer

    def _known(self, pace: Paced) -> int:
        """The newest revision; at most `CHECK_S` old where another process gave it."""
        notifier = self._database.notifier
        if time.monotonic() - pace.checked_s < CHECK_S:
            return notifier.known
        known = notifier.wait(pace.revision, 0.0)
        if pace.revision >= known:
            pace.checked_s = time.monotonic()
        return known

    def _ask(self, question: Callable[[World], T], *, can_wait: bool) -> T | None:
        """Ask the world; a dashboard waits behind a long question only where it has nothing."""
        if can_wait:
            return self._reader.ask(question)
        return self._reader.ask_if_free(question, PATIENCE_S)


def _nodes_of(overview: Shape) -> int:
    nodes = overview["nodes"]
    return int(nodes["total"]) if isinstance(nodes, dict) else 0
