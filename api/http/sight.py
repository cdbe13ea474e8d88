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

from api.http.drawing import Drawing, draw, drawn
from api.http.glance import glance
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

PATIENCE_S = 0.05
"""Longest wait behind another question; after it, what was answered last is answered again."""

DELTAS_KEPT = 64
"""Different answers to `since`; dashboards that look at the same time ask for the same."""

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
    """When something was made last, and until when that is used whatever happens."""

    revision: int = -1
    checked_s: float = 0.0
    rests_until_s: float = 0.0

    def note(self, revision: int, took_s: float, nodes: int) -> None:
        """Remember it; `took_s`, the thread's own time, is not longer on a busy machine."""
        now_s = time.monotonic()
        # The first is not taken for the rule: the world was read for it, whole.
        is_dear = nodes >= LARGE_NODES and self.revision >= 0
        rest_s = min(REST * took_s, REST_S_MAX) if is_dear else 0.0
        self.revision, self.checked_s, self.rests_until_s = revision, now_s, now_s + rest_s

    def is_current(self, known: int) -> bool:
        """Whether what was made last may be used without a look into the database."""
        now_s = time.monotonic()
        if self.revision < 0:
            return False
        is_known = self.revision >= known and now_s - self.checked_s < CHECK_S
        return is_known or now_s < self.rests_until_s


T = TypeVar("T")
Extra = Callable[[], Shape]


@dataclass(slots=True)
class _Overview:
    """The overview made last: what follows from the world, and the whole answer."""

    pace: Paced = field(default_factory=Paced)
    shape: Shape = field(default_factory=dict)
    answer: Answer | None = None


@dataclass(slots=True)
class _Map:
    pace: Paced = field(default_factory=Paced)
    drawing: Drawing | None = None
    answers: OrderedDict[int | None, Answer] = field(default_factory=OrderedDict)


class Sight:
    """The overview and the map of one process, as of its newest revision or a moment before."""

    def __init__(self, database: Database, reader: Reader) -> None:
        self._database = database
        self._reader = reader
        self._overview = _Overview()
        self._overview_lock = threading.Lock()
        self._map = _Map()
        self._map_lock = threading.Lock()

    # -- the overview -----------------------------------------------------------------------------

    def overview_at_hand(self) -> Answer | None:
        """The overview, if it can be told without a look into the database."""
        kept = self._overview
        is_current = kept.pace.is_current(self._database.notifier.known)
        return kept.answer if is_current else None

    def overview(self, stored: Extra, present: Extra) -> Answer:
        """The overview now.

        Args:
            stored: What is read from the database for it; asked once a revision.
            present: What changes without a revision; asked each time.
        """
        with self._overview_lock:
            kept = self._overview
            known, began_s = self._known(kept.pace), time.thread_time()
            if not kept.pace.is_current(known):
                shape = self._ask(glance, can_wait=kept.answer is None)
                if shape is not None:
                    kept.shape = shape | stored()
                    took_s = time.thread_time() - began_s
                    kept.pace.note(int(str(shape["revision"])), took_s, _nodes_of(shape))
            now = present()
            said = zlib.crc32(repr(now).encode())
            etag = f"{kept.shape['revision']}-{said:x}"
            if kept.answer is None or kept.answer.etag != f'"{etag}"':
                kept.answer = answer_of(kept.shape | now, etag)
            return kept.answer

    def shape(self, stored: Extra) -> Shape:
        """The overview as values, without what changes without a revision."""
        self.overview(stored, dict)
        return self._overview.shape

    # -- the map ----------------------------------------------------------------------------------

    def map_at_hand(self, since: int | None) -> Answer | None:
        """The map, if it can be told without a look into the database."""
        kept = self._map
        is_current = kept.pace.is_current(self._database.notifier.known)
        return kept.answers.get(since) if is_current else None

    def map(self, since: int | None) -> Answer:
        """The map now, or what changed of it.

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
            return self._told(kept, drawing, since)

    def _told(self, kept: _Map, drawing: Drawing, since: int | None) -> Answer:
        answer = kept.answers.get(since)
        if answer is None:
            shape = drawn(drawing, since)
            told_since = shape["since"]
            key = f"{drawing.changed}" + ("" if told_since is None else f"-{told_since}")
            answer = kept.answers[since] = answer_of(shape, key)
            if len(kept.answers) > DELTAS_KEPT:
                kept.answers.popitem(last=False)
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
