"""The decision log: what each cycle read and what it decided, so that it can be decided again.

A chain begins with a base, a copy of the whole world, and goes on with entries that say what the
world was told since. Each loading of the world and each new map begins another chain, and so does
an old one's length, so that what is older can go. An entry is written in the transaction of its
plan's commit.
"""

import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count

import sqlalchemy as sa

from api.log import get_logger
from api.pace import Pace
from api.schemas.decision import dump_facts, dump_plan, load_facts, load_plan
from api.store.engine import Database, Transaction
from api.store.journal import Frozen, JournalWorld
from api.store.jsontext import dump_json, load_dict, load_list
from api.store.policy import parse_policy
from api.store.rows import AnyRow
from api.store.tables import decision_bases, decisions
from scheduler.model.plan import Fact, Plan
from scheduler.policy import Policy

CHAINS_PER_EPOCH = 1 << 20
"""Chains are numbered by epoch, then as they come."""
AT_ONCE = 2_000
"""Records of a world that is copied within the commit, in some 10 ms; a larger one is copied by a
thread of its own, and until that is done its decisions cannot be repeated."""
PARTS = 8
"""Chains that make up a full log; the oldest goes when the newest is so long."""
LEVEL = 1
"""Of zlib: the quickest, which still leaves a tenth."""

log = get_logger(__name__)


@dataclass(slots=True)
class Entry:
    """One decision on its way into the log.

    Attributes:
        base: Of its chain, if that goes along.
        is_written: The commit had something to write, and so wrote this too.
    """

    chain: int
    step: int
    revision: int
    content: bytes
    base: bytes | None
    is_written: bool = False

    def write(self, tx: Transaction, dropped: Iterable[str]) -> None:
        """Insert it; the caller has taken all revisions of its transaction."""
        if self.base is not None:
            base = {"chain": self.chain, "content": self.base}
            tx.connection.execute(_INSERT_BASE, base)
        row: dict[str, object] = {
            "chain": self.chain,
            "step": self.step,
            "revision": self.revision,
            "committed": tx.revision,
            "at": tx.now_s,
            "dropped": dump_json(sorted(dropped)),
            "content": self.content,
        }
        tx.put_last(decisions, [row])
        self.is_written = True


@dataclass(slots=True)
class _Chain:
    """How far the newest chain is.

    Attributes:
        step: Of the next entry.
        size: Bytes of the entries.
        told: Lines that no entry has taken along yet.
        base: To go along with the first entry; None once it did, or if a thread writes it.
    """

    number: int
    step: int = 0
    size: int = 0
    base_size: int = 0
    told: list[bytes] = field(default_factory=list)
    base: bytes | None = None


class DecisionLog:
    """Writes the log; used by the thread of the runner alone.

    Args:
        keep, keep_bytes: Most decisions, and bytes of them as stored, that are kept at rest; for a
            while there may be an eighth more.
    """

    def __init__(self, db: Database, *, keep: int, keep_bytes: int) -> None:
        self._db = db
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._chain: _Chain | None = None
        self._policy: tuple[Policy | None, bytes] = (None, b"")
        self._number = 0
        self._next_copy: tuple[Frozen | None, _Chain] | None = None
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()

    def prepare(
        self, world: JournalWorld, policy: Policy, plan: Plan, now_s: float, epoch: int
    ) -> Entry:
        """A decision as text, to be written by the commit and then handed to `settle`.

        To be called before anything else is told to the world that the plan was decided on.
        """
        chain = self._chain
        if chain is None or world.is_remade or self._is_long(chain):
            self._number = max(self._number + 1, epoch * CHAINS_PER_EPOCH)
            chain = self._chain = _Chain(self._number)
            self._copy(world, chain)
        chain.told += world.take()
        lines = (*chain.told, self._policy_line(policy), *_cycle_lines(world, plan, now_s))
        content = zlib.compress(b"\n".join(lines), LEVEL)
        return Entry(chain.number, chain.step, plan.revision, content, chain.base)

    def settle(self, entry: Entry) -> None:
        """Go on to the next entry if this one was written; else it takes along what was told."""
        # Not before the commit, which would have to share the interpreter with the copying.
        self._start_copying()
        chain = self._chain
        if chain is None or not entry.is_written:
            return
        chain.step += 1
        chain.size += len(entry.content)
        chain.told, chain.base = [], None

    def _policy_line(self, policy: Policy) -> bytes:
        """The policy as text, which is the same for a long time."""
        known, line = self._policy
        if known is not policy:
            line = b"policy " + dump_json(asdict(policy)).encode()
            self._policy = (policy, line)
        return line

    def trim(self) -> None:
        """Forget what is beyond the limits."""
        trim_decisions(self._db, keep=self._keep, keep_bytes=self._keep_bytes)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Wait for the thread that copies a large world, if there is one."""
        if self._thread is not None:
            self._hurry.set()
            self._thread.join(timeout_s)
        self._chain = self._next_copy = None

    def _is_long(self, chain: _Chain) -> bool:
        """Whether it has its share of what is kept, or at least as much as its base."""
        if self._thread is not None and self._thread.is_alive():
            return False
        size = max(self._keep_bytes // PARTS, chain.base_size)
        return chain.step >= max(1, self._keep // PARTS) or chain.size >= size

    def _copy(self, world: JournalWorld, chain: _Chain) -> None:
        frozen: Frozen | None = world.freeze()
        if frozen is not None and len(frozen) <= AT_ONCE:
            chain.base, frozen = _compressed(frozen.lines()), None
            chain.base_size = len(chain.base)
        self._next_copy = (frozen, chain)

    def _start_copying(self) -> None:
        if self._next_copy is None or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(
            target=self._copy_and_trim, args=self._next_copy, name="podyard-decisions", daemon=True
        )
        self._next_copy = None
        self._hurry.clear()
        self._thread.start()

    def _copy_and_trim(self, frozen: Frozen | None, chain: _Chain) -> None:
        try:
            if frozen is not None:
                content = _compressed(Pace(self._hurry.wait).through(frozen.lines()))
                chain.base_size = len(content)
                with self._db.write_quietly() as connection:
                    row = {"chain": chain.number, "content": content}
                    connection.execute(_INSERT_BASE, row)
            self.trim()
        except Exception:  # an edge: the log is a help, and nothing else waits for it
            log.exception("decision_base_failed", chain=chain.number)


def _compressed(lines: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(LEVEL)
    parts = [packer.compress(line + b"\n") for line in lines]
    return b"".join((*parts, packer.flush()))


def _cycle_lines(world: JournalWorld, plan: Plan, now_s: float) -> Iterator[bytes]:
    cycle = {"now_s": now_s, "paused": world.paused, "map_changed": world.map_changed}
    yield b"facts " + dump_facts(world.facts)
    yield b"cycle " + dump_json(cycle).encode()
    yield b"plan " + dump_plan(plan)


_INSERT_BASE = sa.insert(decision_bases)


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision as it was.

    Attributes:
        revision: Of the world it was decided on.
        committed: The last revision that its commit wrote.
        at: Time of the commit.
        dropped: Uids of jobs that the commit left out.
        told: Lines of what the world was told since the entry before.
        map_changed, paused: Of the world.
    """

    chain: int
    step: int
    revision: int
    committed: int
    at: float
    dropped: tuple[str, ...]
    told: tuple[bytes, ...]
    policy: Policy
    facts: list[Fact]
    now_s: float
    paused: bool
    map_changed: bool
    plan: Plan


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain as it is kept.

    Attributes:
        count: Decisions.
        size: Bytes as stored.
        has_base: Else nothing of it can be repeated.
    """

    number: int
    count: int
    size: int
    has_base: bool


def find_decision(db: Database, revision: int) -> tuple[int, int] | None:
    """Chain and step of the decision on this revision, else of the one whose commit wrote it."""
    columns = (decisions.c.chain, decisions.c.step, decisions.c.revision, decisions.c.committed)
    newest = (decisions.c.revision.desc(), decisions.c.chain.desc(), decisions.c.step.desc())
    with db.read() as connection:
        query = sa.select(*columns).where(decisions.c.revision <= revision).order_by(*newest)
        row = connection.execute(query.limit(1)).first()
    if row is None or not (row.revision == revision or row.revision < revision <= row.committed):
        return None
    return row.chain, row.step


def last_decision(db: Database, revision: int) -> tuple[int, int] | None:
    """Chain and step of the last decision on this revision or before it."""
    newest = (decisions.c.revision.desc(), decisions.c.chain.desc(), decisions.c.step.desc())
    query = sa.select(decisions.c.chain, decisions.c.step)
    with db.read() as connection:
        row = connection.execute(
            query.where(decisions.c.revision <= revision).order_by(*newest).limit(1)
        ).first()
    return None if row is None else (row.chain, row.step)


def chains(db: Database) -> list[Chain]:
    """What the log holds, oldest first."""
    content = (decisions.c.chain, sa.func.count(), sa.func.sum(sa.func.length(decisions.c.content)))
    of_base = (decision_bases.c.chain, sa.func.length(decision_bases.c.content))
    with db.read() as connection:
        entries = {
            chain: (count, size)
            for chain, count, size in connection.execute(
                sa.select(*content).group_by(decisions.c.chain)
            )
        }
        bases = dict(connection.execute(sa.select(*of_base)).all())
    found = []
    for number in sorted(entries.keys() | bases.keys()):
        count, size = entries.get(number, (0, 0))
        found.append(Chain(number, count, int(size) + bases.get(number, 0), number in bases))
    return found


def read_base(db: Database, chain: int) -> list[bytes] | None:
    """The lines of a chain's base; None if there is none."""
    with db.read() as connection:
        content = connection.execute(
            sa.select(decision_bases.c.content).where(decision_bases.c.chain == chain)
        ).scalar_one_or_none()
    return None if content is None else zlib.decompress(content).splitlines()


def read_decisions(db: Database, chain: int) -> Iterator[Decision]:
    """The decisions of a chain, in order."""
    for step in count():
        with db.read() as connection:
            query = sa.select(decisions).where(decisions.c.chain == chain, decisions.c.step == step)
            row = connection.execute(query).one_or_none()
        if row is None:
            return
        yield _decision(row)


def trim_decisions(db: Database, *, keep: int, keep_bytes: int) -> int:
    """Forget the oldest chains until no more than so much is left, but never the newest.

    Returns:
        Decisions forgotten.
    """
    held = chains(db)
    left, size = sum(c.count for c in held), sum(c.size for c in held)
    gone = 0
    first = held[0].number if held else 0
    while len(held) > 1 and (left > keep or size > keep_bytes):
        oldest = held.pop(0)
        left, size, gone = left - oldest.count, size - oldest.size, gone + oldest.count
    if held and held[0].number != first:
        with db.write_quietly() as connection:
            for table in (decisions, decision_bases):
                connection.execute(sa.delete(table).where(table.c.chain < held[0].number))
    return gone


def _decision(row: AnyRow) -> Decision:
    lines = zlib.decompress(row.content).splitlines()
    last = {word: body for word, _, body in (line.partition(b" ") for line in lines[-4:])}
    cycle = load_dict(last[b"cycle"].decode())
    return Decision(
        chain=row.chain,
        step=row.step,
        revision=row.revision,
        committed=row.committed,
        at=row.at,
        dropped=tuple(map(str, load_list(row.dropped))),
        told=tuple(lines[:-4]),
        policy=parse_policy(last[b"policy"].decode()),
        facts=load_facts(last[b"facts"]),
        now_s=float(str(cycle["now_s"])),
        paused=bool(cycle["paused"]),
        map_changed=bool(cycle["map_changed"]),
        plan=load_plan(last[b"plan"]),
    )
