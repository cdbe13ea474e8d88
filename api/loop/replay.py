"""Decisions of the past, made again from the log and compared."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TypeAlias

from api.store.decisions import (
    Decision,
    chains,
    find_decision,
    last_decision,
    read_base,
    read_decisions,
)
from api.store.engine import Database
from api.store.errors import NotFound
from api.store.journal import Reader
from api.store.policy import changed_policy
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.claim import Claim
from scheduler.model.plan import JobMove, Plan, PodMove, PodRecord

Decided: TypeAlias = JobMove | PodRecord | PodMove | Claim

Changes: TypeAlias = Mapping[str, object]

NO_CHANGES: Changes = MappingProxyType({})

SHOWN_MAX = 50
"""Differences told; the first few say what is wrong."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision and what the same input gives now.

    Attributes:
        differences: In words; empty when the plans are equal.
    """

    decision: Decision
    differences: tuple[str, ...]

    def __str__(self) -> str:
        plan = self.decision.plan
        made, ended = len(plan.claims), len(plan.claims_gone)
        claims = f", {made} claims made, {ended} ended" if made or ended else ""
        said = "identical" if not self.differences else f"{len(self.differences)} differences"
        return (
            f"decision on revision {self.decision.revision}, committed as "
            f"{self.decision.committed}: {len(plan.job_moves)} jobs moved, {len(plan.pods)} pods "
            f"placed, {len(plan.pod_moves)} pods moved{claims}, {len(plan.facts_done)} facts: "
            f"{said}"
        )


@dataclass(frozen=True, slots=True)
class Past:
    """The world as a decision of the past saw it, and that decision."""

    world: World
    decision: Decision


def past(db: Database, revision: int) -> Past:
    """The world of the last decision that was taken on this revision or before it.

    Raises:
        NotFound: If the log does not reach back so far.
    """
    found = last_decision(db, revision)
    base = None if found is None else read_base(db, found[0])
    if found is None or base is None:
        raise NotFound("decision", f"on revision {revision} or before")
    chain, step = found
    for reader, decision in _told(db, chain, base):
        if decision.step == step:
            _set(reader.world, decision)
            return Past(reader.world, decision)
    raise NotFound("decision", f"on revision {revision} or before")


def last_told(db: Database, rest: float = 0.0) -> Past | None:
    """The newest decision in the log with the world that it was taken on; None without one.

    It is made from the log alone, and has nothing of what the database says by now.

    Args:
        rest: So many times as long as it works this pauses in between, to leave others the
            interpreter.
    """
    known = [chain.number for chain in chains(db) if chain.count and chain.has_base]
    base = read_base(db, known[-1]) if known else None
    found: Past | None = None
    for reader, decision in () if base is None else _told(db, known[-1], _paced(base, rest)):
        found = Past(reader.world, decision)
    return found


def replay(db: Database, revision: int, changes: Changes = NO_CHANGES) -> Replayed:
    """Repeat the decision that was taken on a revision, else the one whose commit wrote it.

    Args:
        changes: Fields of the policy that are to be others than at that time.

    Raises:
        NotFound: If there is none, or the log does not reach back to what it stands on.
    """
    found = find_decision(db, revision)
    if found is None:
        raise NotFound("decision", f"on revision {revision}")
    chain, step = found
    for done in _replay(db, chain, only=step, changes=changes):
        return done
    raise NotFound("copy of the world", f"that the decision on revision {revision} stands on")


def replay_all(db: Database, changes: Changes = NO_CHANGES) -> Iterator[Replayed]:
    """Repeat every decision that the log can repeat, oldest first."""
    for chain in chains(db):
        yield from _replay(db, chain.number, changes=changes)


def _replay(
    db: Database, chain: int, *, only: int | None = None, changes: Changes = NO_CHANGES
) -> Iterator[Replayed]:
    """Those of a chain, or the one of a step; none if its base is not there."""
    base = read_base(db, chain)
    if base is None:
        return
    for reader, decision in _told(db, chain, base):
        if only is None or decision.step == only:
            now = _decide(reader, decision, changes)
            yield Replayed(decision, _differences(decision.plan, now))
        if decision.step == only:
            return


def _told(db: Database, chain: int, base: Iterable[bytes]) -> Iterator[tuple[Reader, Decision]]:
    """The decisions of a chain, each with the world that was told all that came before it."""
    reader = Reader()
    for line in base:
        reader.read(line)
    for decision in read_decisions(db, chain):
        for line in decision.told:
            reader.read(line)
        yield reader, decision


def _paced(lines: Iterable[bytes], rest: float) -> Iterator[bytes]:
    """Lines, with pauses in proportion to what the reader did with the one before."""
    for line in lines:
        began_s = time.thread_time()
        yield line
        if rest:
            time.sleep(rest * (time.thread_time() - began_s))


def _decide(reader: Reader, decision: Decision, changes: Changes) -> Plan:
    _set(reader.world, decision)
    policy = changed_policy(decision.policy, changes) if changes else decision.policy
    return run_cycle(reader.world, policy, decision.now_s)


def _set(world: World, decision: Decision) -> None:
    """What of a world is not in the lines."""
    world.revision = decision.revision
    world.facts = decision.facts
    world.paused = decision.paused
    world.map_changed = decision.map_changed


def _differences(then: Plan, now: Plan) -> tuple[str, ...]:
    if then == now:
        return ()
    found: list[str] = []
    if then.facts_done != now.facts_done:
        found.append(f"facts: {list(then.facts_done)} then, {list(now.facts_done)} now")
    found += _compare("job", then.job_moves, now.job_moves, lambda move: move.uid)
    found += _compare("new pod", then.pods, now.pods, lambda pod: pod.uid)
    found += _compare("pod", then.pod_moves, now.pod_moves, lambda move: move.uid)
    found += _compare("claim", then.claims, now.claims, lambda claim: claim.uid)
    if set(then.claims_gone) != set(now.claims_gone):
        gone = f"{list(then.claims_gone)} then, {list(now.claims_gone)} now"
        found.append(f"claims that end: {gone}")
    if then.wake_at_s != now.wake_at_s:
        found.append(f"next cycle due at {then.wake_at_s} then, {now.wake_at_s} now")
    return tuple(found or ["the same in another order"])


def _compare(
    kind: str,
    then: Iterable[Decided],
    now: Iterable[Decided],
    key: Callable[[Decided], Hashable],
) -> Iterator[str]:
    before: Mapping[Hashable, object] = {key(item): item for item in then}
    after: Mapping[Hashable, object] = {key(item): item for item in now}
    for uid in dict.fromkeys((*before, *after)):
        if before.get(uid) != after.get(uid):
            yield f"{kind} '{uid}': {_said(before.get(uid), after.get(uid))}"


def _said(then: object, now: object) -> str:
    if then is None or now is None:
        return (
            "not there then, now " + _all(now) if then is None else _all(then) + "; now not there"
        )
    changed = [
        f"{name} {getattr(then, name)!s} then, {getattr(now, name)!s} now"
        for name in (f.name for f in fields(then))  # type: ignore[arg-type]  # dataclasses, all three
        if getattr(then, name) != getattr(now, name)
    ]
    return "; ".join(changed)


def _all(item: object) -> str:
    named = ((f.name, getattr(item, f.name)) for f in fields(item))  # type: ignore[arg-type]  # as above
    return ", ".join(f"{name} {value}" for name, value in named if value not in (None, "", ()))
