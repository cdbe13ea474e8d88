"""The cheapest victims: remove until it fits, then put back what was not needed.

Every answer is checked against the required rules of the gang on the whole cluster, never node by
node. Victims are looked for in one domain at a time, the one that may be cheapest first; where
there are few candidates the choice is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.placement import Placement
from scheduler.place.fits import Fit
from scheduler.place.search import place
from scheduler.preempt.domains import Candidates, by_price, candidate_domains
from scheduler.preempt.proof import Proof
from scheduler.preempt.taken import Taken, cost_of
from scheduler.preempt.victims import Permission, Unit

DOMAINS_TRIED = 8
"""Domains that are searched, once one has served; they are tried in the order of what they must
cost at least, so the cheapest is nearly always among the first. Half of it on large clusters."""

EXACT_UNITS = 18
"""Candidates in one domain up to which the cheapest set is proven; of more, so many of the most
promising are tried together after the quick choice."""

EXACT_STEPS = 3_000
"""Sets that the proofs of one search may look at together, each some 20 to 50 microseconds."""

LARGE, FEW_STEPS = 64, 40
"""On clusters of more nodes than this, and for gangs of unlike roles, a look takes longer: there
are fewer then."""

NEAR = 1.03
"""An inner domain is taken if it costs at most 3 % more than the best: the gang lies closer. Where
a set is that near to what it must cost at least, no cheaper one is looked for on large clusters."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who leaves and where the gang goes then.

    Attributes:
        units: By key; empty when what is leaving already is enough.
        cost: GPU-seconds in all.
        search: `exact`: no set costs less, but for `NEAR`; `bounded` when that is not proven.
    """

    units: tuple[Unit, ...]
    placement: Placement
    cost: float
    search: str = "exact"


def choose(
    world: World, spec: JobSpec, units: Sequence[Unit], permission: Permission
) -> Chosen | None:
    """The cheapest units without which the gang has a place; None if nothing would give it one.

    The world is left as it was. Pods that are leaving anyway are released by the caller.

    Args:
        units: Every candidate, each of which might be taken by itself.
    """
    fit = Fit(world.trial, spec)
    taken = Taken(world, permission, units)
    try:
        if fit.now():
            return _placed(world, spec, (), "exact")
        found = _Search(world, fit, taken, units).cheapest()
        if found is None:
            return None
        for unit in found.units:
            taken.add(unit, free=True)
        return _placed(world, spec, found.units, "exact" if found.is_proven else "bounded")
    finally:
        taken.clear()


def _placed(world: World, spec: JobSpec, units: tuple[Unit, ...], search: str) -> Chosen | None:
    placement = place(world.trial, spec)
    if not isinstance(placement, Placement):
        return None
    units = _distinct(units)
    return Chosen(units, placement, cost_of(units), search)


def _distinct(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """By key, without members of gangs that leave as a whole."""
    whole = {unit.job.uid for unit in units if unit.is_whole}
    kept = (u for u in units if u.is_whole or u.job.uid not in whole)
    return tuple(sorted(kept, key=lambda u: u.key))


@dataclass(frozen=True, slots=True)
class _Found:
    units: tuple[Unit, ...]
    cost: float
    level: int
    is_proven: bool = False


class _Search:
    """One search: candidate domains, and the cheapest set in each."""

    def __init__(self, world: World, fit: Fit, taken: Taken, units: Sequence[Unit]) -> None:
        self._world = world
        self._fit = fit
        self._taken = taken
        wanted = fit.least_gpus
        self._units = sorted(units, key=lambda u: by_price(u, u.gpus, wanted))
        self._is_small = world.topology.node_count <= LARGE and fit.is_uniform
        self._steps_left = EXACT_STEPS if self._is_small else FEW_STEPS
        self._is_proven = True

    def cheapest(self) -> _Found | None:
        """The cheapest of what the candidate domains offer; the innermost of those about equal."""
        found: list[_Found] = []
        limit, tried = float("inf"), 0
        for candidates in candidate_domains(self._world, self._fit, self._units):
            if candidates.least_cost >= limit * NEAR:
                break
            if tried >= (DOMAINS_TRIED if self._is_small else DOMAINS_TRIED // 2):
                # The whole cluster's proof holds for every domain in it.
                self._is_proven = self._is_proven and self._fit.whole is None
                break
            one = self._in_domain(candidates, limit * NEAR)
            if one is not None:
                found.append(one)
                limit = min(limit, one.cost)
            tried += bool(found)
        near = [one for one in found if one.cost <= limit * NEAR]
        best = min(near, key=lambda one: (-one.level, one.cost), default=None)
        if best is None:
            return None
        return _Found(best.units, best.cost, best.level, self._is_proven)

    def _in_domain(self, candidates: Candidates, limit: float) -> _Found | None:
        """The cheapest set in one domain, if it costs less than the limit."""
        best: _Found | None = None
        orders = [candidates.units]
        if self._is_small:
            orders.append(sorted(candidates.units, key=lambda u: (u.cost, u.key)))
        for order in orders:
            units = self._quick(order)
            if units is not None and cost_of(units) < limit:
                limit = cost_of(units)
                best = _Found(units, limit, candidates.level)
        is_root_proven = self._fit.whole is None and candidates.level >= 0
        near = candidates.least_cost * NEAR >= limit
        if is_root_proven or (near and not self._is_small):
            return best
        return self._proven(candidates, best, limit)

    def _proven(self, candidates: Candidates, best: _Found | None, limit: float) -> _Found | None:
        """The best set, after a look at all others, or at the most promising ones."""
        promising = self._promising(candidates.units, best)
        if len(promising) > EXACT_UNITS:
            self._is_proven = False
            return best
        is_all = len(promising) == len(candidates.units)
        proof = Proof(self._fit.now, self._taken, promising, limit, self._steps_left)
        proof.run()
        self._taken.clear()
        self._steps_left = proof.steps_left
        self._is_proven = self._is_proven and is_all and proof.steps_left > 0
        if proof.best is None:
            return best
        for unit in proof.best:
            self._taken.add(unit, free=True)
        # Cut short, or with units that cost nothing, it may have some that are not needed.
        units = self._put_back()
        return _Found(units, cost_of(units), candidates.level)

    def _quick(self, order: Sequence[Unit]) -> tuple[Unit, ...] | None:
        """Remove in order until it fits, then put back what was not needed, dearest first."""
        taken, fits = self._taken, self._fit.now
        accepted: list[Unit] = []
        wanted = 1
        for unit in order:
            if taken.add(unit):
                accepted.append(unit)
                if len(accepted) == wanted:
                    if fits():
                        break
                    wanted *= 2
        if not fits():
            taken.clear()
            return None
        low, high = min(wanted // 2, len(accepted)), len(accepted)
        while low < high:
            # The fewest from the start of the order with which it fits: the more, the rather.
            middle = (low + high) // 2
            self._keep_first(accepted, middle)
            if fits():
                high = middle
            else:
                low = middle + 1
        self._keep_first(accepted, high)
        return self._put_back()

    def _put_back(self) -> tuple[Unit, ...]:
        """What is needed of the units that are out; all are in again afterwards."""
        taken = self._taken
        for unit in sorted(taken.units, key=lambda u: (-u.cost, u.key)):
            taken.drop(unit)
            if not self._fit.now():
                taken.add(unit, free=True)
        found = tuple(taken.units)
        taken.clear()
        return found

    def _keep_first(self, accepted: list[Unit], count: int) -> None:
        for unit in accepted[len(self._taken) : count]:
            self._taken.add(unit, free=True)
        for unit in accepted[count : len(self._taken)][::-1]:
            self._taken.drop(unit)

    def _promising(self, units: list[Unit], best: _Found | None) -> list[Unit]:
        """Candidates for the proof: all, or the chosen ones and the cheapest of the others."""
        if len(units) <= EXACT_UNITS:
            return units
        chosen = () if best is None else best.units
        keys = set(chosen)
        room = max(0, EXACT_UNITS - len(chosen))
        others = [unit for unit in units if unit not in keys][:room]
        rank = {unit: i for i, unit in enumerate(units)}
        return sorted((*chosen, *others), key=lambda u: rank[u])
