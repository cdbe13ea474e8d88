"""Silence: the leader judges from when agents were heard which nodes are suspect, and which lost.

It looks when the first agent could have been silent for long enough, not every second: between two
looks an agent that is heard only moves that moment on. The clock of silence stands still

- while the service was away, as it heard nobody: every agent starts afresh with a new leader, and
  when this process itself stood still;
- on the way to `lost`, while more than `breaker_share` of the agents is silent: then it is more
  likely the network. Their nodes take no new pods meanwhile, which costs nothing.

A node that comes back is seen where its heartbeat arrives (`api.store.hearing`).
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from api.log import get_logger
from api.store.echoes import FRESH_S
from api.store.leases import Lease, Leases
from api.store.silence import AT_A_TIME, Silent, heard_of, write_silence
from scheduler.cluster.world import World
from scheduler.model.lifecycle import PodState
from scheduler.model.node import Health
from scheduler.policy import Policy
from scheduler.recover.health import Heard

LOOK_EVERY_S = 1.0
"""Between two looks at least: agents that fell silent one after the other are judged together."""

STILL_LOOK_S = 5.0
"""Between looks while the clock stands still."""

STALLED_S = 10.0
"""A loop that did not turn for so long was stopped, or had no database: it heard nobody. It turns
every second, and the longest decision takes a few."""

TOLD_WITHIN_S = 2 * FRESH_S
"""After a change of the policy was noticed: who is heard later has been told of it."""

KEPT = 100
"""Times of standing still, and changes, that are remembered; the oldest concern nobody."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Own:
    """What the jobs with pods on a node have of their own.

    Attributes:
        at_s: Their `lost_after_s`.
        passed_s: Silence for which the node counts as lost so far; 0 = it does not yet.
    """

    at_s: frozenset[float]
    passed_s: float


Limits: TypeAlias = Mapping[str, Own]
"""By node, where any job has one and its pods are not lost yet."""


def limits_of(world: World) -> dict[str, Own]:
    """Of all nodes that may still be lost for silence alone, or are."""
    found: dict[str, set[float]] = {}
    for uid in world.holding:
        own_s = world.jobs[uid].spec.failure.lost_after_s
        if own_s is None:
            continue
        for pod in world.pods.get(uid, {}).values():
            if pod.is_live and pod.state is not PodState.LOST:
                found.setdefault(pod.node, set()).add(own_s)
    limits = {node: Own(frozenset(at_s), 0.0) for node, at_s in found.items()}
    for name in world.gone:
        silent_s = world.standing[name].silent_s
        if silent_s is None:
            limits.pop(name, None)
        elif world.on_node.get(name):
            limits[name] = Own(frozenset(found.get(name, ())), silent_s)
    return limits


@dataclass(frozen=True, slots=True)
class Look:
    """What was found.

    Attributes:
        silent: By node; those whose health has yet to follow.
        stands_still: More agents are silent than the policy believes at once.
        next_s: Unix seconds of the next look.
    """

    silent: dict[str, Silent]
    stands_still: bool
    next_s: float


@dataclass(slots=True)
class SilenceClock:
    """For how long agents were silent, without the times that do not count; touches nothing.

    Attributes:
        began_s: Nobody was silent before, Unix seconds.
        still: Times that do not count towards `lost`: from, to.
        lowered: When `lost_after_s` was made less, and what it was: guards of pods whose agent has
            not been heard since go by that.
    """

    began_s: float
    still: list[tuple[float, float]] = field(default_factory=list)
    lowered: list[tuple[float, float]] = field(default_factory=list)
    _still_from: float | None = None
    _limits: Limits = field(default_factory=dict)

    def look(
        self, found: Iterable[Lease], policy: Policy, now_s: float, limits: Limits | None = None
    ) -> Look:
        """Judge what is known of agents by `now_s`.

        Args:
            limits: What jobs of some nodes have of their own.
        """
        self._limits = limits or {}
        agents = [lease for lease in found if not self._is_old_news(lease, policy, now_s)]
        overdue = [a for a in agents if now_s - self._base(a) >= policy.suspect_after_s]
        stands_still = len(overdue) > policy.breaker_share * len(agents)
        self._note(now_s, stands_still=stands_still)
        silent = {
            lease.node: Silent(heard, lease.seen_s, self._counted_s(lease, now_s))
            for lease in overdue
            if (heard := self._judge(lease, policy, now_s)) is not None
        }
        return Look(silent, stands_still, self._next(agents, policy, now_s))

    def _is_old_news(self, lease: Lease, policy: Policy, now_s: float) -> bool:
        """Lost for long: nothing more becomes of it, and it says nothing of the network."""
        is_old = now_s - lease.since_s > policy.breaker_window_s
        if lease.health is not Health.LOST or not is_old or lease.seen_s > lease.since_s:
            return False
        return self._limit_s(lease, policy) is None

    def _base(self, lease: Lease) -> float:
        return max(lease.seen_s, self.began_s)

    def _judge(self, lease: Lease, policy: Policy, now_s: float) -> Heard | None:
        """What its health has yet to follow; None where it has."""
        limit_s = self._limit_s(lease, policy)
        if limit_s is not None and self._counted_s(lease, now_s) >= limit_s:
            return Heard.LOST
        return Heard.SUSPECT if lease.health is Health.HEALTHY else None

    def _limit_s(self, lease: Lease, policy: Policy) -> float | None:
        """When more is lost there than is by now; None = nothing is left to be lost."""
        if lease.health is Health.OUT:
            return None
        of_all_s = self._lost_after_s(lease, policy)
        own = self._limits.get(lease.node)
        if own is None:
            return None if lease.health is Health.LOST else of_all_s
        to_come = map(policy.lost_after_of, own.at_s)
        return min((at for at in (*to_come, of_all_s) if at > own.passed_s), default=None)

    def _lost_after_s(self, lease: Lease, policy: Policy) -> float:
        known = (was for at, was in self.lowered if lease.seen_s <= at + TOLD_WITHIN_S)
        return max(policy.lost_after_s, *known, 0.0)

    def _counted_s(self, lease: Lease, now_s: float) -> float:
        base = self._base(lease)
        stood = sum(max(0.0, min(to, now_s) - max(since, base)) for since, to in self._stood(now_s))
        return now_s - base - stood

    def _stood(self, now_s: float) -> list[tuple[float, float]]:
        if self._still_from is None:
            return self.still
        return [*self.still, (self._still_from, now_s)]

    def _note(self, now_s: float, *, stands_still: bool) -> None:
        if stands_still and self._still_from is None:
            self._still_from = now_s
        elif not stands_still and self._still_from is not None:
            self.still = [*self.still[-KEPT:], (self._still_from, now_s)]
            self._still_from = None

    def _next(self, agents: list[Lease], policy: Policy, now_s: float) -> float:
        """When the next could become suspect or lost, if it is not heard meanwhile."""
        if self._still_from is not None:
            return now_s + STILL_LOOK_S
        # An agent that is heard for the first time after this look could be silent then.
        due = [now_s + policy.suspect_after_s]
        for lease in agents:
            counted_s = self._counted_s(lease, now_s)
            limit_s = self._limit_s(lease, policy)
            if limit_s is None:
                continue
            if counted_s < policy.suspect_after_s:
                limit_s = policy.suspect_after_s
            due.append(now_s + limit_s - counted_s)
        return max(min(due), now_s + LOOK_EVERY_S)


class Silence:
    """Watches over the agents of all nodes while this process leads.

    Attributes:
        stands_still: Whether too many agents are silent at once to believe it.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._epoch: int | None = None
        self._clock = SilenceClock(0.0)
        self._policy: Policy | None = None
        self._turned_at = 0.0
        self.next_s = 0.0
        self.stands_still = False

    def turn(self, world: World, policy: Policy, epoch: int, now_s: float) -> bool:
        """Look if it is time to; whether the health of a node changed.

        Raises:
            Deposed: If the epoch is over.
        """
        turned_at, self._turned_at = self._turned_at, time.monotonic()
        if epoch != self._epoch or self._turned_at - turned_at > STALLED_S:
            self._epoch, self._clock = epoch, SilenceClock(now_s)
            self.next_s = now_s
        if policy != self._policy:
            self._take_policy(policy, now_s)
        if now_s < self.next_s:
            return False
        found = self._clock.look(heard_of(self._leases), policy, now_s, limits_of(world))
        self._tell(found)
        self.next_s = found.next_s
        if not found.silent:
            return False
        changed = write_silence(self._leases, found.silent, epoch, now_s)
        if len(found.silent) > AT_A_TIME:
            self.next_s = now_s
        log.warning("agents_silent", nodes=len(found.silent), changed=changed)
        return changed > 0

    def _take_policy(self, policy: Policy, now_s: float) -> None:
        before, self._policy, self.next_s = self._policy, policy, now_s
        if before is None or before.lost_after_s <= policy.lost_after_s:
            return
        if heard_of(self._leases):  # else there is nobody who was told of another
            lowered = (now_s, before.lost_after_s)
            self._clock.lowered = [*self._clock.lowered[-KEPT:], lowered]

    def _tell(self, found: Look) -> None:
        if found.stands_still != self.stands_still:
            self.stands_still = found.stands_still
            log.warning("silence_clock", stands_still=found.stands_still)
