"""Pieces of a gang in the domains of a narrow level: in whole tiles, and none of them small."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from scheduler.parallel.units import Digits
from scheduler.place.room import Room, Scope
from scheduler.place.spread import CANDIDATE_LIMIT, ROOT, Piece, evened, spread, start_of

INSIDE, FEW, FEW_TIGHT, ANYWHERE = "inside", "few", "few tight", "anywhere"
"""Where pieces may lie: in one domain of the level outside, in as few of these as hold them (the
last one may be tight), or wherever there is most room."""

Roomy = tuple[int, int]
"""(pods that a domain takes, domain)."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a gang is cut.

    Attributes:
        level, outer: Of the pieces, and the next level outside whose crossing costs something.
        least: Pods of the smallest piece.
        unit: Pods of a tile; each piece is so many of them.
        where: `INSIDE`, `FEW`, `FEW_TIGHT` or `ANYWHERE`.
        digits: Order of the pods, as `Units.tile_order` has it.
        even: The domains share the gang as evenly as their room allows; else the largest are
            filled and the last one is tight.
    """

    level: int
    outer: int | None
    least: int
    unit: int
    where: str
    digits: Digits
    even: bool = False

    @property
    def place(self) -> tuple[object, ...]:
        """The same for tilings of which the pieces are the same."""
        return (self.level, self.least, self.unit, self.where, self.even)


def cut(room: Room, wanted: int, tiling: Tiling, stop: int | None = None) -> list[Piece] | None:
    """Pieces that hold `wanted` pods, in tree order; None where there are none of this kind."""
    at = start_of(room, wanted)
    if at[0] >= tiling.level:
        return None
    shares = _shares(room, at, wanted, tiling)
    if shares is None:
        return None
    out: list[Piece] = []
    for domain, share in shares:
        spread(room, (tiling.level, domain), share, out, stop=stop)
    return out


def _shares(room: Room, at: Scope, wanted: int, tiling: Tiling) -> list[tuple[int, int]] | None:
    if tiling.where == ANYWHERE or tiling.outer is None or tiling.outer <= at[0]:
        return _among(room, [at], wanted, tiling)
    outer = tiling.outer
    if tiling.where == INSIDE:
        fitting = (d for _, d in _tightest(room, at, outer, wanted))
        some = islice(fitting, CANDIDATE_LIMIT)
        found = (_among(room, [(outer, domain)], wanted, tiling) for domain in some)
        return next((shares for shares in found if shares is not None), None)
    chosen = _few(room, at, outer, wanted, tiling)
    return None if chosen is None else _among(room, chosen, wanted, tiling)


def _few(room: Room, at: Scope, outer: int, wanted: int, tiling: Tiling) -> list[Scope] | None:
    """As few domains of the level outside as hold the gang in whole tiles, most room first."""
    chosen: list[Scope] = []
    left = wanted
    for _, domain in _largest(room, at, outer):
        held = _held(room, (outer, domain), tiling)
        if held < left:
            chosen.append((outer, domain))
            left -= held
            continue
        last = domain
        if tiling.where == FEW_TIGHT:
            taken = {found for _, found in chosen}
            some = islice(_tightest(room, at, outer, left), CANDIDATE_LIMIT)
            tight = (d for _, d in some if d not in taken)
            fitting = (d for d in tight if _held(room, (outer, d), tiling) >= left)
            last = next(fitting, domain)
        return [*chosen, (outer, last)]
    return None


def _held(room: Room, at: Scope, tiling: Tiling) -> int:
    """Pods that a domain holds in whole tiles."""
    return sum(count for count, _ in _floored(_largest(room, at, tiling.level), tiling))


def _floored(roomy: Iterator[Roomy], tiling: Tiling) -> Iterator[Roomy]:
    """Domains with what they take in whole tiles; those that take too little are left out."""
    for capacity, domain in roomy:
        whole = capacity - capacity % tiling.unit
        if whole >= tiling.least:
            yield whole, domain


def _among(
    room: Room, scopes: list[Scope], wanted: int, tiling: Tiling
) -> list[tuple[int, int]] | None:
    """The largest domains inside some others, the last one tight; (domain, pods), by domain."""
    level = tiling.level
    if len(scopes) == 1:
        largest = _largest(room, scopes[0], level)
    else:
        largest = iter(
            sorted((r for at in scopes for r in _largest(room, at, level)), key=_by_room)
        )
    left, out, seen = wanted, list[list[int]](), list[Roomy]()
    for capacity, domain in _floored(largest, tiling):
        seen.append((capacity, domain))
        if capacity < left:
            out.append([domain, capacity])
            left -= capacity
            continue
        if tiling.even:
            return evened(seen, wanted, len(seen), tiling.unit)
        left += _given(out, tiling.least - left, tiling)
        if left < tiling.least and out:
            return None
        taken = {at for at, _ in out}
        fitting = (
            r
            for at in scopes
            for r in islice(_floored(_tightest(room, at, level, left), tiling), len(taken) + 1)
            if r[0] >= left and r[1] not in taken
        )
        tight = min(fitting, default=(capacity, domain))
        return sorted([*((at, share) for at, share in out), (tight[1], left)])
    return None


def _given(out: list[list[int]], short: int, tiling: Tiling) -> int:
    """Pods that pieces give to the last one, which is so many short of the least."""
    given = 0
    for piece in reversed(out):
        if given >= short:
            break
        spare = (piece[1] - tiling.least) // tiling.unit * tiling.unit
        more = min(max(spare, 0), -(-(short - given) // tiling.unit) * tiling.unit)
        piece[1] -= more
        given += more
    return given


def _by_room(roomy: Roomy) -> tuple[int, int]:
    return -roomy[0], roomy[1]


def _largest(room: Room, at: Scope, level: int) -> Iterator[Roomy]:
    """Domains of a level inside another with what they hold, the most first."""
    if at == ROOT and room.scope is None:
        buckets = room.buckets(level)
        return ((count, d) for count in reversed(buckets.counts) for d in buckets.members(count))
    return iter(sorted(_inside(room, at, level), key=_by_room))


def _tightest(room: Room, at: Scope, level: int, wanted: int) -> Iterator[Roomy]:
    """Those that hold so many, the fewest first."""
    if at == ROOT and room.scope is None:
        found = room.buckets(level).at_least(wanted)
        return ((room.pods(level, domain), domain) for domain in found)
    return iter(sorted(r for r in _inside(room, at, level) if r[0] >= wanted))


def _inside(room: Room, at: Scope, level: int) -> list[Roomy]:
    lo, hi = 0, len(room.topology.levels[level].names)
    if at != ROOT:
        lo, hi = room.topology.inside(*at, level)
    return list(zip(room.pods_of(level, lo, hi), range(lo, hi), strict=True))
